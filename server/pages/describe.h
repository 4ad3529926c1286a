// `voxeld --describe`: every table of the service as JSON. Any thread.
#ifndef VOXELD_DESCRIBE_H
#define VOXELD_DESCRIBE_H

#include "api/base/text.h"

void describe_write(struct text *out);

#endif

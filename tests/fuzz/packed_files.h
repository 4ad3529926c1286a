// Reads a packed file of points, for drivers that fuzz such a format: any bytes give either points, all of them written
// and nothing else, or an error with a reason. One thread.
#ifndef VOXELD_PACKED_FILES_H
#define VOXELD_PACKED_FILES_H

#include <stdint.h>

#include "api/wire/gather.h"

void packed_file_read(enum body_format format, const uint8_t *data, size_t size);

#endif

// Reads a packed file of points, for the fuzzers of such formats. Aborts unless the bytes give either an error with a
// reason, or points whose bytes the reader has all written. One thread.
#ifndef VOXELD_PACKED_FILES_H
#define VOXELD_PACKED_FILES_H

#include <stdint.h>

#include "api/wire/gather.h"

void packed_file_read(enum body_format format, const uint8_t *data, size_t size);

#endif

// LZF, the compression of PCD's binary_compressed. Any thread; nothing here allocates.
#ifndef VOXELD_LZF_H
#define VOXELD_LZF_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/stop.h"

// False if the bytes do not unpack to exactly `room` bytes, or the job is stopped.
bool lzf_unpack(const char *bytes, size_t size, char *out, size_t room, struct vx_stop *stop);

#endif

// Blobs of cloudini, versions 2 to 5: a header, then chunks of points (cloudini_unpack.h). A CompressedPointCloud2 may
// contain such a blob. Any thread; nothing here allocates.
#ifndef VOXELD_CLOUDINI_H
#define VOXELD_CLOUDINI_H

#include "api/wire/formats.h"

bool cloudini_looks(const char *bytes, size_t size);

// Reads the header. Checks that the chunks are complete. `width` and `height` may be NULL.
VX_WARN_UNUSED bool cloudini_open(const char *bytes, size_t size, struct cloud_file *file, int64_t *width,
                                  int64_t *height, struct error *error);

#endif

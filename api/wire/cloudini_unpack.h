// The chunks of a blob of cloudini. Most values are deltas, as numbers of variable length; LZ4 or zstd may compress a
// chunk. Any thread; nothing here allocates.
#ifndef VOXELD_CLOUDINI_UNPACK_H
#define VOXELD_CLOUDINI_UNPACK_H

#include "api/wire/formats.h"

enum { CLOUDINI_NONE, CLOUDINI_LOSSY, CLOUDINI_LOSSLESS };  // cloud_packing.encoding
enum { CLOUDINI_PLAIN, CLOUDINI_LZ4, CLOUDINI_ZSTD };       // cloud_packing.compressor
enum { CLOUDINI_CHUNK = 32768 };                            // points of a chunk; a blob of version 2 is one chunk

// The most bytes of a value in a chunk.
size_t cloudini_value_bytes(const struct cloud_packing *packing, const struct cloud_field *field);

// Unpacks a blob that cloudini_open has checked; see cloud_unpack.
VX_WARN_UNUSED bool cloudini_unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error);

#endif

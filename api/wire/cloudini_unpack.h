// The chunks of a blob of cloudini. The columns of a chunk are deltas, as numbers of variable length, which LZ4 or zstd
// may compress once more.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_CLOUDINI_UNPACK_H
#define VOXELD_CLOUDINI_UNPACK_H

#include "api/wire/formats.h"

// What the header of a blob says, as numbers.
enum { CLOUDINI_NONE, CLOUDINI_LOSSY, CLOUDINI_LOSSLESS };  // cloud_packing.encoding
enum { CLOUDINI_PLAIN, CLOUDINI_LZ4, CLOUDINI_ZSTD };       // cloud_packing.compressor
enum { CLOUDINI_CHUNK = 32768 };  // points of a chunk, since version 3; a blob of version 2 has one chunk

// The most bytes that a value of the field has in a chunk.
size_t cloudini_value_bytes(const struct cloud_packing *packing, const struct cloud_field *field);

// Unpacks the points of a blob whose chunks are whole; see cloud_unpack.
VX_WARN_UNUSED bool cloudini_unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error);

#endif

// An answer with tensors: a safetensors file around them.
//
// A safetensors file is an 8-byte little-endian length, a JSON header of that many bytes, and the tensors without holes
// (github.com/huggingface/safetensors). The header goes in front of the tensors but holds the times of writing them, so
// room is reserved first and filled last; spaces, which the format allows there, take up the rest. Tensors start on 64
// bytes: if the one before ends elsewhere, a U8 tensor `_padding_N` stands between. Any thread; nothing here allocates.
#ifndef VOXELD_SAFETENSORS_H
#define VOXELD_SAFETENSORS_H

#include "api/wire/metadata.h"

#define SAFETENSORS_MEDIA_TYPE "application/vnd.safetensors"

// Bytes to reserve in front of the tensors: whatever the times turn out to be, the header fits. A multiple of 64.
size_t answer_header_reserve(const struct answer *answer, const struct vx_layout *layout);

// Writes all of the file but its tensors: length prefix and header over block[0..reserve), zeros between the tensors
// behind.
void answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve);

#endif

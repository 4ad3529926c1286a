// Writes the safetensors file around an answer's tensors: an 8-byte little-endian length, a JSON header of that many
// bytes, the tensors without holes (github.com/huggingface/safetensors). Any thread; nothing here allocates.
//
// The header says how long it took to write the tensors, so its room is reserved first, and filled last, with spaces at
// the end. Each tensor starts on a multiple of 64 bytes; a U8 tensor `_padding_N` fills the gap before it.
//
// In a shuffled file (metadata "filter": "shuffle") the bytes of a tensor of one or two dimensions are planes, which
// compress better: the first bytes of all rows, then the second bytes, and so on. Other tensors are unchanged.
#ifndef VOXELD_SAFETENSORS_H
#define VOXELD_SAFETENSORS_H

#include "api/wire/metadata.h"

#define SAFETENSORS_MEDIA_TYPE "application/vnd.safetensors"
#define SHUFFLED_MEDIA_TYPE "application/x-shuffled-safetensors"

// Bytes to reserve before the tensors, a multiple of 64, enough for the longest times. If the answer has no times, its
// header is kept for answer_frame_write if there is room for it.
size_t answer_header_reserve(struct answer *answer, const struct vx_layout *layout);

// Writes the file except its tensors: length and header into block[0..reserve), and, if `tensors` is not NULL, zeros
// between the tensors. False if length and header need more than `reserve` bytes.
VX_WARN_UNUSED bool answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block,
                                       size_t reserve, char *tensors);

// See answer_kind.write. Never fails.
bool shuffled_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                    struct error *error);

#endif

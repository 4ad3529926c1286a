// Writes the safetensors file around an answer's tensors.
//
// A safetensors file is an 8-byte little-endian length, a JSON header of that many bytes, and the tensors without holes
// (github.com/huggingface/safetensors). The header precedes the tensors but contains the times of writing them, so its
// room is reserved first and filled last; the format allows spaces to fill the rest. Each tensor starts on a multiple
// of 64 bytes. If needed, a U8 tensor `_padding_N` precedes it. Any thread; nothing here allocates.
//
// In a shuffled file the bytes of a tensor of one or two dimensions are planes, which compress better: first the first
// bytes of all rows, then all second bytes, and so on. Padded points would compress worse, so tensors of three
// dimensions and more are unchanged. Next to "voxeld", the metadata has "filter": "shuffle".
#ifndef VOXELD_SAFETENSORS_H
#define VOXELD_SAFETENSORS_H

#include "api/wire/metadata.h"

#define SAFETENSORS_MEDIA_TYPE "application/vnd.safetensors"
#define SHUFFLED_MEDIA_TYPE "application/x-shuffled-safetensors"

// Bytes to reserve before the tensors, enough for the longest possible times. A multiple of 64. If the answer has no
// times, this also keeps its header, for answer_frame_write.
size_t answer_header_reserve(struct answer *answer, const struct vx_layout *layout);

// Writes all of the file except its tensors: the length prefix and the header into block[0..reserve), and zeros into
// the padding between the tensors, unless `tensors` is NULL. False if the header is longer than was reserved.
VX_WARN_UNUSED bool answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block,
                                       size_t reserve, char *tensors);

// Writes a shuffled file, see answer_kind.write. Never fails.
bool shuffled_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                    struct error *error);

#endif

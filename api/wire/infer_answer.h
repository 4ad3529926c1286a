// Answers to inference requests (infer.h). Any thread; nothing here allocates.
#ifndef VOXELD_INFER_ANSWER_H
#define VOXELD_INFER_ANSWER_H

#include "api/base/bytes.h"
#include "api/wire/answers.h"
#include "api/wire/infer.h"

// infer_binary: all tensors as bytes. infer_json: at least one tensor as JSON.
extern const struct answer_kind infer_binary, infer_json;
// The kind for a request that was read.
const struct answer_kind *infer_answer_kind(const struct infer *infer, const struct job_request *request);
// The parts of an infer_binary answer that are sent, without the padding between tensors. Returns their number.
enum { INFER_RANGES_MAX = VX_TENSOR_COUNT + 1 };
int infer_ranges(const struct infer *infer, const struct vx_layout *layout, size_t reserve,
                 struct byte_range ranges[INFER_RANGES_MAX]);

#endif

// Answers to inference requests (infer.h), made from a job's tensors. Any thread; nothing here allocates.
#ifndef VOXELD_INFER_ANSWER_H
#define VOXELD_INFER_ANSWER_H

#include "api/base/bytes.h"
#include "api/wire/answers.h"
#include "api/wire/infer.h"

// The kinds of answer: all tensors as bytes, or at least one tensor as JSON.
extern const struct answer_kind infer_binary, infer_json;
// The kind of answer for a request that was read.
const struct answer_kind *infer_answer_kind(const struct infer *infer, const struct job_request *request);
// The parts of an infer_binary answer to send: everything but the padding between tensors. Returns the number of parts.
enum { INFER_RANGES_MAX = VX_TENSOR_COUNT + 1 };
int infer_ranges(const struct infer *infer, const struct vx_layout *layout, size_t reserve,
                 struct byte_range ranges[INFER_RANGES_MAX]);

#endif

// Answers to inference requests (infer.h), made from a job's tensors. Any thread; nothing here allocates.
#ifndef VOXELD_INFER_ANSWER_H
#define VOXELD_INFER_ANSWER_H

#include "api/base/bytes.h"
#include "api/wire/answers.h"
#include "api/wire/infer.h"

// The kinds of answer: all tensors as bytes; or at least one as JSON.
extern const struct answer_kind infer_binary, infer_json;
// The kind for a request that is read.
const struct answer_kind *infer_answer_kind(const struct infer *infer, const struct job_request *request);
// The parts of an infer_binary answer that are sent: all but the padding between tensors. Returns how many there are.
enum { INFER_RANGES_MAX = VX_TENSOR_COUNT + 1 };
int infer_ranges(const struct vx_layout *layout, size_t reserve, struct byte_range ranges[INFER_RANGES_MAX]);

#endif

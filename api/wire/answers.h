// The kinds of answer: one row each.
//
// The Accept header chooses the row. The file is made from the job's tensors and the metadata. Any thread; nothing here
// allocates.
#ifndef VOXELD_ANSWERS_H
#define VOXELD_ANSWERS_H

#include "api/wire/metadata.h"

struct answer_kind {
  const char *media_type, *doc;
  const char *also;  // another media type for this kind, or NULL
  // The tensors that the file is made of.
  vx_tensor_set (*tensors)(const struct job_request *request);

  // For a kind whose tensors stay where they were computed; both NULL for other kinds. `reserve` says how many bytes to
  // reserve before the tensors, a multiple of 64. `frame` fills these bytes (`block`) and zeros the padding between the
  // tensors; `tensors` is NULL if the padding is zero already. False if `reserve` is too small.
  size_t (*reserve)(struct answer *answer, const struct vx_layout *layout);
  bool (*frame)(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                char *tensors);

  // For a kind whose file is a copy; NULL for other kinds. Writes the whole file. The first call measures, with no
  // tensors (NULL) and an `out` without capacity. Only this call may fail: false with an error if the format cannot
  // hold the answer.
  bool (*write)(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error);
};

// The answer that is sent if the file went to a region of shared memory: JSON with the size of the file and the
// metadata.
extern const struct answer_kind answer_of_region;

// The kind that `accept` prefers; of several that it prefers equally, the first in the table. Safetensors, the first
// row, if there is no header (NULL) or the header allows no kind.
const struct answer_kind *answer_kind_of(const char *accept);

// Writes all kinds as a JSON array, for --describe.
void answer_kinds_describe(struct text *out);

#endif

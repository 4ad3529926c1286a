// The kinds of answer, one row each; the Accept header chooses the row. A kind makes a file from the job's tensors and
// the metadata. Any thread; nothing here allocates.
#ifndef VOXELD_ANSWERS_H
#define VOXELD_ANSWERS_H

#include "api/wire/metadata.h"

struct answer_kind {
  const char *media_type, *doc;
  const char *also;  // another media type of this kind, or NULL
  // The tensors in the file.
  vx_tensor_set (*tensors)(const struct job_request *request);

  // For a kind whose tensors stay where they were computed, else NULL. `reserve`: bytes before the tensors, a multiple
  // of 64. `frame` fills these bytes (`block`) and zeros the padding between the tensors; `tensors` is NULL if the
  // padding is zero already. False if `reserve` is too small.
  size_t (*reserve)(struct answer *answer, const struct vx_layout *layout);
  bool (*frame)(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                char *tensors);

  // For a kind whose file is a copy, else NULL. Writes the whole file. The first call measures: `tensors` is NULL, and
  // `out` has no capacity. Only this call may fail: false with an error if the format cannot hold the answer.
  bool (*write)(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error);
};

// For a file that went to a region of shared memory: JSON with the size of the file and the metadata.
extern const struct answer_kind answer_of_region;

// The row that `accept` prefers; among equals, the first. The first row of all if `accept` is NULL or allows no row.
const struct answer_kind *answer_kind_of(const char *accept);

// Writes a JSON array.
void answer_kinds_describe(struct text *out);

#endif

// The kinds of answer: one row each.
//
// The Accept header chooses the row. Its file is made from the job's tensors and the metadata. Any thread; nothing here
// allocates.
#ifndef VOXELD_ANSWERS_H
#define VOXELD_ANSWERS_H

#include "api/wire/metadata.h"

struct answer_kind {
  const char *media_type, *doc;
  const char *also;  // another media type that stands for this kind; NULL: none
  // The tensors that the file is made of.
  vx_tensor_set (*tensors)(const struct job_request *request);

  // A kind whose tensors stay where they were computed: how many bytes to reserve in front of them (a multiple of 64),
  // and what fills these, `block`, and the padding between the tensors. `tensors`: where they are; NULL if the padding
  // is zero already. False if `reserve` is too little. Both NULL for other kinds.
  size_t (*reserve)(const struct answer *answer, const struct vx_layout *layout);
  bool (*frame)(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                char *tensors);

  // A kind whose file is a copy: writes all of it. It is measured first, with no tensors (NULL) and an `out` without
  // capacity. False with an error if the format cannot hold it, in the measuring call alone. NULL for other kinds.
  bool (*write)(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error);
};

// What is sent if the file went to a region of shared memory: JSON that says how long it is, and the metadata.
extern const struct answer_kind answer_of_region;

// The kind that `accept` wants most; the first of several. Without a header (NULL), or if it allows none: the first of
// all, safetensors.
const struct answer_kind *answer_kind_of(const char *accept);

// All kinds, as a JSON array, for --describe.
void answer_kinds_describe(struct text *out);

#endif

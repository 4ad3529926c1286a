// Parameter rows that several operations share, and macros to write rows with.
#ifndef VOXELD_API_ROWS_H
#define VOXELD_API_ROWS_H

#include "api/ops/ops.h"
#include "api/params/values.h"

#define STREAM_ALLOWED "1 to 63 letters, digits, '.', '_' or '-', but not '.' or '..'"
#define FIELD(member) offsetof(struct job_request, member)

extern const char *const format_words[];     // enum body_format
extern const char *const voxels_by_words[];  // enum vx_voxels_by
extern const char *const points_by_words[];  // enum vx_points_by

extern const struct param param_preset, param_num_features, param_dtype, param_scale, param_filter, param_format,
    param_fields, param_intensity_scale, param_point_counts, param_steps, param_points_region, param_output_region,
    param_metadata, param_max_age_ms, param_latest, param_timeout_ms;

// The body's points: rows that all operations on points have. Needs stream.h and deskew.h.
#define PARAMS_OF_POINTS                                                                                               \
  &param_num_features, &param_dtype, &param_scale, &param_filter, &param_format, &param_fields,                        \
      &param_intensity_scale, &param_point_counts, PARAMS_OF_STREAMS, PARAMS_OF_TIMES, &param_max_age_ms

// Where the points and the answer are, and how the request is answered: the last rows of each operation.
#define PARAMS_OF_ANSWER &param_points_region, &param_output_region, &param_metadata, &param_latest, &param_timeout_ms

// The row `outputs` of an operation that can write these tensors.
#define PARAM_OUTPUTS(allowed_tensors, text)                                                                           \
  {                                                                                                                    \
    .name = "outputs", .type = &value_tensors, .offset = FIELD(outputs), .second = FIELD(job.tensors),                 \
    .most = (allowed_tensors), .doc = "tensors to return; without it " text,                                           \
  }

// Which points and voxels are kept. `start` is the default; NULL: the model has the default.
#define PARAM_MAX_POINTS_BY(member, start)                                                                             \
  {                                                                                                                    \
    .name = "max_points_by", .type = &value_word, .offset = FIELD(member), .words = points_by_words,                   \
    .initial = (start), .doc = "which points a voxel keeps",                                                           \
  }
#define PARAM_MAX_VOXELS_BY(member, start)                                                                             \
  {                                                                                                                    \
    .name = "max_voxels_by", .type = &value_word, .offset = FIELD(member), .words = voxels_by_words,                   \
    .initial = (start),                                                                                                \
    .doc = "which voxels are kept: the first that appear, the nearest to the origin in x and y, or those with the "    \
           "most points",                                                                                              \
  }
#define PARAM_SEED(member, start)                                                                                      \
  {                                                                                                                    \
    .name = "seed", .type = &value_int, .offset = FIELD(member), .least = 0, .most = INT32_MAX, .initial = (start),    \
    .doc = "with max_points_by=random: another seed chooses other points",                                             \
  }

// The table ends with a NULL, hence the + 1.
#define PARAM_ROWS_FIT(rows)                                                                                           \
  _Static_assert(sizeof(rows) / sizeof *(rows) <= PARAMS_MAX + 1, "given has an entry for every row")

#endif

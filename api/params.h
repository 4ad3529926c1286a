// The parameters of POST /v1/voxelize: one row a parameter, read by the query, the presets, the metadata, the error texts,
// --describe and the documentation test.
//
// The tables are immutable; a request belongs to its caller. Any thread.
#ifndef VOXELD_PARAMS_H
#define VOXELD_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/problem.h"
#include "api/text.h"
#include "kernels/kernels.h"

enum feature { FEATURE_POINTS, FEATURE_MEAN, FEATURE_PILLAR, FEATURE_COUNT };

// A request for voxels, checked: what the query and its preset say, without the points.
struct voxelize_request {
  struct vx_voxelize_params job;  // .tensors = those to return
  uint32_t features;              // 1 << enum feature of those to compute
  uint32_t outputs;               // VX_TENSOR_BITs named by `outputs`; 0 = the default of `features`
  int32_t num_clouds;             // entries of point_counts; 0 = not given: the body is one cloud
  int32_t point_counts[VX_MAX_CLOUDS];
  int32_t timeout_ms;  // 0 = none
  char preset[64];     // "" = none
  uint32_t given;      // 1 << row of each parameter set by preset or query
};

// The request that the defaults give.
void voxelize_request_init(struct voxelize_request *request);

// Sets one parameter from its text. False with a problem that names the parameter, what was given and what is allowed.
VX_WARN_UNUSED bool voxelize_request_set(struct voxelize_request *request, const char *name, size_t name_length,
                                         const char *value, size_t value_length, struct problem *problem);

// Holds the parameters against each other once all are set, and fills job.tensors. False with a problem.
VX_WARN_UNUSED bool voxelize_request_finish(struct voxelize_request *request, struct problem *problem);

// As if `outputs` had not been given: the tensors follow from `feature` again.
void voxelize_request_unset_outputs(struct voxelize_request *request);

// The refusal of a value that the parameter does not take: what was given and what is allowed. Returns false.
bool voxelize_request_refuse(const char *name, const char *value, size_t value_length, struct problem *problem);

// Splits `rows` points into clouds: fills point_counts with one entry where the query gave none. False where they do not add up.
VX_WARN_UNUSED bool voxelize_request_split(struct voxelize_request *request, int64_t rows, struct problem *problem);

// Bytes of one row of the body.
size_t voxelize_request_row_bytes(const struct voxelize_request *request);

// The effective parameters as a JSON object.
void voxelize_request_write(const struct voxelize_request *request, struct text *out);

// The table as a JSON array, for --describe.
void params_describe(struct text *out);

#endif

// The parameters of POST /v1/voxelize and POST /v1/fps: one row a parameter, read by the query, the presets, the metadata, the
// error texts, --describe and the documentation test.
//
// The tables are immutable; a request belongs to its caller. Any thread.
#ifndef VOXELD_PARAMS_H
#define VOXELD_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/base/text.h"
#include "kernels/kernels.h"

enum job_kind { JOB_VOXELIZE, JOB_FPS, JOB_KINDS };
#define JOB_KIND_BIT(kind) (1u << (kind))

enum feature { FEATURE_POINTS, FEATURE_MEAN, FEATURE_PILLAR, FEATURE_COUNT };

// A request for voxels or samples, checked: what the query and its preset say, without the points.
struct job_request {
  enum job_kind kind;
  struct vx_params job;  // .tensors = those to return
  uint32_t features;     // 1 << enum feature of those to compute
  uint32_t outputs;      // VX_TENSOR_BITs named by `outputs`; 0 = the default of `features`
  int32_t num_clouds;    // entries of point_counts; 0 = not given: the body is one cloud
  int32_t point_counts[VX_MAX_CLOUDS];
  int32_t num_sample_counts;             // as given; 0 = nothing is sampled
  int32_t sample_counts[VX_MAX_CLOUDS];  // [num_clouds], once split
  int32_t timeout_ms;                    // 0 = none
  char preset[64];                       // "" = none
  uint32_t given;                        // 1 << row of each parameter set by preset or query
};

// The request that the defaults give.
void job_request_init(struct job_request *request, enum job_kind kind);

// Sets one parameter from its text. False with a problem that names the parameter, what was given and what is allowed.
VX_WARN_UNUSED bool job_request_set(struct job_request *request, const char *name, size_t name_length,
                                    const char *value, size_t value_length, struct problem *problem);

// Holds the parameters against each other once all are set, and fills job.tensors and job.sampling. False with a problem.
VX_WARN_UNUSED bool job_request_finish(struct job_request *request, struct problem *problem);

// As if `outputs` had not been given: the tensors follow from `feature` again.
void job_request_unset_outputs(struct job_request *request);

// The refusal of a value that the parameter does not take: what was given and what is allowed. Returns false.
bool job_request_refuse(const struct job_request *request, const char *name, const char *value, size_t value_length,
                        struct problem *problem);

// Splits `rows` points into clouds: fills point_counts with one entry where the query gave none, and sample_counts. False where
// they do not add up, or the clouds cannot be sampled so.
VX_WARN_UNUSED bool job_request_split(struct job_request *request, int64_t rows, struct problem *problem);

// The parameter that says how many samples there are.
const char *job_request_samples_name(const struct job_request *request);

// Bytes of one row of the body.
size_t job_request_row_bytes(const struct job_request *request);

// The effective parameters as a JSON object.
void job_request_write(const struct job_request *request, struct text *out);

// The rows of one kind as a JSON array, for --describe.
void params_describe(enum job_kind kind, struct text *out);

#endif

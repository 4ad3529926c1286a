// Requests for a computation: what a query and its preset say, checked; and the operations, one row each, that know
// which parameters there are and what they come to.
//
// An operation has a file of its own here: its parameter rows and what holds them against each other. The tables are
// immutable; a request belongs to its caller. Any thread.
#ifndef VOXELD_API_OPS_H
#define VOXELD_API_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/params/params.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

enum { REQUEST_MATRICES = 64 };

struct job_request {
  struct vx_job job;  // operation, parameters, tensors to return; once split the clouds' number and the inputs' shapes
  int32_t num_features;       // C
  enum vx_dtype dtype;        // of the body
  uint32_t features;          // what is computed of voxels, by the words of `feature`
  uint32_t outputs;           // VX_TENSOR_BITs named by `outputs`; 0 = the operation's default
  int32_t num_clouds;         // entries of point_counts; 0 = not given: the body is one cloud
  int32_t num_sample_counts;  // as given; 0 = nothing is sampled
  int32_t num_matrices;       // as given; 0 = points are not moved
  int32_t timeout_ms;         // 0 = none
  int64_t max_sampling_work;  // what vx_sampling.max_work becomes; the server's
  char preset[64];            // "" = none
  bool given[PARAMS_MAX];     // of each row of the operation's table: set by preset or query
  int32_t point_counts[VX_MAX_CLOUDS];
  int32_t sample_counts[VX_MAX_CLOUDS];                // [num_clouds], once split; if anything is sampled
  float matrices[REQUEST_MATRICES][VX_MATRIX_VALUES];  // [num_matrices, 4, 4]
  struct vx_box cuts[VX_MAX_CUTS];                     // [job.params.transform.num_cuts]
};

// What an operation adds to what all have.
struct operation {
  param_rows rows;
  // The tensors that are returned without `outputs`.
  uint32_t (*tensors)(const struct job_request *request);
  // Holds the parameters against each other. False with a problem.
  bool (*finish)(struct job_request *request, struct problem *problem);
  // Splits what belongs to the clouds, whose number of points is known. False with a problem. May be NULL.
  bool (*split)(struct job_request *request, struct problem *problem);
  // Points the job to what the request holds for it. May be NULL.
  void (*bind)(const struct job_request *request, struct vx_job *job);
  // The operation's own part of the metadata: members, each with a comma in front. May be NULL.
  void (*write)(const struct vx_job *job, struct text *out);
  const char *samples;  // the parameter that says how many samples there are; NULL if there is none
};

// Each is in the operation's own file.
extern const struct operation operation_voxelize, operation_fps, operation_transform;
// Those as a table.
const struct operation *operation_of(enum vx_op op);

// The request that the defaults give.
void job_request_init(struct job_request *request, enum vx_op op);

// Sets one parameter from its text. False with a problem that names the parameter, what was given and what is allowed.
VX_WARN_UNUSED bool job_request_set(struct job_request *request, const char *name, size_t name_length,
                                    const char *value, size_t value_length, struct problem *problem);

// Whether preset or query set it.
bool job_request_is_given(const struct job_request *request, const char *name);

// Holds the parameters against each other once all are set, and fills the job's parameters and tensors. False with a
// problem.
VX_WARN_UNUSED bool job_request_finish(struct job_request *request, struct problem *problem);

// As if `outputs` had not been given: the tensors follow from the other parameters again.
void job_request_unset_outputs(struct job_request *request);

// The refusal of a value that the parameter does not take: what was given and what is allowed. Returns false.
bool job_request_refuse(const struct job_request *request, const char *name, const char *value, size_t value_length,
                        struct problem *problem);

// Splits `rows` points into clouds: fills point_counts with one entry if the query gave none, and what else there is
// one of a cloud. False if they do not add up, or the clouds cannot be computed so.
VX_WARN_UNUSED bool job_request_split(struct job_request *request, int64_t rows, struct problem *problem);

// The job of a request that is split, over these points; what it points to is the request's. The caller adds the rest.
struct vx_job job_request_job(const struct job_request *request, const void *points);

// Bytes of one row of the body.
size_t job_request_row_bytes(const struct job_request *request);

// The effective parameters as a JSON object.
void job_request_write(const struct job_request *request, struct text *out);

// All operations' rows, as members of a JSON object, for --describe.
void operations_describe(struct text *out);

#endif

// The counters of the service, in total and for each model of the KServe v2 protocol. Any thread updates them, with
// atomics and no lock.
#ifndef VOXELD_COUNTERS_H
#define VOXELD_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/routes.h"
#include "api/wire/metadata.h"
#include "kernels/ops.h"

// The stages of an answer: its timings (TIMING_...), then its sending.
enum { STAGE_SEND = TIMING_COUNT, STAGE_COUNT };
enum { HISTOGRAM_BUCKETS = 19 };

// Where a request was when its client left.
enum abort_stage { ABORT_UPLOAD, ABORT_QUEUE, ABORT_RUN, ABORT_SEND, ABORT_STAGES };

// Status codes of answers that the HTTP library makes by itself; 0: all others.
enum { UNPARSED_CODES = 6 };
extern const int unparsed_codes[UNPARSED_CODES];

extern const double histogram_bounds[HISTOGRAM_BUCKETS];  // seconds, ascending

struct histogram {
  atomic_uint_fast64_t bucket[HISTOGRAM_BUCKETS + 1];  // the last: longer than every bound
  atomic_uint_fast64_t sum_ns;
};

// Parts of a request's time, as Triton's statistics name them.
enum model_part { MODEL_QUEUE, MODEL_COMPUTE_INPUT, MODEL_COMPUTE_INFER, MODEL_COMPUTE_OUTPUT, MODEL_PARTS };

// Made with the model's first request and kept until the end, even if a reload removes the model.
struct model_counts {
  struct model_counts *next;
  char name[ROUTE_NAME_SIZE];
  atomic_uint_fast64_t succeeded, succeeded_ns, failed, failed_ns;
  atomic_uint_fast64_t part_ns[MODEL_PARTS];  // of requests that succeeded
  atomic_uint_fast64_t last_unix_ms;          // the end of the last request
};

struct models {
  _Atomic(struct model_counts *) first;
};

struct counters {
  atomic_uint_fast64_t requests[ENDPOINT_COUNT][ERROR_COUNT];  // ERROR_NONE: succeeded
  atomic_uint_fast64_t unchanged[ENDPOINT_COUNT];              // answered 304: the client has the page
  struct histogram durations[ENDPOINT_COUNT];                  // of `requests` and `unchanged`
  atomic_uint_fast64_t aborted[ABORT_STAGES];                  // the client left before its answer was sent
  atomic_uint_fast64_t unparsed[UNPARSED_CODES];
  atomic_uint_fast64_t received_bytes, sent_bytes;
  atomic_uint_fast64_t reruns[VX_STATUS_COUNT];  // on the CPU, by the status of the run on the GPU
  atomic_uint_fast64_t fates[VX_ITEMS][VX_FATE_COUNT];
  atomic_uint_fast64_t steps[VX_STEP_TYPES][VX_FATE_COUNT];  // points, by type of step and by fate
  struct histogram step_durations[VX_STEP_TYPES];
  atomic_uint_fast64_t voxels[VX_VOXEL_FATES];
  atomic_uint_fast64_t samples;
  atomic_uint_fast64_t warnings[WARNING_KINDS];
  struct histogram stages[STAGE_COUNT];
  struct models models;
};

// Count a request; `ns`: from its headers to the end of its answer. counters_unchanged: the answer was 304.
void counters_request(struct counters *counters, enum endpoint endpoint, enum error_kind outcome, int64_t ns);
void counters_unchanged(struct counters *counters, enum endpoint endpoint, int64_t ns);
void counters_abort(struct counters *counters, enum abort_stage stage);
const char *abort_name(enum abort_stage stage);
void counters_unparsed(struct counters *counters, int status);
// `send_ns`: the time to send a job's whole answer; -1: none was sent.
void counters_transfer(struct counters *counters, int64_t received, int64_t sent, int64_t send_ns);
// A job succeeded; `answer` has its times and warnings.
void counters_job(struct counters *counters, const struct vx_counts *counts, const struct answer *answer);
// A job failed on a GPU with this status and ran on the CPU instead.
void counters_rerun(struct counters *counters, enum vx_status status);
const char *failure_name(enum vx_status status);

// Finished requests. `refused` includes `superseded` and `too_old`. `aborted`: the client left.
struct outcomes {
  unsigned long long answered, refused, superseded, too_old, aborted;
};
struct outcomes counters_outcomes(const struct counters *counters);
// Requests to all endpoints with this outcome.
unsigned long long counters_of_outcome(const struct counters *counters, enum error_kind outcome);
unsigned long long counter_value(const atomic_uint_fast64_t *counter);

// Counts a request to a model; `answer`: NULL if it failed; `ns`: from its headers to its answer. Does nothing if there
// is no memory for the counts of a new model.
void models_count(struct models *models, const char *name, const struct answer *answer, int64_t ns);
// NULL: no request to the model was counted.
const struct model_counts *models_find(const struct models *models, const char *name);
void models_release(struct models *models);

#endif

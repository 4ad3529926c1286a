// What the service counts. Counters only grow and are updated with relaxed atomics by any thread; /metrics renders them in
// Prometheus text format from one table.
#ifndef VOXELD_METRICS_H
#define VOXELD_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/routes.h"
#include "api/wire/metadata.h"
#include "kernels/kernels.h"

// The stages of an answer and, after its end, the sending.
enum { STAGE_SEND = TIMING_COUNT, STAGE_COUNT };
enum { METRIC_BUCKETS = 19 };

// Where a request was when its client left.
enum abort_stage { ABORT_UPLOAD, ABORT_QUEUE, ABORT_RUN, ABORT_SEND, ABORT_STAGES };

// Status codes of answers that the HTTP library makes; the last stands for others.
enum { UNPARSED_CODES = 6 };

struct histogram {
  atomic_uint_fast64_t bucket[METRIC_BUCKETS + 1];  // the last: longer than every bound
  atomic_uint_fast64_t sum_ns;
};

struct metrics {
  atomic_uint_fast64_t requests[ENDPOINT_COUNT][PROBLEM_COUNT];  // PROBLEM_NONE: answered well
  struct histogram durations[ENDPOINT_COUNT];                    // of the same requests
  atomic_uint_fast64_t aborted[ABORT_STAGES];                    // the client left before its answer was sent
  atomic_uint_fast64_t unparsed[UNPARSED_CODES];
  atomic_uint_fast64_t received_bytes, sent_bytes;
  atomic_uint_fast64_t reruns[VX_DEVICE_LOST + 1];  // by vx_status
  atomic_uint_fast64_t points[VX_FATE_COUNT];
  atomic_uint_fast64_t voxels[VOXEL_FATES];
  atomic_uint_fast64_t samples;
  struct histogram stages[STAGE_COUNT];
};

// A request was answered.
void metrics_request(struct metrics *metrics, enum endpoint endpoint, enum problem_kind outcome, int64_t ns);
void metrics_abort(struct metrics *metrics, enum abort_stage stage);
const char *metrics_abort_name(enum abort_stage stage);
// The HTTP library answered by itself.
void metrics_unparsed(struct metrics *metrics, int status);
void metrics_bytes(struct metrics *metrics, int64_t received, int64_t sent);
// A job has run well; `answer` has its times.
void metrics_job(struct metrics *metrics, const struct vx_counts *counts, const struct answer *answer);
// Its answer was sent whole.
void metrics_sent(struct metrics *metrics, int64_t ns);
// A GPU failed a job with this status, and the CPU ran it instead.
void metrics_rerun(struct metrics *metrics, enum vx_status status);
const char *metrics_failure_name(enum vx_status status);

struct server;
void metrics_write(struct server *server, struct text *out);
void metrics_describe(struct text *out);  // the table as a JSON array

// Answered requests, for /v1/status: those answered well, those refused, those whose client left.
struct metrics_outcomes {
  unsigned long long answered, refused, aborted;
};
struct metrics_outcomes metrics_outcomes(struct metrics *metrics);

#endif

// What the service counts. Counters only grow and are updated with relaxed atomics by any thread; /metrics renders them in
// Prometheus text format from one table.
#ifndef VOXELD_METRICS_H
#define VOXELD_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/problem.h"
#include "api/text.h"
#include "kernels/kernels.h"
#include "server/routes.h"

// Where a job's time goes; the kernels' own stages lie between queue and total.
enum { SPAN_RECEIVE, SPAN_QUEUE, SPAN_STAGES, SPAN_TOTAL = SPAN_STAGES + VX_STAGE_COUNT, SPAN_COUNT };
enum { METRIC_BUCKETS = 14 };
enum { FATE_COUNT = 6, VOXEL_FATE_COUNT = 3 };

struct histogram {
  atomic_uint_fast64_t bucket[METRIC_BUCKETS + 1];  // the last: longer than every bound
  atomic_uint_fast64_t sum_ns;
};

struct metrics {
  atomic_uint_fast64_t requests[ENDPOINT_COUNT][PROBLEM_COUNT];  // PROBLEM_NONE: answered well
  atomic_uint_fast64_t aborted;                                  // the client left before its answer was sent
  atomic_uint_fast64_t received_bytes, sent_bytes;
  atomic_uint_fast64_t jobs[2];                     // on the CPU, on a GPU
  atomic_uint_fast64_t reruns[VX_DEVICE_LOST + 1];  // by vx_status
  atomic_uint_fast64_t points[FATE_COUNT];
  atomic_uint_fast64_t voxels[VOXEL_FATE_COUNT];
  atomic_uint_fast64_t samples;
  struct histogram spans[SPAN_COUNT];
};

void metrics_request(struct metrics *metrics, enum endpoint endpoint, enum problem_kind outcome);
void metrics_job(struct metrics *metrics, bool on_gpu, const struct vx_counts *counts,
                 const int64_t spans_ns[SPAN_COUNT]);
// A GPU failed a job with this status, and the CPU ran it instead.
void metrics_rerun(struct metrics *metrics, enum vx_status status);
const char *metrics_failure_name(enum vx_status status);

struct server;
void metrics_write(struct server *server, struct text *out);
void metrics_describe(struct text *out);  // the table as a JSON array

#endif

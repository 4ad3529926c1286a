// Counting and the Prometheus text format (prometheus.io/docs/instrumenting/exposition_formats); see metrics.h.
#include "server/metrics.h"

#include <stdio.h>
#include <string.h>

#include "server/clock.h"
#include "server/server.h"

static const double bucket_seconds[METRIC_BUCKETS] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                      0.025,  0.05,    0.1,    0.25,  0.5,    1,     2.5};
static const char *const fate_names[FATE_COUNT] = {
    "kept", "not_finite", "out_of_range", "over_max_points_per_voxel", "over_max_voxels", "block_filtered"};
static const char *const lane_use_names[VX_LANE_USES] = {"voxelize", "sample"};
static const char *const voxel_fate_names[VOXEL_FATE_COUNT] = {"kept", "dropped", "block_filtered"};

static const char *span_name(int span) {
  if (span == SPAN_RECEIVE) return "receive";
  if (span == SPAN_QUEUE) return "queue";
  if (span == SPAN_TOTAL) return "total";
  return vx_stage_name((enum vx_stage)(span - SPAN_STAGES));
}

static void add(atomic_uint_fast64_t *counter, int64_t amount) {
  atomic_fetch_add_explicit(counter, (uint64_t)amount, memory_order_relaxed);
}

static unsigned long long get(atomic_uint_fast64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

void metrics_request(struct metrics *metrics, enum endpoint endpoint, enum problem_kind outcome) {
  add(&metrics->requests[endpoint][outcome], 1);
}

static void observe(struct histogram *histogram, int64_t ns) {
  int bucket = 0;
  while (bucket < METRIC_BUCKETS && (double)ns > bucket_seconds[bucket] * 1e9) bucket++;
  add(&histogram->bucket[bucket], 1);
  add(&histogram->sum_ns, ns);
}

const char *metrics_failure_name(enum vx_status status) {
  static const char *const names[VX_STATUS_COUNT] = {[VX_OK] = "none",
                                                     [VX_REFUSED] = "refused",
                                                     [VX_OUT_OF_MEMORY] = "out_of_memory",
                                                     [VX_DEVICE_LOST] = "device_lost",
                                                     [VX_STOPPED] = "stopped"};
  return names[status];
}

void metrics_rerun(struct metrics *metrics, enum vx_status status) { add(&metrics->reruns[status], 1); }

void metrics_job(struct metrics *metrics, bool on_gpu, const struct vx_counts *counts,
                 const int64_t spans_ns[SPAN_COUNT]) {
  const int64_t points[FATE_COUNT] = {counts->kept,           counts->not_finite,      counts->out_of_range,
                                      counts->over_voxel_cap, counts->over_max_voxels, counts->block_filtered};
  const int64_t voxels[VOXEL_FATE_COUNT] = {counts->voxels_kept, counts->voxels_dropped, counts->voxels_block_filtered};
  add(&metrics->jobs[on_gpu], 1);
  add(&metrics->samples, counts->sampled);
  for (int i = 0; i < FATE_COUNT; i++) add(&metrics->points[i], points[i]);
  for (int i = 0; i < VOXEL_FATE_COUNT; i++) add(&metrics->voxels[i], voxels[i]);
  for (int i = 0; i < SPAN_COUNT; i++) observe(&metrics->spans[i], spans_ns[i]);
}

// ---- samples ----------------------------------------------------------------------------------------------------------

// One endpoint's answers of one status may have several reasons: they are one sample.
static void write_requests(struct server *server, const char *name, struct text *out) {
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) {
    atomic_uint_fast64_t *outcomes = server->metrics.requests[endpoint];
    for (int kind = 0; kind < PROBLEM_COUNT; kind++) {
      int status = problem_info((enum problem_kind)kind)->status;
      unsigned long long sum = 0;
      bool first = true;
      for (int other = 0; other < PROBLEM_COUNT; other++) {
        if (problem_info((enum problem_kind)other)->status != status) continue;
        if (other < kind) first = false;
        sum += get(&outcomes[other]);
      }
      if (first && sum)
        text_printf(out, "%s{endpoint=\"%s\",code=\"%d\"} %llu\n", name, route_of((enum endpoint)endpoint)->path,
                    status, sum);
    }
  }
}

static void write_refusals(struct server *server, const char *name, struct text *out) {
  for (int kind = PROBLEM_NONE + 1; kind < PROBLEM_COUNT; kind++) {
    unsigned long long sum = 0;
    for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) sum += get(&server->metrics.requests[endpoint][kind]);
    text_printf(out, "%s{reason=\"%s\"} %llu\n", name, problem_info((enum problem_kind)kind)->name, sum);
  }
}

static void write_points(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < FATE_COUNT; i++)
    text_printf(out, "%s{fate=\"%s\"} %llu\n", name, fate_names[i], get(&server->metrics.points[i]));
}

static void write_voxels(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < VOXEL_FATE_COUNT; i++)
    text_printf(out, "%s{fate=\"%s\"} %llu\n", name, voxel_fate_names[i], get(&server->metrics.voxels[i]));
}

static void write_spans(struct server *server, const char *name, struct text *out) {
  for (int span = 0; span < SPAN_COUNT; span++) {
    struct histogram *histogram = &server->metrics.spans[span];
    unsigned long long sum = 0;
    for (int bucket = 0; bucket < METRIC_BUCKETS; bucket++) {
      sum += get(&histogram->bucket[bucket]);
      text_printf(out, "%s_bucket{stage=\"%s\",le=\"%g\"} %llu\n", name, span_name(span), bucket_seconds[bucket], sum);
    }
    sum += get(&histogram->bucket[METRIC_BUCKETS]);
    text_printf(out, "%s_bucket{stage=\"%s\",le=\"+Inf\"} %llu\n", name, span_name(span), sum);
    text_printf(out, "%s_sum{stage=\"%s\"} %.9g\n", name, span_name(span), (double)get(&histogram->sum_ns) / 1e9);
    text_printf(out, "%s_count{stage=\"%s\"} %llu\n", name, span_name(span), sum);
  }
}

static void write_build(struct server *server, const char *name, struct text *out) {
  const struct device *device = devices_main(&server->devices);
  text_printf(out, "%s{version=\"%s\",backend=\"%s\",device=", name, VOXELD_VERSION, device->backend->name);
  text_json_string(out, device->description.name, strlen(device->description.name));
  text_put(out, "} 1\n");
}

static void write_gpus(struct server *server, const char *name, struct text *out) {
  int working = atomic_load(&server->devices.working);
  text_printf(out, "%s{state=\"working\"} %d\n", name, working);
  text_printf(out, "%s{state=\"lost\"} %d\n", name, server->devices.count - working);
}

static void write_jobs(struct server *server, const char *name, struct text *out) {
  text_printf(out, "%s{backend=\"cpu\"} %llu\n", name, get(&server->metrics.jobs[false]));
  text_printf(out, "%s{backend=\"cuda\"} %llu\n", name, get(&server->metrics.jobs[true]));
}

static void write_reruns(struct server *server, const char *name, struct text *out) {
  for (int status = VX_OK + 1; status <= VX_DEVICE_LOST; status++)
    text_printf(out, "%s{failure=\"%s\"} %llu\n", name, metrics_failure_name((enum vx_status)status),
                get(&server->metrics.reruns[status]));
}

static void sample(struct text *out, const char *name, unsigned long long value) {
  text_printf(out, "%s %llu\n", name, value);
}

static void write_aborted(struct server *server, const char *name, struct text *out) {
  sample(out, name, get(&server->metrics.aborted));
}
static void write_received(struct server *server, const char *name, struct text *out) {
  sample(out, name, get(&server->metrics.received_bytes));
}
static void write_sent(struct server *server, const char *name, struct text *out) {
  sample(out, name, get(&server->metrics.sent_bytes));
}
static void write_samples(struct server *server, const char *name, struct text *out) {
  sample(out, name, get(&server->metrics.samples));
}
static void write_depth(struct server *server, const char *name, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++)
    text_printf(out, "%s{lanes=\"%s\"} %lld\n", name, lane_use_names[use],
                (long long)queue_depth(&server->queues[use]));
}
static void write_active(struct server *server, const char *name, struct text *out) {
  sample(out, name, (unsigned long long)atomic_load(&server->requests.active));
}
static void write_running(struct server *server, const char *name, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++)
    text_printf(out, "%s{lanes=\"%s\"} %lld\n", name, lane_use_names[use],
                (long long)atomic_load(&server->workers.running[use]));
}
static void write_connections(struct server *server, const char *name, struct text *out) {
  sample(out, name, (unsigned long long)atomic_load(&server->watcher.connections));
}
static void write_buffers(struct server *server, const char *name, struct text *out) {
  struct buffers_use use = buffers_use(&server->buffers);
  text_printf(out, "%s{state=\"in_use\"} %zu\n", name, use.in_use);
  text_printf(out, "%s{state=\"free\"} %zu\n", name, use.allocated - use.in_use);
}
static void write_ready(struct server *server, const char *name, struct text *out) {
  sample(out, name, atomic_load(&server->phase) == PHASE_READY);
}

static const struct family {
  const char *name, *type, *help;
  void (*write)(struct server *server, const char *name, struct text *out);
} families[] = {
    {"voxeld_build_info", "gauge", "Version, backend and device; always 1.", write_build},
    {"voxeld_ready", "gauge", "1 while ready, 0 while starting or draining.", write_ready},
    {"voxeld_requests_total", "counter", "Answered requests by endpoint and status code.", write_requests},
    {"voxeld_refusals_total", "counter", "Requests answered with a problem, by its reason.", write_refusals},
    {"voxeld_requests_aborted_total", "counter", "Requests whose client left before the answer was sent.",
     write_aborted},
    {"voxeld_received_bytes_total", "counter", "Bytes of request bodies.", write_received},
    {"voxeld_sent_bytes_total", "counter", "Bytes of response bodies.", write_sent},
    {"voxeld_gpus", "gauge", "GPUs in use, and those that failed for good.", write_gpus},
    {"voxeld_jobs_total", "counter", "Answered jobs, by the backend that computed them.", write_jobs},
    {"voxeld_reruns_total", "counter", "Jobs that a GPU failed and the CPU then ran, by the failure.", write_reruns},
    {"voxeld_points_total", "counter", "Points of answered jobs, by what became of them.", write_points},
    {"voxeld_voxels_total", "counter", "Voxels of answered jobs, by what became of them.", write_voxels},
    {"voxeld_samples_total", "counter", "Farthest point samples of answered jobs.", write_samples},
    {"voxeld_stage_duration_seconds", "histogram", "Where the time of answered jobs went.", write_spans},
    {"voxeld_queue_depth", "gauge", "Jobs that wait for a worker, by the lanes they are for.", write_depth},
    {"voxeld_jobs_running", "gauge", "Jobs on a lane now, by what the lane is for.", write_running},
    {"voxeld_requests_active", "gauge", "Requests with a body under way, a job, or its answer.", write_active},
    {"voxeld_connections", "gauge", "Open connections.", write_connections},
    {"voxeld_buffer_bytes", "gauge", "Memory of bodies and answers, in use and kept for reuse.", write_buffers},
};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

void metrics_write(struct server *server, struct text *out) {
  for (size_t i = 0; i < FAMILY_COUNT; i++) {
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", families[i].name, families[i].help, families[i].name,
                families[i].type);
    families[i].write(server, families[i].name, out);
  }
}

void metrics_describe(struct text *out) {
  text_put(out, "[");
  for (size_t i = 0; i < FAMILY_COUNT; i++)
    text_printf(out, "%s\n    {\"name\":\"%s\",\"type\":\"%s\",\"doc\":\"%s\"}", i ? "," : "", families[i].name,
                families[i].type, families[i].help);
  text_put(out, "\n  ]");
}

// Counting and the Prometheus text format (prometheus.io/docs/instrumenting/exposition_formats); see metrics.h.
#include "server/base/metrics.h"

#include <stdio.h>
#include <string.h>

#include "server/base/log.h"
#include "server/base/process.h"
#include "server/daemon/server.h"

// From a stage on a GPU to a sampling that takes its whole time.
static const double bucket_seconds[METRIC_BUCKETS] = {0.00002, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                                      0.005,   0.01,    0.025,  0.05,    0.1,    0.25,  0.5,
                                                      1,       2.5,     5,      10,      30};
static const char *const lane_use_names[VX_LANE_USES] = {"voxelize", "sample"};
static const char *const abort_names[ABORT_STAGES] = {"upload", "queue", "run", "send"};
static const int unparsed_codes[UNPARSED_CODES] = {400, 413, 414, 431, 505, 0};  // 0: others

// ---- counting ---------------------------------------------------------------------------------------------------------

static void add(atomic_uint_fast64_t *counter, int64_t amount) {
  atomic_fetch_add_explicit(counter, (uint64_t)amount, memory_order_relaxed);
}

static unsigned long long get(atomic_uint_fast64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void observe(struct histogram *histogram, int64_t ns) {
  int bucket = 0;
  while (bucket < METRIC_BUCKETS && (double)ns > bucket_seconds[bucket] * 1e9) bucket++;
  add(&histogram->bucket[bucket], 1);
  add(&histogram->sum_ns, ns);
}

void metrics_request(struct metrics *metrics, enum endpoint endpoint, enum problem_kind outcome, int64_t ns) {
  add(&metrics->requests[endpoint][outcome], 1);
  observe(&metrics->durations[endpoint], ns);
}

const char *metrics_abort_name(enum abort_stage stage) { return abort_names[stage]; }

void metrics_abort(struct metrics *metrics, enum abort_stage stage) { add(&metrics->aborted[stage], 1); }

void metrics_unparsed(struct metrics *metrics, int status) {
  int i = 0;
  while (unparsed_codes[i] && unparsed_codes[i] != status) i++;
  add(&metrics->unparsed[i], 1);
}

void metrics_bytes(struct metrics *metrics, int64_t received, int64_t sent) {
  add(&metrics->received_bytes, received);
  add(&metrics->sent_bytes, sent);
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

void metrics_job(struct metrics *metrics, const struct vx_counts *counts, const struct answer *answer) {
  add(&metrics->samples, counts->sampled);
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++) add(&metrics->points[fate], vx_fate_count(fate, counts));
  for (int i = 0; i < VOXEL_FATES; i++) add(&metrics->voxels[i], voxel_fate_count(i, counts));
  for (int i = 0; i < TIMING_COUNT; i++)
    if (answer_has_timing(answer, i)) observe(&metrics->stages[i], answer_timing_ns(answer, i));
}

void metrics_sent(struct metrics *metrics, int64_t ns) { observe(&metrics->stages[STAGE_SEND], ns); }

static unsigned long long sum_of_reason(struct metrics *metrics, int kind) {
  unsigned long long sum = 0;
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) sum += get(&metrics->requests[endpoint][kind]);
  return sum;
}

struct metrics_outcomes metrics_outcomes(struct metrics *metrics) {
  struct metrics_outcomes outcomes = {.answered = sum_of_reason(metrics, PROBLEM_NONE)};
  for (int kind = PROBLEM_NONE + 1; kind < PROBLEM_COUNT; kind++) outcomes.refused += sum_of_reason(metrics, kind);
  for (int stage = 0; stage < ABORT_STAGES; stage++) outcomes.aborted += get(&metrics->aborted[stage]);
  return outcomes;
}

// ---- families of several samples ----------------------------------------------------------------------------------------

static void write_labelled(struct text *out, const char *name, const char *label, const char *value,
                           unsigned long long number) {
  text_printf(out, "%s{%s=\"%s\"} %llu\n", name, label, value, number);
}

static void write_histogram(struct text *out, const char *name, const char *label, const char *value,
                            struct histogram *histogram) {
  unsigned long long sum = 0;
  for (int bucket = 0; bucket < METRIC_BUCKETS; bucket++) {
    sum += get(&histogram->bucket[bucket]);
    text_printf(out, "%s_bucket{%s=\"%s\",le=\"%g\"} %llu\n", name, label, value, bucket_seconds[bucket], sum);
  }
  sum += get(&histogram->bucket[METRIC_BUCKETS]);
  text_printf(out, "%s_bucket{%s=\"%s\",le=\"+Inf\"} %llu\n", name, label, value, sum);
  text_printf(out, "%s_sum{%s=\"%s\"} %.9g\n", name, label, value, (double)get(&histogram->sum_ns) / 1e9);
  text_printf(out, "%s_count{%s=\"%s\"} %llu\n", name, label, value, sum);
}

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

static void write_durations(struct server *server, const char *name, struct text *out) {
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++)
    write_histogram(out, name, "endpoint", route_of((enum endpoint)endpoint)->path,
                    &server->metrics.durations[endpoint]);
}

static void write_refusals(struct server *server, const char *name, struct text *out) {
  for (int kind = PROBLEM_NONE + 1; kind < PROBLEM_COUNT; kind++)
    write_labelled(out, name, "reason", problem_info((enum problem_kind)kind)->name,
                   sum_of_reason(&server->metrics, kind));
}

static void write_unparsed(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < UNPARSED_CODES; i++) {
    char code[16] = "other";
    if (unparsed_codes[i]) snprintf(code, sizeof code, "%d", unparsed_codes[i]);
    write_labelled(out, name, "code", code, get(&server->metrics.unparsed[i]));
  }
}

static void write_aborted(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < ABORT_STAGES; i++)
    write_labelled(out, name, "stage", abort_names[i], get(&server->metrics.aborted[i]));
}

static void write_ended(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < PEER_ENDS; i++)
    write_labelled(out, name, "reason", peer_end_name((enum peer_end)i),
                   (unsigned long long)atomic_load(&server->watcher.ended[i]));
}

static void write_points(struct server *server, const char *name, struct text *out) {
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    write_labelled(out, name, "fate", vx_fate_name(fate), get(&server->metrics.points[fate]));
}

static void write_voxels(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < VOXEL_FATES; i++)
    write_labelled(out, name, "fate", voxel_fates[i].name, get(&server->metrics.voxels[i]));
}

static void write_stages(struct server *server, const char *name, struct text *out) {
  for (int i = 0; i < STAGE_COUNT; i++)
    write_histogram(out, name, "stage", i == STAGE_SEND ? "send" : answer_timing_name(i), &server->metrics.stages[i]);
}

static void write_build(struct server *server, const char *name, struct text *out) {
  const struct device *device = devices_main(&server->devices);
  text_printf(out, "%s{version=\"%s\",backend=\"%s\",device=", name, VOXELD_VERSION, device->backend->name);
  text_json_string(out, device->description.name, strlen(device->description.name));
  text_put(out, "} 1\n");
}

static void write_gpus(struct server *server, const char *name, struct text *out) {
  int working = atomic_load(&server->devices.working);
  write_labelled(out, name, "state", "working", (unsigned long long)working);
  write_labelled(out, name, "state", "lost", (unsigned long long)(server->devices.count - working));
}

// A family with a sample for each GPU.
static void write_each_gpu(struct server *server, const char *name, struct text *out,
                           long long (*value)(const struct device *gpu)) {
  for (int i = 0; i < server->devices.count; i++) {
    const struct device *gpu = &server->devices.gpu[i];
    text_printf(out, "%s{gpu=\"%d\"} %lld\n", name, gpu->index, value(gpu));
  }
}

static long long memory_of(const struct device *gpu) { return gpu->description.memory_bytes; }
static long long running_of(const struct device *gpu) { return atomic_load(&gpu->running); }
static long long answered_of(const struct device *gpu) { return atomic_load(&gpu->answered); }

static void write_gpu_memory(struct server *server, const char *name, struct text *out) {
  write_each_gpu(server, name, out, memory_of);
}
static void write_gpu_running(struct server *server, const char *name, struct text *out) {
  write_each_gpu(server, name, out, running_of);
}
static void write_gpu_jobs(struct server *server, const char *name, struct text *out) {
  write_each_gpu(server, name, out, answered_of);
}

static void write_jobs(struct server *server, const char *name, struct text *out) {
  const struct devices *devices = &server->devices;
  unsigned long long on_gpus = 0;
  for (int i = 0; i < devices->count; i++) on_gpus += (unsigned long long)atomic_load(&devices->gpu[i].answered);
  write_labelled(out, name, "backend", "cpu", (unsigned long long)atomic_load(&devices->cpu.answered));
  write_labelled(out, name, "backend", "cuda", on_gpus);
}

static void write_reruns(struct server *server, const char *name, struct text *out) {
  for (int status = VX_OK + 1; status <= VX_DEVICE_LOST; status++)
    write_labelled(out, name, "failure", metrics_failure_name((enum vx_status)status),
                   get(&server->metrics.reruns[status]));
}

static void write_depth(struct server *server, const char *name, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++)
    write_labelled(out, name, "lanes", lane_use_names[use], (unsigned long long)queue_depth(&server->queues[use]));
}

static void write_running(struct server *server, const char *name, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++)
    write_labelled(out, name, "lanes", lane_use_names[use],
                   (unsigned long long)atomic_load(&server->workers.running[use]));
}

static void write_workers(struct server *server, const char *name, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++)
    write_labelled(out, name, "lanes", lane_use_names[use],
                   (unsigned long long)workers_at_work(&server->workers, (enum vx_lane_use)use));
}

static void write_buffers(struct server *server, const char *name, struct text *out) {
  struct buffers_use use = buffers_use(&server->buffers);
  write_labelled(out, name, "state", "in_use", use.in_use);
  write_labelled(out, name, "state", "free", use.allocated - use.in_use);
}

// ---- families of one sample ---------------------------------------------------------------------------------------------

static double ready(struct server *server) { return atomic_load(&server->phase) == PHASE_READY; }
static double received(struct server *server) { return (double)get(&server->metrics.received_bytes); }
static double sent(struct server *server) { return (double)get(&server->metrics.sent_bytes); }
static double samples(struct server *server) { return (double)get(&server->metrics.samples); }
static double clients_present(struct server *server) { return (double)clients_use(&server->clients).present; }
static double gate_depth(struct server *server) { return (double)gate_waiting(&server->gate); }
static void write_places(struct server *server, const char *name, struct text *out) {
  struct clients_use use = clients_use(&server->clients);
  for (int lanes = 0; lanes < VX_LANE_USES; lanes++)
    write_labelled(out, name, "lanes", lane_use_names[lanes], (unsigned long long)use.held[SHARE_JOBS + lanes]);
}
static double queue_limit(struct server *server) { return (double)server->options.queue_depth; }
static double active(struct server *server) { return (double)atomic_load(&server->requests.active); }
static double connections(struct server *server) { return (double)atomic_load(&server->watcher.connections); }
static double connection_limit(struct server *server) { return (double)server->options.max_connections; }
static double budget(struct server *server) { return (double)server->options.memory_budget_bytes; }
static double dropped(struct server *server) { return (void)server, (double)log_lines_dropped(); }
static double cpu(struct server *server) { return (void)server, process_cpu_seconds(); }
static double resident(struct server *server) { return (void)server, process_resident_bytes(); }
static double virtual(struct server *server) { return (void)server, process_virtual_bytes(); }
static double open_files(struct server *server) { return (void)server, process_open_files(); }
static double max_files(struct server *server) { return (void)server, process_max_files(); }
static double start_time(struct server *server) { return (double)server->started_unix_s; }

// ---- the table ----------------------------------------------------------------------------------------------------------

// One of `write`, for samples with labels, and `value`.
static const struct family {
  const char *name, *type, *help;
  void (*write)(struct server *server, const char *name, struct text *out);
  double (*value)(struct server *server);
} families[] = {
    {"voxeld_build_info", "gauge", "Version, backend and device; always 1.", write_build, NULL},
    {"voxeld_ready", "gauge", "1 while ready, 0 while starting or draining.", NULL, ready},
    {"voxeld_requests_total", "counter", "Answered requests by endpoint and status code.", write_requests, NULL},
    {"voxeld_request_duration_seconds", "histogram",
     "From a request's headers to the end of its answer, of the same requests, by endpoint.", write_durations, NULL},
    {"voxeld_refusals_total", "counter", "Requests answered with a problem, by its reason.", write_refusals, NULL},
    {"voxeld_requests_unparsed_total", "counter",
     "Requests that the HTTP library could not parse and answered by itself, by status code.", write_unparsed, NULL},
    {"voxeld_requests_aborted_total", "counter",
     "Requests whose client left before the answer was sent, by how far they had come.", write_aborted, NULL},
    {"voxeld_received_bytes_total", "counter", "Bytes of request bodies.", NULL, received},
    {"voxeld_sent_bytes_total", "counter", "Bytes of response bodies.", NULL, sent},
    {"voxeld_gpus", "gauge", "GPUs in use, and those that failed for good.", write_gpus, NULL},
    {"voxeld_gpu_memory_bytes", "gauge", "Memory that each GPU has; 0 if it is the host's.", write_gpu_memory, NULL},
    {"voxeld_gpu_jobs_running", "gauge", "Jobs on each GPU now.", write_gpu_running, NULL},
    {"voxeld_gpu_jobs_total", "counter", "Answered jobs that each GPU computed.", write_gpu_jobs, NULL},
    {"voxeld_jobs_total", "counter", "Answered jobs, by the backend that computed them.", write_jobs, NULL},
    {"voxeld_reruns_total", "counter", "Jobs that a GPU failed and the CPU then ran, by the failure.", write_reruns,
     NULL},
    {"voxeld_points_total", "counter", "Points of answered jobs, by what became of them.", write_points, NULL},
    {"voxeld_voxels_total", "counter", "Voxels of answered jobs, by what became of them.", write_voxels, NULL},
    {"voxeld_samples_total", "counter", "Farthest point samples of answered jobs.", NULL, samples},
    {"voxeld_stage_duration_seconds", "histogram",
     "Where the time of answered jobs went; send is beyond the total, and of those that were sent.", write_stages,
     NULL},
    {"voxeld_queue_depth", "gauge", "Jobs that wait for a worker, by the lanes they are for.", write_depth, NULL},
    {"voxeld_queue_places", "gauge", "Places taken: requests that come in or wait for a worker.", write_places, NULL},
    {"voxeld_queue_limit", "gauge", "Places that there are, for each kind of lanes.", NULL, queue_limit},
    {"voxeld_gate_waiting", "gauge", "Requests that wait for others of their own client.", NULL, gate_depth},
    {"voxeld_clients", "gauge", "Clients that have a connection or a request.", NULL, clients_present},
    {"voxeld_workers", "gauge", "Workers that take jobs, by what their lanes are for.", write_workers, NULL},
    {"voxeld_jobs_running", "gauge", "Jobs on a lane now, by what the lane is for.", write_running, NULL},
    {"voxeld_requests_active", "gauge", "Requests with a body under way, a job, or its answer.", NULL, active},
    {"voxeld_connections", "gauge", "Open connections.", NULL, connections},
    {"voxeld_connections_limit", "gauge", "Connections that may be open.", NULL, connection_limit},
    {"voxeld_connections_ended_total", "counter", "Ended connections by reason.", write_ended, NULL},
    {"voxeld_buffer_bytes", "gauge", "Memory of bodies, answers and large jobs, in use and kept for reuse.",
     write_buffers, NULL},
    {"voxeld_buffer_budget_bytes", "gauge", "What that memory may become.", NULL, budget},
    {"voxeld_log_lines_dropped_total", "counter", "Lines of the log that its reader was too slow for.", NULL, dropped},
    {"process_cpu_seconds_total", "counter", "Processor time, user and system.", NULL, cpu},
    {"process_resident_memory_bytes", "gauge", "Memory that is resident.", NULL, resident},
    {"process_virtual_memory_bytes", "gauge", "Memory that is mapped.", NULL, virtual},
    {"process_open_fds", "gauge", "Open file descriptors.", NULL, open_files},
    {"process_max_fds", "gauge", "File descriptors that may be open.", NULL, max_files},
    {"process_start_time_seconds", "gauge", "When the process began, since 1970.", NULL, start_time},
};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

void metrics_write(struct server *server, struct text *out) {
  for (size_t i = 0; i < FAMILY_COUNT; i++) {
    const struct family *family = &families[i];
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name, family->type);
    if (family->write)
      family->write(server, family->name, out);
    else
      text_printf(out, "%s %.15g\n", family->name, family->value(server));
  }
}

void metrics_describe(struct text *out) {
  text_put(out, "[");
  for (size_t i = 0; i < FAMILY_COUNT; i++)
    text_printf(out, "%s\n    {\"name\":\"%s\",\"type\":\"%s\",\"doc\":\"%s\"}", i ? "," : "", families[i].name,
                families[i].type, families[i].help);
  text_put(out, "\n  ]");
}

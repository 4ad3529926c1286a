// /metrics: one table of families, written in the Prometheus text format
// (prometheus.io/docs/instrumenting/exposition_formats). See pages.h.
#include "server/pages/pages.h"

#include <stdio.h>

#include "api/base/json_write.h"
#include "server/base/base.h"
#include "server/base/log.h"
#include "server/net/connections.h"

// ---- families of several samples ------------------------------------------------------------------------------------

static void write_labelled(struct text *out, const char *name, const char *label, const char *value,
                           unsigned long long number) {
  text_printf(out, "%s{%s=\"%s\"} %llu\n", name, label, value, number);
}

static void write_histogram(struct text *out, const char *name, const char *label, const char *value,
                            const struct histogram *histogram) {
  unsigned long long sum = 0;
  for (int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
    sum += counter_value(&histogram->bucket[bucket]);
    text_printf(out, "%s_bucket{%s=\"%s\",le=\"%g\"} %llu\n", name, label, value, histogram_bounds[bucket], sum);
  }
  sum += counter_value(&histogram->bucket[HISTOGRAM_BUCKETS]);
  text_printf(out, "%s_bucket{%s=\"%s\",le=\"+Inf\"} %llu\n", name, label, value, sum);
  text_printf(out, "%s_sum{%s=\"%s\"} %.9g\n", name, label, value, (double)counter_value(&histogram->sum_ns) / 1e9);
  text_printf(out, "%s_count{%s=\"%s\"} %llu\n", name, label, value, sum);
}

static void write_answers(struct text *out, const char *name, const char *path, int status, unsigned long long number) {
  text_printf(out, "%s{endpoint=\"%s\",code=\"%d\"} %llu\n", name, path, status, number);
}

// Endpoints with the same path count as one.
static bool is_counted(int endpoint) { return (int)route_counted((enum endpoint)endpoint) == endpoint; }

// Answers of an endpoint with the same status are one sample, whatever their reasons.
static void write_requests(struct service *service, const char *name, struct text *out) {
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) {
    if (!is_counted(endpoint)) continue;
    const atomic_uint_fast64_t *outcomes = service->counters.requests[endpoint];
    const char *path = routes[endpoint].path;
    enum problem_style style = route_style(path);
    for (int kind = 0; kind < ERROR_COUNT; kind++) {
      int status = problem_status((enum error_kind)kind, style);
      unsigned long long sum = 0;
      bool first = true;
      for (int other = 0; other < ERROR_COUNT; other++) {
        if (problem_status((enum error_kind)other, style) != status) continue;
        if (other < kind) first = false;
        sum += counter_value(&outcomes[other]);
      }
      if (first && sum) write_answers(out, name, path, status, sum);
    }
    unsigned long long unchanged = counter_value(&service->counters.unchanged[endpoint]);
    if (unchanged) write_answers(out, name, path, 304, unchanged);
  }
}

static void write_durations(struct service *service, const char *name, struct text *out) {
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++)
    if (is_counted(endpoint))
      write_histogram(out, name, "endpoint", routes[endpoint].path, &service->counters.durations[endpoint]);
}

static void write_refusals(struct service *service, const char *name, struct text *out) {
  for (int kind = ERROR_NONE + 1; kind < ERROR_COUNT; kind++)
    write_labelled(out, name, "reason", problem_info((enum error_kind)kind)->name,
                   counters_of_outcome(&service->counters, (enum error_kind)kind) +
                       connections_refused(&service->watcher, (enum error_kind)kind));
}

static void write_unparsed(struct service *service, const char *name, struct text *out) {
  for (int i = 0; i < UNPARSED_CODES; i++) {
    char code[16] = "other";
    if (unparsed_codes[i]) snprintf(code, sizeof code, "%d", unparsed_codes[i]);
    write_labelled(out, name, "code", code, counter_value(&service->counters.unparsed[i]));
  }
}

static void write_aborted(struct service *service, const char *name, struct text *out) {
  for (int i = 0; i < ABORT_STAGES; i++)
    write_labelled(out, name, "stage", abort_name((enum abort_stage)i), counter_value(&service->counters.aborted[i]));
}

static void write_ended(struct service *service, const char *name, struct text *out) {
  for (int i = 0; i < PEER_ENDS; i++)
    write_labelled(out, name, "reason", peer_end_name((enum peer_end)i),
                   (unsigned long long)atomic_load(&service->watcher.ended[i]));
}

static void write_fates(struct service *service, enum vx_items items, const char *name, struct text *out) {
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    if (vx_fates_of(items) & VX_FATE_BIT(fate))
      write_labelled(out, name, "fate", vx_fate_names[fate], counter_value(&service->counters.fates[items][fate]));
}

static const char *step_name(int type) { return vx_step_row_of((enum vx_step_type)type)->name; }

static void write_steps(struct service *service, const char *name, struct text *out) {
  for (int type = 0; type < VX_STEP_TYPES; type++) {
    uint32_t fates = vx_step_row_of((enum vx_step_type)type)->fates | VX_FATE_BIT(VX_FATE_KEPT);
    for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
      if (fates & VX_FATE_BIT(fate))
        text_printf(out, "%s{step=\"%s\",fate=\"%s\"} %llu\n", name, step_name(type), vx_fate_names[fate],
                    counter_value(&service->counters.steps[type][fate]));
  }
}

static void write_step_durations(struct service *service, const char *name, struct text *out) {
  for (int type = 0; type < VX_STEP_TYPES; type++)
    write_histogram(out, name, "step", step_name(type), &service->counters.step_durations[type]);
}

static void write_voxels(struct service *service, const char *name, struct text *out) {
  for (int i = 0; i < VX_VOXEL_FATES; i++)
    write_labelled(out, name, "fate", voxel_fates[i], counter_value(&service->counters.voxels[i]));
}

static void write_warnings(struct service *service, const char *name, struct text *out) {
  for (enum warning i = 0; i < WARNING_KINDS; i++)
    write_labelled(out, name, "kind", warning_kind(i), counter_value(&service->counters.warnings[i]));
}

static void write_stages(struct service *service, const char *name, struct text *out) {
  for (int i = 0; i < STAGE_COUNT; i++)
    write_histogram(out, name, "stage", i == STAGE_SEND ? "send" : answer_timing_name(i), &service->counters.stages[i]);
}

static void write_build(struct service *service, const char *name, struct text *out) {
  const struct device *device = devices_main(&service->jobs.devices);
  text_printf(out, "%s{version=\"%s\",backend=\"%s\",device=", name, VOXELD_VERSION, device->backend->name);
  json_put_string(out, device->description.name);
  text_put(out, "} 1\n");
}

static void write_gpus(struct service *service, const char *name, struct text *out) {
  for (int state = 0; state < DEVICE_STATES; state++)
    write_labelled(out, name, "state", device_states[state],
                   (unsigned long long)devices_in(&service->jobs.devices, (enum device_state)state));
}

static void write_each_gpu(struct service *service, const char *name, struct text *out,
                           long long (*value)(struct service *service, const struct device *gpu)) {
  for (int i = 0; i < service->jobs.devices.count; i++) {
    const struct device *gpu = &service->jobs.devices.gpu[i];
    text_printf(out, "%s{gpu=\"%d\"} %lld\n", name, gpu->index, value(service, gpu));
  }
}

static long long memory_of(struct service *service, const struct device *gpu) {
  return (void)service, gpu->description.memory_bytes;
}
static long long running_of(struct service *service, const struct device *gpu) {
  return (void)service, atomic_load(&gpu->running);
}
static long long answered_of(struct service *service, const struct device *gpu) {
  return (void)service, atomic_load(&gpu->answered);
}
// What the networks may take: ONNX Runtime does not report what they use.
static long long network_memory_of(struct service *service, const struct device *gpu) {
  return service_sessions(service, gpu) * service->options.network_memory_bytes;
}

static void write_models(struct service *service, const char *name, struct text *out) {
  const struct detectors *detectors = catalog_acquire(&service->catalog)->detectors;
  unsigned long long failed = 0, outdated = 0, all = detectors_count(detectors);
  for (size_t i = 0; i < all; i++) {
    failed += detector_fault(detectors_at(detectors, i)) != NULL;
    outdated += detectors_refusal(detectors, i) != NULL;
  }
  catalog_release(&service->catalog);
  write_labelled(out, name, "state", "ready", all - failed - outdated);
  write_labelled(out, name, "state", "outdated", outdated);
  write_labelled(out, name, "state", "failed", failed);
}

static void write_jobs(struct service *service, const char *name, struct text *out) {
  const struct devices *devices = &service->jobs.devices;
  unsigned long long on_gpus = 0;
  for (int i = 0; i < devices->count; i++) on_gpus += (unsigned long long)atomic_load(&devices->gpu[i].answered);
  write_labelled(out, name, "backend", "cpu", (unsigned long long)atomic_load(&devices->cpu.answered));
  write_labelled(out, name, "backend", "cuda", on_gpus);
}

static void write_reruns(struct service *service, const char *name, struct text *out) {
  for (int status = VX_OK + 1; status < VX_STATUS_COUNT; status++)
    if (status != VX_STOPPED)
      write_labelled(out, name, "failure", failure_name((enum vx_status)status),
                     counter_value(&service->counters.reruns[status]));
}

static void write_each_lanes(struct service *service, const char *name, struct text *out,
                             long long (*value)(struct service *service, enum vx_lane_use use)) {
  for (enum vx_lane_use use = 0; use < VX_LANE_USES; use++)
    write_labelled(out, name, "lanes", lane_names[use].label, (unsigned long long)value(service, use));
}

static long long depth_of(struct service *service, enum vx_lane_use use) {
  return atomic_load(&service->jobs.queues[use].depth);
}
static long long slots_of(struct service *service, enum vx_lane_use use) {
  return clients_use(&service->clients).held[SHARE_JOBS + use];
}
static long long jobs_of(struct service *service, enum vx_lane_use use) {
  return atomic_load(&service->jobs.workers.running[use]);
}
static long long workers_of(struct service *service, enum vx_lane_use use) { return jobs_workers(&service->jobs, use); }

static double helping(struct service *service) { return service->jobs.helpers.at_work; }
static void write_tasks(struct service *service, const char *name, struct text *out) {
  unsigned long long helped = service->jobs.helpers.helped;  // read before `tasks`, so that `tasks` is not less
  write_labelled(out, name, "by", "job", service->jobs.helpers.tasks - helped);
  write_labelled(out, name, "by", "helper", helped);
}
static double given_up(struct service *service) { return (double)service->jobs.helpers.given_up; }

static double small_jobs(struct service *service) { return (double)atomic_load(&service->jobs.small.run); }

static void write_buffers(struct service *service, const char *name, struct text *out) {
  const struct buffers *buffers = &service->jobs.buffers;
  size_t in_use = buffers->in_use;
  write_labelled(out, name, "state", "in_use", in_use);
  write_labelled(out, name, "state", "free", buffers->allocated - in_use);
}

// ---- families of one sample -----------------------------------------------------------------------------------------

static double preempted(struct service *service) { return (double)counter_value(&service->jobs.uploads.preempted); }
static double ready(struct service *service) { return atomic_load(&service->phase) == PHASE_READY; }
static double received(struct service *service) { return (double)counter_value(&service->counters.received_bytes); }
static double sent(struct service *service) { return (double)counter_value(&service->counters.sent_bytes); }
static double samples(struct service *service) { return (double)counter_value(&service->counters.samples); }
static double clients_present(struct service *service) { return (double)clients_use(&service->clients).present; }
static double gate_depth(struct service *service) { return (double)atomic_load(&service->gate.waiting); }
static double queue_limit(struct service *service) { return (double)service->options.queue_depth; }
static double active(struct service *service) { return (double)atomic_load(&service->requests.active); }
static double connections(struct service *service) { return (double)atomic_load(&service->watcher.group.open); }
static double connection_limit(struct service *service) { return (double)service->options.max_connections; }
static double page_connections(struct service *service) {
  return (double)atomic_load(&service->watcher.page_group.open);
}
static double page_connection_limit(struct service *service) {
  return service->options.pages_listen[0] ? PAGES_CONNECTIONS : 0;
}
static double budget(struct service *service) { return (double)service->options.memory_budget_bytes; }
static double pinned(struct service *service) { return (double)regions_use(&service->jobs.regions).pinned_bytes; }
static double pin_failures(struct service *service) { return (double)regions_use(&service->jobs.regions).refusals; }
static void write_parts(struct service *service, const char *name, struct text *out) {
  struct regions_use use = regions_use(&service->jobs.regions);
  write_labelled(out, name, "way", "in_place", use.reached);
  write_labelled(out, name, "way", "copied", use.copied);
}
static double streams(struct service *service) { return (double)streams_use(&service->jobs.streams).streams; }
static double sweeps(struct service *service) { return (double)streams_use(&service->jobs.streams).sweeps; }
static double stream_bytes(struct service *service) { return (double)streams_use(&service->jobs.streams).bytes; }
static double subscribers(struct service *service) {
  return (double)events_use(&service->jobs.streams.events).subscribers;
}
static void write_events(struct service *service, const char *name, struct text *out) {
  struct events_use use = events_use(&service->jobs.streams.events);
  write_labelled(out, name, "fate", "told", use.told);
  write_labelled(out, name, "fate", "lost", use.lost);
}
static void write_sweeps(struct service *service, const char *name, struct text *out) {
  struct streams_use use = streams_use(&service->jobs.streams);
  write_labelled(out, name, "fate", "kept", use.kept);
  write_labelled(out, name, "fate", "repeated", use.repeated);
  write_labelled(out, name, "fate", "evicted", use.evicted);
  write_labelled(out, name, "fate", "expired", use.expired);
}
static void write_regions(struct service *service, const char *name, struct text *out) {
  struct regions_use use = regions_use(&service->jobs.regions);
  for (int kind = 0; kind < REGION_KINDS; kind++)
    write_labelled(out, name, "kind", region_kinds[kind], (unsigned long long)use.count[kind]);
}
static double dropped(struct service *service) { return (void)service, (double)log_lines_dropped(); }
static double cpu(struct service *service) { return (void)service, process_cpu_seconds(); }
static double resident(struct service *service) { return (void)service, process_resident_bytes(); }
static double virtual(struct service *service) { return (void)service, process_virtual_bytes(); }
static double open_files(struct service *service) { return (void)service, process_open_files(); }
static double max_files(struct service *service) { return (void)service, process_max_files(); }
static double start_time(struct service *service) { return (double)service->started_unix_s; }

// ---- the table ------------------------------------------------------------------------------------------------------

// A row has one of: `write`, for samples with labels; `value`, for one sample; `of_gpu` or `of_lanes`, for a sample of
// each GPU or kind of lanes; `items`, for a sample of each fate of these items.
static const struct family {
  const char *name, *type, *help;
  void (*write)(struct service *service, const char *name, struct text *out);
  double (*value)(struct service *service);
  long long (*of_gpu)(struct service *service, const struct device *gpu);
  long long (*of_lanes)(struct service *service, enum vx_lane_use use);
  enum vx_items items;
} families[] = {
    {"voxeld_build_info", "gauge", "Version, backend and device; always 1.", .write = write_build},
    {"voxeld_ready", "gauge", "1 while ready, else 0.", .value = ready},
    {"voxeld_requests_total", "counter", "Answered requests by endpoint and status code.", .write = write_requests},
    {"voxeld_request_duration_seconds", "histogram",
     "Time from the headers of an answered request to the end of its answer, by endpoint.", .write = write_durations},
    {"voxeld_refusals_total", "counter", "Requests answered with a problem, and refused connections, by reason.",
     .write = write_refusals},
    {"voxeld_requests_unparsed_total", "counter",
     "Requests that the HTTP library could not parse and answered itself, by status code.", .write = write_unparsed},
    {"voxeld_requests_aborted_total", "counter",
     "Requests whose client left before the answer was sent, by the stage they were in.", .write = write_aborted},
    {"voxeld_received_bytes_total", "counter", "Bytes of request bodies, as they came.", .value = received},
    {"voxeld_sent_bytes_total", "counter", "Bytes of response bodies.", .value = sent},
    {"voxeld_gpus", "gauge", "GPUs, by whether they work, are paused, or have failed for good.", .write = write_gpus},
    {"voxeld_gpu_memory_bytes", "gauge", "Memory of each GPU; 0 if it shares the host's.", .of_gpu = memory_of},
    {"voxeld_gpu_jobs_running", "gauge", "Jobs that run on each GPU now.", .of_gpu = running_of},
    {"voxeld_gpu_jobs_total", "counter", "Answered jobs that each GPU computed.", .of_gpu = answered_of},
    {"voxeld_gpu_network_sessions", "gauge",
     "Sessions of networks on each GPU; for each network at most gpu_detection_streams.", .of_gpu = service_sessions},
    {"voxeld_gpu_network_memory_limit_bytes", "gauge",
     "Memory of each GPU that ONNX Runtime may take for networks of models; 0 if there is no limit.",
     .of_gpu = network_memory_of},
    {"voxeld_models", "gauge", "Models that detect: ready, outdated because newer files are broken, or failed.",
     .write = write_models},
    {"voxeld_jobs_total", "counter", "Answered jobs, by the backend that computed them.", .write = write_jobs},
    {"voxeld_reruns_total", "counter", "Jobs that failed on a GPU and then ran on the CPU, by failure.",
     .write = write_reruns},
    {"voxeld_points_total", "counter", "Points of answered jobs, by fate.", .items = VX_POINT_ITEMS},
    {"voxeld_candidates_total", "counter", "Candidates of centre heads in answered jobs, by fate.",
     .items = VX_CANDIDATE_ITEMS},
    {"voxeld_anchors_total", "counter", "Anchors of answered jobs, by fate.", .items = VX_ANCHOR_ITEMS},
    {"voxeld_boxes_total", "counter", "Boxes of answered jobs, by fate.", .items = VX_BOX_ITEMS},
    {"voxeld_voxels_total", "counter", "Voxels of answered jobs, by fate.", .write = write_voxels},
    {"voxeld_scattered_voxels_total", "counter", "Voxels of answered scatters, by fate.", .items = VX_VOXEL_ITEMS},
    {"voxeld_samples_total", "counter", "Farthest point samples of answered jobs.", .value = samples},
    {"voxeld_warnings_total", "counter", "Warnings in the metadata of answered jobs, by kind.",
     .write = write_warnings},
    {"voxeld_stage_duration_seconds", "histogram",
     "Time of answered jobs, by stage; send is not a part of total, and counts only answers that were sent whole.",
     .write = write_stages},
    {"voxeld_step_points_total", "counter", "Points that steps of answered jobs got, by type of step and by fate.",
     .write = write_steps},
    {"voxeld_step_duration_seconds", "histogram", "Time of steps of answered jobs, by type of step.",
     .write = write_step_durations},
    {"voxeld_queue_depth", "gauge", "Jobs that wait for a worker, by kind of lanes.", .of_lanes = depth_of},
    {"voxeld_queue_slots", "gauge", "Queue slots taken by uploads and waiting jobs, by kind of lanes.",
     .of_lanes = slots_of},
    {"voxeld_queue_limit", "gauge", "Queue slots that each kind of lanes has.", .value = queue_limit},
    {"voxeld_gate_waiting", "gauge", "Requests that wait for other requests of the same client.", .value = gate_depth},
    {"voxeld_clients", "gauge", "Clients that have a connection or a request.", .value = clients_present},
    {"voxeld_workers", "gauge", "Workers that take jobs, by kind of lanes.", .of_lanes = workers_of},
    {"voxeld_jobs_running", "gauge", "Jobs that run now, by kind of lanes.", .of_lanes = jobs_of},
    {"voxeld_workers_helping", "gauge", "Workers without a job that help with other workers' jobs.", .value = helping},
    {"voxeld_tasks_total", "counter", "Tasks of jobs on the CPU, by who did them: the job's worker or a helper.",
     .write = write_tasks},
    {"voxeld_tasks_given_up_total", "counter", "Tasks that a helper gave up, usually because it got a job.",
     .value = given_up},
    {"voxeld_small_jobs_total", "counter", "Small jobs that I/O threads ran themselves.", .value = small_jobs},
    {"voxeld_requests_active", "gauge", "Requests that upload, have a job, or receive a job's answer.",
     .value = active},
    {"voxeld_connections", "gauge", "Open connections, without those of listeners for pages.", .value = connections},
    {"voxeld_connections_limit", "gauge", "Connections that may be open, without those of listeners for pages.",
     .value = connection_limit},
    {"voxeld_page_connections", "gauge", "Open connections of the listeners for pages.", .value = page_connections},
    {"voxeld_page_connections_limit", "gauge", "Connections that may be open to listeners for pages.",
     .value = page_connection_limit},
    {"voxeld_connections_ended_total", "counter", "Ended connections by reason.", .write = write_ended},
    {"voxeld_buffer_bytes", "gauge",
     "Memory for bodies, answers, sweeps of streams and large jobs, in use or kept for reuse.", .write = write_buffers},
    {"voxeld_uploads_preempted_total", "counter",
     "Slow uploads refused in favour of requests that took over their memory or queue slot.", .value = preempted},
    {"voxeld_buffer_budget_bytes", "gauge", "The maximum of voxeld_buffer_bytes.", .value = budget},
    {"voxeld_regions", "gauge", "Regions of shared memory, by kind: system or cuda.", .write = write_regions},
    {"voxeld_regions_pinned_bytes", "gauge", "Bytes of regions that are pinned for GPUs.", .value = pinned},
    {"voxeld_region_pin_failures_total", "counter",
     "Parts of regions that are copied because they could not be pinned.", .value = pin_failures},
    {"voxeld_region_parts_total", "counter",
     "Parts of regions with the points or the answer of an answered job: accessed by a GPU in place, or copied.",
     .write = write_parts},
    {"voxeld_streams", "gauge", "Streams of sensors.", .value = streams},
    {"voxeld_stream_sweeps", "gauge", "Sweeps that streams keep.", .value = sweeps},
    {"voxeld_stream_bytes", "gauge",
     "Memory of the sweeps and tracks that streams keep, a part of voxeld_buffer_bytes.", .value = stream_bytes},
    {"voxeld_stream_sweeps_total", "counter",
     "Sweeps of streams, by fate: kept, replacing a sweep of the same time, evicted for memory, or expired.",
     .write = write_sweeps},
    {"voxeld_stream_subscribers", "gauge", "Connections that receive events of streams.", .value = subscribers},
    {"voxeld_stream_events_total", "counter",
     "Events of streams that subscribers received, or missed because they were too slow.", .write = write_events},
    {"voxeld_log_lines_dropped_total", "counter", "Log lines dropped because stderr did not take them in time.",
     .value = dropped},
    {"process_cpu_seconds_total", "counter", "Processor time, user and system.", .value = cpu},
    {"process_resident_memory_bytes", "gauge", "Memory that is resident.", .value = resident},
    {"process_virtual_memory_bytes", "gauge", "Memory that is mapped.", .value = virtual},
    {"process_open_fds", "gauge", "Open file descriptors.", .value = open_files},
    {"process_max_fds", "gauge", "File descriptors that may be open.", .value = max_files},
    {"process_start_time_seconds", "gauge", "Start time of the process, in seconds since 1970.", .value = start_time},
};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

void metrics_write(struct service *service, struct text *out) {
  for (size_t i = 0; i < FAMILY_COUNT; i++) {
    const struct family *family = &families[i];
    text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name, family->type);
    if (family->write)
      family->write(service, family->name, out);
    else if (family->value)
      text_printf(out, "%s %.15g\n", family->name, family->value(service));
    else if (family->of_gpu)
      write_each_gpu(service, family->name, out, family->of_gpu);
    else if (family->of_lanes)
      write_each_lanes(service, family->name, out, family->of_lanes);
    else
      write_fates(service, family->items, family->name, out);
  }
}

void metrics_describe(struct text *out) {
  json_printf(out, "[");
  for (size_t i = 0; i < FAMILY_COUNT; i++)
    json_printf(out, "{name:%s type:%s doc:%s}", families[i].name, families[i].type, families[i].help);
  json_printf(out, "]");
}

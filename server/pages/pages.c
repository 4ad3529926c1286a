// The table of pages, and the pages of /v1; see pages.h.
#include "server/pages/pages.h"

#include <time.h>

#include "api/base/json_write.h"
#include "api/resources.h"
#include "kernels/backends.h"
#include "server/base/base.h"
#include "server/base/log.h"

#ifdef __clang__
#define BUILD_COMPILER "clang " __clang_version__
#else
#define BUILD_COMPILER "gcc " __VERSION__
#endif

bool service_is_ready(struct service *service, struct error *error) {
  switch (atomic_load(&service->phase)) {
    case PHASE_READY: return true;
    case PHASE_LEAVING:
    case PHASE_DRAINING: return error_refuse(error, ERROR_DRAINING, NULL, "the server is stopping");
    default:
      if (atomic_load(&service->warming.all) == 0)
        return error_refuse(error, ERROR_NOT_READY, NULL, "the server is starting");
      return error_refuse(error, ERROR_NOT_READY, NULL, "the server runs its networks once: %lld of %lld runs are done",
                          (long long)atomic_load(&service->warming.done),
                          (long long)atomic_load(&service->warming.all));
  }
}

static bool write_presets(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  presets_write(catalog_acquire(&asked->service->catalog)->presets, out);
  catalog_release(&asked->service->catalog);
  return true;
}

static bool write_preset(const struct page_asked *asked, struct text *out, struct error *error) {
  const struct presets *presets = catalog_acquire(&asked->service->catalog)->presets;
  const struct preset *preset = presets_find(presets, asked->name);
  if (preset) preset_write(preset, out);
  bool good = preset || presets_refuse(presets, asked->name, error);
  catalog_release(&asked->service->catalog);
  text_put(out, "\n");
  return good;
}

static bool write_detectors(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  detectors_write(catalog_acquire(&asked->service->catalog)->detectors, out);
  catalog_release(&asked->service->catalog);
  return true;
}

static bool write_detector(const struct page_asked *asked, struct text *out, struct error *error) {
  bool good = detectors_write_one(catalog_acquire(&asked->service->catalog)->detectors, asked->name, out, error);
  catalog_release(&asked->service->catalog);
  text_put(out, "\n");
  return good;
}

static const char *phase_name(struct service *service) {
  static const char *const names[] = {"starting", "ready", "leaving", "draining"};
  int phase = atomic_load(&service->phase);
  bool degraded = atomic_load(&service->jobs.devices.working) < service->jobs.devices.count;
  return phase == PHASE_READY && degraded ? "degraded" : names[phase];
}

long long service_sessions(struct service *service, const struct device *gpu) {
  long long sessions = detectors_sessions(catalog_acquire(&service->catalog)->detectors, gpu->index);
  catalog_release(&service->catalog);
  return sessions;
}

static void write_device(struct service *service, const struct device *device, struct text *out) {
  struct devices *devices = &service->jobs.devices;
  const struct vx_description *description = &device->description;
  struct device_health health = device_health(devices, device, clock_ns());
  json_printf(out, "{index:%d name:%s memory_bytes:%ld compute_capability:%d integrated:%i", device->index,
              description->name, description->memory_bytes, description->compute_capability, description->integrated);
  json_printf(out, "state:%s running:%lld answered:%lld", device_states[health.state], atomic_load(&device->running),
              atomic_load(&device->answered));
  if (device != &devices->cpu) {
    long long sessions = service_sessions(service, device);
    json_printf(out, "network_sessions:%lld network_memory_limit_bytes:%lld", sessions,
                sessions * service->options.network_memory_bytes);
  }
  if (health.state == DEVICE_PAUSED)
    json_printf(out, "paused_s:%.3f next_trial_s:%.3f", (double)health.paused_ns / 1e9, (double)health.retry_ns / 1e9);
  if (health.state != DEVICE_WORKING) json_printf(out, "reason:%s", health.reason);
  json_printf(out, "}");
}

static void write_backend(struct service *service, struct text *out) {
  struct devices *devices = &service->jobs.devices;
  json_printf(out, "backend:{name:%s devices:[", devices_main(devices)->backend->name);
  for (int i = 0; i < devices->count; i++) write_device(service, &devices->gpu[i], out);
  if (devices->count == 0) write_device(service, &devices->cpu, out);
  json_printf(out, "]}");
}

static void write_start(struct service *service, struct text *out) {
  time_t started = (time_t)service->started_unix_s;
  struct tm utc;
  char text[40] = "";
  gmtime_r(&started, &utc);
  (void)!strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_printf(out, "started:%s uptime_s:%.3f", text, (double)(clock_ns() - service->started_ns) / 1e9);
}

static void write_requests(struct service *service, struct text *out) {
  const struct request_counts *requests = &service->requests;
  struct outcomes outcomes = counters_outcomes(&service->counters);
  json_printf(out,
              "requests:{active:%lld open:%lld answered:%llu refused:%llu superseded:%llu too_old:%llu aborted:%llu}",
              atomic_load(&requests->active), atomic_load(&requests->open), outcomes.answered, outcomes.refused,
              outcomes.superseded, outcomes.too_old, outcomes.aborted);
}

static void write_lanes(struct service *service, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++) {
    json_printf(out, "%s:{count:%ld running:%lld}", lane_names[use].workers,
                workers_at_work(&service->jobs.workers, use), atomic_load(&service->jobs.workers.running[use]));
    json_printf(out, "%s:{depth:%lld limit:%ld}", lane_names[use].queue, atomic_load(&service->jobs.queues[use].depth),
                service->options.queue_depth);
  }
}

static void write_target(const struct placement *placement, enum target target, struct text *out) {
  json_printf(out, "running:%lld answered:%lld measured_us:%lld}", atomic_load(&placement->at_work[target]),
              atomic_load(&placement->answered[target]), atomic_load(&placement->measured_ns[target]) / NS_PER_US);
}

static void write_placement(struct service *service, struct text *out) {
  const struct placement *placement = service->jobs.queues[VX_LANE_LONG].placement;
  if (!placement) return;
  json_printf(out, "sampling_placement:{gpu:{");
  write_target(placement, TARGET_GPU, out);
  int64_t steady = workers_steady(&service->jobs.workers, VX_LANE_LONG);
  json_printf(out, "cpu:{workers:%ld room:%i", workers_at_work(&service->jobs.workers, VX_LANE_LONG) - steady,
              placement_has_room(placement));
  write_target(placement, TARGET_CPU, out);
  json_printf(out, "used_processors:%.3f}", (double)atomic_load(&placement->used) / 1000);
}

static void write_work(struct service *service, struct text *out) {
  const struct helpers *helpers = &service->jobs.helpers;
  const struct small *small = &service->jobs.small;
  json_printf(out, "help:{workers:%d tasks:%llu helped:%llu given_up:%llu}", atomic_load(&helpers->at_work),
              atomic_load(&helpers->tasks), atomic_load(&helpers->helped), atomic_load(&helpers->given_up));
  json_printf(out, "small_jobs:{points:%ld run:%llu}", small->most_points, atomic_load(&small->run));
}

static void write_memory(struct service *service, struct text *out) {
  const struct buffers *buffers = &service->jobs.buffers;
  json_printf(out, "buffers:{budget_bytes:%zu allocated_bytes:%zu in_use_bytes:%zu}", buffers->budget,
              atomic_load(&buffers->allocated), atomic_load(&buffers->in_use));
}

static void write_regions(const struct page_asked *asked, struct text *out) {
  struct regions_use use = regions_use(&asked->service->jobs.regions);
  const struct options *options = &asked->service->options;
  const struct object_asker asker = {asked->user, asked->address};
  json_printf(out, "shared_memory:{allowed:%i regions:%ld cuda_allowed:%i cuda_regions:%ld",
              options->allow_shared_memory, use.count[REGION_SYSTEM], options->allow_cuda_shared_memory,
              use.count[REGION_CUDA]);
  json_printf(out, "pinned_bytes:%ld pinned_limit_bytes:%ld", use.pinned_bytes, options->shared_memory_pinned_bytes);
  json_printf(out, "pin_failures:%llu parts_in_place:%llu parts_copied:%llu keys:[", use.refusals, use.reached,
              use.copied);
  if (asked->local && options->allow_shared_memory) object_keys_write(options, &asker, out);
  json_printf(out, "]}");
}

static void write_streams(struct service *service, struct text *out) {
  struct streams_use use = streams_use(&service->jobs.streams);
  json_printf(out, "streams:{count:%ld sweeps:%ld memory_bytes:%ld limit_bytes:%ld", use.streams, use.sweeps, use.bytes,
              service->options.stream_memory_bytes);
  json_printf(out, "kept:%llu repeated:%llu evicted:%llu expired:%llu subscribers:%ld}", use.kept, use.repeated,
              use.evicted, use.expired, events_use(&service->jobs.streams.events).subscribers);
}

static bool write_status(const struct page_asked *asked, struct text *out, struct error *error) {
  struct service *service = asked->service;
  const struct options *options = &service->options;
  (void)error;
  json_printf(out, "{version:%s build:{compiler:%s libmicrohttpd:%s cuda:%i} state:%s", VOXELD_VERSION, BUILD_COMPILER,
              http_library_version(), vx_backend_find("cuda") != NULL, phase_name(service));
  write_start(service, out);
  json_printf(out, "address:%s", service->address);
  write_backend(service, out);
  write_lanes(service, out);
  write_placement(service, out);
  write_work(service, out);
  write_requests(service, out);
  write_memory(service, out);
  write_regions(asked, out);
  write_streams(service, out);
  json_printf(out, "connections:{open:%lld limit:%ld}", atomic_load(&service->watcher.group.open),
              options->max_connections);
  shares_write(service, asked->local, out);
  json_printf(out, "limits:{max_body_bytes:%ld max_response_bytes:%ld max_clouds:%d", options->max_body_bytes,
              options->max_response_bytes, VX_MAX_CLOUDS);
  json_printf(out, "max_timeout_ms:%ld max_sampling_work:%ld} log:{lines_dropped:%lu}}\n", options->max_timeout_ms,
              options->max_sampling_work, log_lines_dropped());
  return true;
}

static bool write_ready(const struct page_asked *asked, struct text *out, struct error *error) {
  if (!service_is_ready(asked->service, error)) return false;
  text_printf(out, "%s\n", phase_name(asked->service));
  return true;
}

static bool write_metrics(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  metrics_write(asked->service, out);
  return true;
}

static bool write_openapi(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)asked, (void)error;
  text_append(out, resource_openapi.text, resource_openapi.size);
  return true;
}

static bool write_describe(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)asked, (void)error;
  describe_write(out);
  return true;
}

static bool write_text(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  text_put(out, asked->page->text);
  return true;
}

#define ACTION(...)                                                                                                    \
  { .media_type = "application/json", .text = "{}\n", .write = write_text, .act = __VA_ARGS__ }

const struct page pages[ENDPOINT_COUNT] = {
    [ENDPOINT_PRESETS] = {.media_type = "application/json", .write = write_presets},
    [ENDPOINT_PRESET] = {.media_type = "application/json", .write = write_preset},
    [ENDPOINT_DETECTORS] = {.media_type = "application/json", .write = write_detectors},
    [ENDPOINT_DETECTOR] = {.media_type = "application/json", .write = write_detector},
    [ENDPOINT_STATUS] = {.media_type = "application/json", .write = write_status},
    [ENDPOINT_HEALTHZ] = {.media_type = "text/plain; charset=utf-8", .text = "ok\n", .write = write_text},
    [ENDPOINT_READYZ] = {.media_type = "text/plain; charset=utf-8", .write = write_ready},
    [ENDPOINT_METRICS] = {.media_type = "text/plain; version=0.0.4; charset=utf-8", .write = write_metrics},
    [ENDPOINT_OPENAPI] = {.media_type = "application/yaml", .write = write_openapi},
    [ENDPOINT_DESCRIBE] = {.media_type = "application/json", .write = write_describe},
    [ENDPOINT_VIEWER] = WEB_PAGE("index.html"),
    [ENDPOINT_DASHBOARD] = WEB_PAGE("status.html"),
    [ENDPOINT_REFERENCE] = WEB_PAGE("docs.html"),
    [ENDPOINT_WEB] = WEB_PAGE(NULL),
    [ENDPOINT_KSERVE_LIVE] = {.media_type = "application/json", .write = kserve_write_live},
    [ENDPOINT_KSERVE_READY] = {.media_type = "application/json", .write = kserve_write_ready},
    [ENDPOINT_KSERVE] = {.media_type = "application/json", .write = kserve_write_server},
    [ENDPOINT_MODELS] = {.media_type = "application/json", .write = kserve_write_models},
    [ENDPOINT_MODELS_STATS] = {.media_type = "application/json", .write = kserve_write_all_stats},
    [ENDPOINT_MODEL] = {.media_type = "application/json", .write = kserve_write_model},
    [ENDPOINT_MODEL_CONFIG] = {.media_type = "application/json", .write = kserve_write_config},
    [ENDPOINT_MODEL_STATS] = {.media_type = "application/json", .write = kserve_write_stats},
    [ENDPOINT_MODEL_READY] = {.media_type = "application/json", .write = kserve_write_model_ready},
    [ENDPOINT_MODEL_INDEX] = {.media_type = "application/json", .write = kserve_write_index},
    [ENDPOINT_MODEL_LOAD] = {.media_type = "application/json", .write = kserve_refuse_load},
    [ENDPOINT_MODEL_UNLOAD] = {.media_type = "application/json", .write = kserve_refuse_load},
    [ENDPOINT_STREAMS] = {.media_type = "application/json", .write = streams_write_status},
    [ENDPOINT_STREAM] = {.media_type = "application/json", .write = streams_write_status},
    [ENDPOINT_STREAM_DELETE] = ACTION(streams_act_delete),
    [ENDPOINT_STREAM_LAST] = {.media_type = "application/vnd.safetensors",
                              .fill = streams_fill_last,
                              .measure = streams_measure_last},
    [ENDPOINT_STREAM_EVENTS] = STREAMS_EVENTS,
    [ENDPOINT_EVENTS] = STREAMS_EVENTS,
    [ENDPOINT_REGIONS] = {.media_type = "application/json", .write = regions_write_status},
    [ENDPOINT_REGION] = {.media_type = "application/json", .write = regions_write_status},
    [ENDPOINT_REGION_REGISTER] = ACTION(regions_act_register),
    [ENDPOINT_REGION_UNREGISTER] = ACTION(regions_act_unregister),
    [ENDPOINT_REGIONS_UNREGISTER] = ACTION(regions_act_unregister),
    [ENDPOINT_CUDA_REGIONS] = {.media_type = "application/json", .of_gpu = true, .write = regions_write_status},
    [ENDPOINT_CUDA_REGION] = {.media_type = "application/json", .of_gpu = true, .write = regions_write_status},
    [ENDPOINT_CUDA_REGION_REGISTER] = ACTION(regions_act_register, .of_gpu = true),
    [ENDPOINT_CUDA_REGION_UNREGISTER] = ACTION(regions_act_unregister, .of_gpu = true),
    [ENDPOINT_CUDA_REGIONS_UNREGISTER] = ACTION(regions_act_unregister, .of_gpu = true),
};

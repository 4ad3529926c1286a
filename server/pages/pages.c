// The pages; see pages.h.
#include "server/pages/pages.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/resources.h"
#include "kernels/backends.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/phase.h"
#include "server/pages/describe.h"
#include "server/pages/kserve.h"
#include "server/pages/lanes.h"
#include "server/pages/metrics.h"
#include "server/pages/ready.h"
#include "server/pages/regions.h"
#include "server/pages/shares.h"
#include "server/pages/streams.h"
#include "server/pages/view.h"
#include "server/pages/web.h"

#ifdef __clang__
#define BUILD_COMPILER "clang " __clang_version__
#else
#define BUILD_COMPILER "gcc " __VERSION__
#endif

static bool write_presets(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error) {
  (void)asked, (void)error;
  presets_write(shelf_look(view->shelf)->presets, out);
  shelf_leave(view->shelf);
  return true;
}

static bool write_preset(const struct view *view, const struct page_asked *asked, struct text *out,
                         struct error *error) {
  const struct preset *preset = presets_find(shelf_look(view->shelf)->presets, asked->name);
  if (preset) preset_write(preset, out);
  shelf_leave(view->shelf);
  if (!preset)
    return error_refuse(error, ERROR_NOT_FOUND, NULL, "there is no preset '%.80s'; see /v1/presets", asked->name);
  text_put(out, "\n");
  return true;
}

static bool write_detectors(const struct view *view, const struct page_asked *asked, struct text *out,
                            struct error *error) {
  (void)asked, (void)error;
  detectors_write(shelf_look(view->shelf)->detectors, out);
  shelf_leave(view->shelf);
  return true;
}

static bool write_detector(const struct view *view, const struct page_asked *asked, struct text *out,
                           struct error *error) {
  bool found = detectors_write_one(shelf_look(view->shelf)->detectors, asked->name, out);
  shelf_leave(view->shelf);
  if (!found)
    return error_refuse(error, ERROR_NOT_FOUND, NULL, "there is no model '%.80s'; see /v1/models", asked->name);
  text_put(out, "\n");
  return true;
}

static const char *phase_name(const struct view *view) {
  static const char *const names[] = {"starting", "ready", "leaving", "draining"};
  int phase = atomic_load(view->phase);
  bool degraded = atomic_load(&view->jobs->devices.working) < view->jobs->devices.count;
  return phase == PHASE_READY && degraded ? "degraded" : names[phase];
}

static void write_device(const struct view *view, const struct device *device, struct text *out) {
  struct devices *devices = &view->jobs->devices;
  const struct vx_description *description = &device->description;
  struct device_health health = device_health(devices, device, clock_ns());
  text_printf(out, "{\"index\":%d,\"name\":", device->index);
  text_json_string(out, description->name, strlen(description->name));
  text_printf(out, ",\"memory_bytes\":%lld,\"compute_capability\":%d,\"integrated\":%s,\"state\":\"%s\"",
              (long long)description->memory_bytes, description->compute_capability,
              description->integrated ? "true" : "false", device_states[health.state]);
  text_printf(out, ",\"running\":%lld,\"answered\":%lld", (long long)atomic_load(&device->running),
              (long long)atomic_load(&device->answered));
  if (device != &devices->cpu) {
    long long seats = detectors_seats(shelf_look(view->shelf)->detectors, device->index);
    shelf_leave(view->shelf);
    text_printf(out, ",\"network_seats\":%lld,\"network_memory_limit_bytes\":%lld", seats,
                seats * (long long)view->options->network_memory_bytes);
  }
  if (health.state == DEVICE_PAUSED)
    text_printf(out, ",\"paused_s\":%.3f,\"next_trial_s\":%.3f", (double)health.paused_ns / 1e9,
                (double)health.retry_ns / 1e9);
  if (health.state != DEVICE_WORKING) {
    text_put(out, ",\"reason\":");
    text_json_string(out, health.reason, strlen(health.reason));
  }
  text_put(out, "}");
}

static void write_backend(const struct view *view, struct text *out) {
  struct devices *devices = &view->jobs->devices;
  text_printf(out, ",\"backend\":{\"name\":\"%s\",\"devices\":[", devices_main(devices)->backend->name);
  for (int i = 0; i < devices->count; i++) {
    text_put(out, i ? "," : "");
    write_device(view, &devices->gpu[i], out);
  }
  if (devices->count == 0) write_device(view, &devices->cpu, out);
  text_put(out, "]}");
}

static void write_build(struct text *out) {
  text_put(out, ",\"build\":{\"compiler\":");
  text_json_string(out, BUILD_COMPILER, strlen(BUILD_COMPILER));
  text_printf(out, ",\"libmicrohttpd\":\"%s\",\"cuda\":%s}", http_library_version(),
              vx_backend_find("cuda") ? "true" : "false");
}

static void write_start(const struct view *view, struct text *out) {
  time_t started = (time_t)*view->started_unix_s;
  struct tm utc;
  gmtime_r(&started, &utc);
  text_printf(out, ",\"started\":\"%04d-%02d-%02dT%02d:%02d:%02dZ\",\"uptime_s\":%.3f", utc.tm_year + 1900,
              utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
              (double)(clock_ns() - *view->started_ns) / 1e9);
}

static void write_requests(const struct view *view, struct text *out) {
  struct outcomes outcomes = counters_outcomes(view->counters);
  text_printf(out, ",\"requests\":{\"active\":%lld,\"open\":%lld",
              (long long)atomic_load(&view->http->service.requests.active),
              (long long)atomic_load(&view->http->service.requests.open));
  text_printf(out, ",\"answered\":%llu,\"refused\":%llu,\"aborted\":%llu}", outcomes.answered, outcomes.refused,
              outcomes.aborted);
}

static void write_lanes(const struct view *view, struct text *out) {
  for (int use = 0; use < VX_LANE_USES; use++) {
    text_printf(out, ",\"%s\":{\"count\":%lld,\"running\":%lld}", lane_names[use].workers,
                (long long)workers_at_work(&view->jobs->workers, use),
                (long long)atomic_load(&view->jobs->workers.running[use]));
    text_printf(out, ",\"%s\":{\"depth\":%lld,\"limit\":%lld}", lane_names[use].queue,
                (long long)queue_depth(&view->jobs->queues[use]), (long long)view->options->queue_depth);
  }
}

static void write_target(const struct placement *placement, enum target target, struct text *out) {
  text_printf(out, "\"running\":%lld,\"answered\":%lld,\"measured_us\":%lld}",
              (long long)atomic_load(&placement->at_work[target]), (long long)atomic_load(&placement->answered[target]),
              (long long)(atomic_load(&placement->measured_ns[target]) / NS_PER_US));
}

static void write_placement(const struct view *view, struct text *out) {
  const struct placement *placement = view->jobs->queues[VX_LANE_LONG].placement;
  if (!placement) return;
  text_put(out, ",\"sampling_placement\":{\"gpu\":{");
  write_target(placement, TARGET_GPU, out);
  text_printf(out, ",\"cpu\":{\"workers\":%lld,\"room\":%s,",
              (long long)workers_beside(&view->jobs->workers, VX_LANE_LONG),
              placement_has_room(placement) ? "true" : "false");
  write_target(placement, TARGET_CPU, out);
  text_printf(out, ",\"used_processors\":%.3f}", (double)atomic_load(&placement->used) / 1000);
}

static void write_help(const struct view *view, struct text *out) {
  struct hands_use use = hands_use(&view->jobs->hands);
  text_printf(out, ",\"help\":{\"workers\":%lld,\"pieces\":%llu,\"helped\":%llu,\"given_up\":%llu}",
              (long long)use.at_work, (unsigned long long)use.pieces, (unsigned long long)use.helped,
              (unsigned long long)use.given_up);
}

static void write_small(const struct view *view, struct text *out) {
  const struct small *small = &view->jobs->small;
  text_printf(out, ",\"small_jobs\":{\"points\":%lld,\"run\":%llu}", (long long)small->most_points,
              (unsigned long long)atomic_load(&small->run));
}

static void write_regions(const struct view *view, const struct page_asked *asked, struct text *out) {
  struct regions_use use = regions_use(&view->jobs->regions);
  const struct object_asker asker = {asked->user, asked->address};
  text_printf(out, ",\"shared_memory\":{\"allowed\":%s,\"regions\":%lld,\"pinned_bytes\":%lld",
              view->options->allow_shared_memory ? "true" : "false", (long long)use.count, (long long)use.pinned_bytes);
  text_printf(out, ",\"pinned_limit_bytes\":%lld,\"pin_failures\":%llu,\"parts_in_place\":%llu,\"parts_copied\":%llu",
              (long long)view->options->shared_memory_pinned_bytes, use.refusals, use.reached, use.copied);
  text_put(out, ",\"keys\":");
  if (asked->local && view->options->allow_shared_memory)
    object_keys_write(view->options, &asker, out);
  else
    text_put(out, "[]");
  text_put(out, "}");
}

static void write_streams(const struct view *view, struct text *out) {
  struct streams_use use = streams_use(&view->jobs->streams);
  text_printf(out, ",\"streams\":{\"count\":%lld,\"sweeps\":%lld,\"memory_bytes\":%lld,\"limit_bytes\":%lld",
              (long long)use.streams, (long long)use.sweeps, (long long)use.bytes,
              (long long)view->options->stream_memory_bytes);
  text_printf(out, ",\"kept\":%llu,\"repeated\":%llu,\"evicted\":%llu,\"expired\":%llu", use.kept, use.repeated,
              use.evicted, use.expired);
  text_printf(out, ",\"subscribers\":%lld}", (long long)events_use(&view->jobs->streams.events).subscribers);
}

static void write_limits(const struct options *options, struct text *out) {
  text_printf(
      out,
      ",\"limits\":{\"max_body_bytes\":%lld,\"max_response_bytes\":%lld,\"max_clouds\":%d,\"max_timeout_ms\":%lld,"
      "\"max_sampling_work\":%lld}",
      (long long)options->max_body_bytes, (long long)options->max_response_bytes, VX_MAX_CLOUDS,
      (long long)options->max_timeout_ms, (long long)options->max_sampling_work);
}

static bool write_status(const struct view *view, const struct page_asked *asked, struct text *out,
                         struct error *error) {
  (void)error;
  const struct options *options = view->options;
  struct buffers_use use = buffers_use(&view->jobs->buffers);
  text_printf(out, "{\"version\":\"%s\"", VOXELD_VERSION);
  write_build(out);
  text_printf(out, ",\"state\":\"%s\"", phase_name(view));
  write_start(view, out);
  text_put(out, ",\"address\":");
  text_json_string(out, view->http->address, strlen(view->http->address));
  write_backend(view, out);
  write_lanes(view, out);
  write_placement(view, out);
  write_help(view, out);
  write_small(view, out);
  write_requests(view, out);
  text_printf(out, ",\"buffers\":{\"budget_bytes\":%zu,\"allocated_bytes\":%zu,\"in_use_bytes\":%zu}", use.budget,
              use.allocated, use.in_use);
  write_regions(view, asked, out);
  write_streams(view, out);
  text_printf(out, ",\"connections\":{\"open\":%lld,\"limit\":%lld}",
              (long long)atomic_load(&view->watcher->places.open), (long long)options->max_connections);
  shares_write(view, asked->local, out);
  write_limits(options, out);
  text_printf(out, ",\"log\":{\"lines_dropped\":%llu}}\n", (unsigned long long)log_lines_dropped());
  return true;
}

static bool write_health(const struct view *view, const struct page_asked *asked, struct text *out,
                         struct error *error) {
  (void)view, (void)asked, (void)error;
  text_put(out, "ok\n");
  return true;
}

static bool write_ready(const struct view *view, const struct page_asked *asked, struct text *out,
                        struct error *error) {
  (void)asked;
  if (!view_is_ready(view, error)) return false;
  text_printf(out, "%s\n", phase_name(view));
  return true;
}

static bool write_metrics(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error) {
  (void)asked, (void)error;
  metrics_write(view, out);
  return true;
}

static bool write_openapi(const struct view *view, const struct page_asked *asked, struct text *out,
                          struct error *error) {
  (void)view, (void)asked, (void)error;
  text_append(out, resource_openapi.text, resource_openapi.size);
  return true;
}

static bool write_describe(const struct view *view, const struct page_asked *asked, struct text *out,
                           struct error *error) {
  (void)view, (void)asked, (void)error;
  describe_write(out);
  return true;
}

const struct page pages[ENDPOINT_COUNT] = {
    [ENDPOINT_PRESETS] = {.media_type = "application/json", .write = write_presets},
    [ENDPOINT_PRESET] = {.media_type = "application/json", .write = write_preset},
    [ENDPOINT_DETECTORS] = {.media_type = "application/json", .write = write_detectors},
    [ENDPOINT_DETECTOR] = {.media_type = "application/json", .write = write_detector},
    [ENDPOINT_STATUS] = {.media_type = "application/json", .write = write_status},
    [ENDPOINT_HEALTHZ] = {.media_type = "text/plain; charset=utf-8", .write = write_health},
    [ENDPOINT_READYZ] = {.media_type = "text/plain; charset=utf-8", .write = write_ready},
    [ENDPOINT_METRICS] = {.media_type = "text/plain; version=0.0.4; charset=utf-8", .write = write_metrics},
    [ENDPOINT_OPENAPI] = {.media_type = "application/yaml", .write = write_openapi},
    [ENDPOINT_DESCRIBE] = {.media_type = "application/json", .write = write_describe},
    [ENDPOINT_VIEWER] = WEB_PAGE("index.html"),
    [ENDPOINT_DASHBOARD] = WEB_PAGE("status.html"),
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
    [ENDPOINT_STREAM_DELETE] = {.media_type = "application/json",
                                .write = streams_write_nothing,
                                .act = streams_act_drop},
    [ENDPOINT_STREAM_LAST] = {.media_type = "application/vnd.safetensors",
                              .fill = streams_fill_last,
                              .measure = streams_measure_last},
    [ENDPOINT_STREAM_EVENTS] = STREAMS_EVENTS,
    [ENDPOINT_EVENTS] = STREAMS_EVENTS,
    [ENDPOINT_REGIONS] = {.media_type = "application/json", .write = regions_write_status},
    [ENDPOINT_REGION] = {.media_type = "application/json", .write = regions_write_status},
    [ENDPOINT_REGION_REGISTER] = {.media_type = "application/json",
                                  .write = regions_write_nothing,
                                  .act = regions_act_register},
    [ENDPOINT_REGION_UNREGISTER] = {.media_type = "application/json",
                                    .write = regions_write_nothing,
                                    .act = regions_act_unregister},
    [ENDPOINT_REGIONS_UNREGISTER] = {.media_type = "application/json",
                                     .write = regions_write_nothing,
                                     .act = regions_act_unregister},
    [ENDPOINT_CUDA_REGIONS] = {.media_type = "application/json", .write = regions_write_none},
    [ENDPOINT_CUDA_REGION] = {.media_type = "application/json", .write = regions_write_none},
    [ENDPOINT_CUDA_REGION_REGISTER] = {.media_type = "application/json",
                                       .write = regions_write_nothing,
                                       .act = regions_act_refuse},
    [ENDPOINT_CUDA_REGION_UNREGISTER] = {.media_type = "application/json", .write = regions_write_nothing},
    [ENDPOINT_CUDA_REGIONS_UNREGISTER] = {.media_type = "application/json", .write = regions_write_nothing},
};

// Whole pages. Neighbouring members of a page get different numbers, so that a missing, swapped or rescaled one shows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/resources.h"
#include "kernels/backends.h"
#include "server/pages/pages.h"
#include "tests/support/moved_clock.h"
#include "tests/support/rooms.h"

static char page[1 << 18];
static struct error error;

static bool ask(enum endpoint endpoint, const char *name, bool local) {
  const struct page_asked asked = {.service = &service,
                                   .page = &pages[endpoint],
                                   .name = name,
                                   .version = "",
                                   .user = "",
                                   .address = "192.0.2.1",
                                   .local = local,
                                   .body = "",
                                   .body_size = 0};
  struct text text = text_over(page, sizeof page);
  error = (struct error){.kind = ERROR_NONE};
  bool good = pages[endpoint].write(&asked, &text, &error);
  assert_true(text_complete(&text));
  return good;
}

static void says(enum endpoint endpoint, const char *name, const char *expected) {
  assert_true(ask(endpoint, name, true));
  assert_string_equal(page, expected);
}

static void has(const char *part) {
  if (!strstr(page, part)) fail_msg("no '%s' in '%s'", part, page);
}

#define NO_SESSIONS ",\"network_sessions\":0,\"network_memory_limit_bytes\":0"

// ---- /v1/status -----------------------------------------------------------------------------------------------------

static void what_was_built(void **state) {
  (void)state;
  char expected[128];
  assert_true(ask(ENDPOINT_STATUS, "", true));
  snprintf(expected, sizeof expected, "{\"version\":\"%s\",\"build\":{\"compiler\":\"", VOXELD_VERSION);
  assert_memory_equal(page, expected, strlen(expected));
  snprintf(expected, sizeof expected, "\",\"libmicrohttpd\":\"%s\",\"cuda\":%s},\"state\":\"ready\"",
           http_library_version(), vx_backend_find("cuda") ? "true" : "false");
  has(expected);
}

static void counts_and_limits(void **state) {
  (void)state;
  struct client *client = clients_acquire(&service.clients, "", "192.0.2.1");
  const struct vx_description cpu = service.jobs.devices.cpu.description;
  service.jobs.devices.cpu.description =
      (struct vx_description){.name = "a \"CPU\"", .memory_bytes = 81, .integrated = true};
  atomic_store(&service.jobs.devices.cpu.running, 82);
  atomic_store(&service.jobs.devices.cpu.answered, 83);
  for (int use = 0; use < VX_LANE_USES; use++) {
    atomic_store(&service.jobs.workers.running[use], 11 + use);
    service.jobs.queues[use].depth = 21 + use;
  }
  atomic_store(&service.requests.active, 31);
  atomic_store(&service.requests.open, 32);
  counters_request(&service.counters, ENDPOINT_FPS, ERROR_NONE, 1);
  for (int i = 0; i < 2; i++) counters_request(&service.counters, ENDPOINT_FPS, ERROR_BAD_BODY, 1);
  for (int i = 0; i < 4; i++) counters_request(&service.counters, ENDPOINT_FPS, ERROR_SUPERSEDED, 1);
  for (int i = 0; i < 5; i++) counters_request(&service.counters, ENDPOINT_FPS, ERROR_TOO_OLD, 1);
  for (int i = 0; i < 3; i++) counters_abort(&service.counters, ABORT_SEND);
  atomic_store(&service.jobs.helpers.at_work, 71);
  atomic_store(&service.jobs.helpers.tasks, 72);
  atomic_store(&service.jobs.helpers.helped, 73);
  atomic_store(&service.jobs.helpers.given_up, 74);
  service.jobs.small.most_points = 75;
  atomic_store(&service.jobs.small.run, 76);
  atomic_store(&service.jobs.buffers.allocated, 42);
  atomic_store(&service.jobs.buffers.in_use, 41);
  atomic_store(&service.jobs.regions.pinner.bytes, 51);
  atomic_store(&service.jobs.regions.pinner.refusals, 52);
  atomic_store(&service.jobs.regions.reached, 53);
  atomic_store(&service.jobs.regions.copied, 54);
  service.jobs.streams.events.count = 57;
  atomic_store(&service.watcher.group.open, 61);
  assert_int_equal(share_acquire(&service.clients, client, SHARE_LONG_JOBS, 3, 0), GRANTED);
  assert_int_equal(share_acquire(&service.clients, client, SHARE_BYTES, 4, 0), GRANTED);
  service.started_ns = clock_ns() - 12345678901;
  assert_true(ask(ENDPOINT_STATUS, "", true));
  const char *from_start = strstr(page, ",\"started\"");
  assert_non_null(from_start);
  assert_string_equal(
      from_start,
      ",\"started\":\"2023-11-14T22:13:20Z\",\"uptime_s\":12.346,\"address\":\"127.0.0.1:\\\"\","
      "\"backend\":{\"name\":\"cpu\",\"devices\":[{\"index\":0,\"name\":\"a \\\"CPU\\\"\",\"memory_bytes\":81,"
      "\"compute_capability\":0,\"integrated\":true,\"state\":\"working\",\"running\":82,\"answered\":83}]},"
      "\"workers\":{\"count\":2,\"running\":11},\"queue\":{\"depth\":21,\"limit\":64},"
      "\"long_workers\":{\"count\":1,\"running\":12},\"long_queue\":{\"depth\":22,\"limit\":64},"
      "\"detection_workers\":{\"count\":0,\"running\":13},\"detection_queue\":{\"depth\":23,\"limit\":64},"
      "\"help\":{\"workers\":71,\"tasks\":72,\"helped\":73,\"given_up\":74},"
      "\"small_jobs\":{\"points\":75,\"run\":76},"
      "\"requests\":{\"active\":31,\"open\":32,\"answered\":1,\"refused\":11,\"superseded\":4,\"too_old\":5,"
      "\"aborted\":3},"
      "\"buffers\":{\"budget_bytes\":16777216,\"allocated_bytes\":42,\"in_use_bytes\":41},"
      "\"shared_memory\":{\"allowed\":true,\"regions\":0,\"cuda_allowed\":false,\"cuda_regions\":0,"
      "\"pinned_bytes\":51,\"pinned_limit_bytes\":55,"
      "\"pin_failures\":52,\"parts_in_place\":53,\"parts_copied\":54,\"keys\":[]},"
      "\"streams\":{\"count\":0,\"sweeps\":0,\"memory_bytes\":0,\"limit_bytes\":56,\"kept\":0,\"repeated\":0,"
      "\"evicted\":0,\"expired\":0,\"subscribers\":57},"
      "\"connections\":{\"open\":61,\"limit\":100},"
      "\"clients\":{\"present\":1,\"limits\":{\"connections\":100,\"queue\":64,\"long_queue\":65,"
      "\"detection_queue\":66,\"buffer_bytes\":16777216},\"greediest\":[{\"number\":0,\"name\":\"192.0.2.1\","
      "\"connections\":0,\"queue\":0,\"long_queue\":3,\"detection_queue\":0,\"buffer_bytes\":4}]},"
      "\"limits\":{\"max_body_bytes\":91,\"max_response_bytes\":92,\"max_clouds\":1024,\"max_timeout_ms\":93,"
      "\"max_sampling_work\":94},\"log\":{\"lines_dropped\":0}}\n");
  assert_true(ask(ENDPOINT_STATUS, "", false));
  has("\"greediest\":[{\"number\":0,\"connections\":0,");
  share_release(&service.clients, client, SHARE_LONG_JOBS, 3);
  share_release(&service.clients, client, SHARE_BYTES, 4);
  clients_release(&service.clients, client);
  for (int use = 0; use < VX_LANE_USES; use++) {
    atomic_store(&service.jobs.workers.running[use], 0);
    service.jobs.queues[use].depth = 0;
  }
  service.jobs.buffers.allocated = service.jobs.buffers.in_use = 0;
  service.jobs.devices.cpu.description = cpu;
}

static void gpus_and_their_states(void **state) {
  (void)state;
  static const struct vx_backend backend = {.name = "gpus"};
  for (int i = 0; i < 3; i++) {
    service.jobs.devices.gpu[i] = (struct device){
        .backend = &backend, .index = 4 + i, .description = {.memory_bytes = 100 + i, .compute_capability = 90}};
    snprintf(service.jobs.devices.gpu[i].description.name, sizeof service.jobs.devices.gpu[i].description.name,
             "GPU %d", i);
  }
  service.jobs.devices.count = 3;
  atomic_store(&service.jobs.devices.working, 3);
  bool trial;
  for (int i = 0; i < 3; i++)
    (void)device_tell(&service.jobs.devices, &service.jobs.devices.gpu[1], false, DEVICE_FAILED, "it \"failed\"",
                      clock_ns());
  assert_true(device_take(&service.jobs.devices, &service.jobs.devices.gpu[0], clock_ns(), &trial));
  assert_true(device_mark_lost(&service.jobs.devices, &service.jobs.devices.gpu[2], "it fell"));
  clock_move_ms(250);
  assert_true(ask(ENDPOINT_STATUS, "", true));
  has(",\"state\":\"degraded\",");
  assert_null(strstr(page, "sampling_placement"));
  has(",\"backend\":{\"name\":\"gpus\",\"devices\":["
      "{\"index\":4,\"name\":\"GPU 0\",\"memory_bytes\":100,\"compute_capability\":90,\"integrated\":false,"
      "\"state\":\"working\",\"running\":0,\"answered\":0" NO_SESSIONS "},"
      "{\"index\":5,\"name\":\"GPU 1\",\"memory_bytes\":101,\"compute_capability\":90,\"integrated\":false,"
      "\"state\":\"paused\",\"running\":0,\"answered\":0" NO_SESSIONS ",\"paused_s\":0.250,\"next_trial_s\":0.750,"
      "\"reason\":\"it \\\"failed\\\"\"},"
      "{\"index\":6,\"name\":\"GPU 2\",\"memory_bytes\":102,\"compute_capability\":90,\"integrated\":false,"
      "\"state\":\"lost\",\"running\":0,\"answered\":0" NO_SESSIONS ",\"reason\":\"it fell\"}]}");
  says(ENDPOINT_READYZ, "", "degraded\n");
  service.jobs.devices.count = 0;
  atomic_store(&service.jobs.devices.working, 0);
}

static void set_placement(struct placement *placement) {
  struct queue *queue = &service.jobs.queues[VX_LANE_LONG];
  lock_acquire(&queue->lock);
  queue->placement = placement;
  lock_release(&queue->lock);
}

static void where_samplings_run(void **state) {
  (void)state;
  struct placement *placement = &service.jobs.placement;
  placement_init(placement, &service.jobs.devices.working, service.jobs.workers.running, 16);
  set_placement(placement);
  atomic_store(&placement->answered[TARGET_GPU], 91);
  atomic_store(&placement->answered[TARGET_CPU], 92);
  atomic_store(&placement->at_work[TARGET_GPU], 2);
  atomic_store(&placement->at_work[TARGET_CPU], 1);
  atomic_store(&placement->measured_ns[TARGET_GPU], 1252999);
  atomic_store(&placement->measured_ns[TARGET_CPU], 817000);
  placement_note_used(placement, 1234);
  assert_true(ask(ENDPOINT_STATUS, "", true));
  has(",\"sampling_placement\":{\"gpu\":{\"running\":2,\"answered\":91,\"measured_us\":1252},"
      "\"cpu\":{\"workers\":0,\"room\":true,\"running\":1,\"answered\":92,\"measured_us\":817},"
      "\"used_processors\":1.234},\"help\":");
  placement_note_used(placement, 15000);
  assert_true(ask(ENDPOINT_STATUS, "", true));
  has("\"room\":false,");
  set_placement(NULL);
}

// ---- readiness ------------------------------------------------------------------------------------------------------

static void each_phase_has_its_answers(void **state) {
  (void)state;
  static const struct {
    enum phase phase;
    const char *name;
    enum error_kind refusal;
    bool indexed;
  } rows[] = {{PHASE_STARTING, "starting", ERROR_NOT_READY, false},
              {PHASE_READY, "ready", ERROR_NONE, true},
              {PHASE_LEAVING, "leaving", ERROR_DRAINING, false},
              {PHASE_DRAINING, "draining", ERROR_DRAINING, false}};
  static const enum endpoint endpoints[] = {ENDPOINT_READYZ, ENDPOINT_KSERVE_READY, ENDPOINT_MODEL_READY};
  static const char *const answers[] = {"ready\n", "{\"ready\":true}\n", "{\"name\":\"fps\",\"ready\":true}\n"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char expected[64];
    atomic_store(&service.phase, rows[i].phase);
    assert_true(ask(ENDPOINT_STATUS, "", true));
    snprintf(expected, sizeof expected, ",\"state\":\"%s\",", rows[i].name);
    has(expected);
    for (size_t e = 0; e < sizeof endpoints / sizeof *endpoints; e++) {
      assert_int_equal(ask(endpoints[e], "fps", true), rows[i].refusal == ERROR_NONE);
      assert_int_equal(error.kind, rows[i].refusal);
      if (rows[i].refusal == ERROR_NONE) assert_string_equal(page, answers[e]);
    }
    assert_true(ask(ENDPOINT_MODEL_INDEX, "", true));
    has(rows[i].indexed ? "{\"name\":\"fps\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"},{\"name\":"
                        : "{\"name\":\"fps\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":\"the server is ");
    says(ENDPOINT_HEALTHZ, "", "ok\n");
    says(ENDPOINT_KSERVE_LIVE, "", "{\"live\":true}\n");
  }
  atomic_store(&service.phase, PHASE_READY);
}

static void an_index_of_what_is_ready(void **state) {
  (void)state;
  static const char body[] = "{\"ready\":true}";
  struct page_asked asked = {.service = &service,
                             .name = "",
                             .version = "",
                             .user = "",
                             .address = "",
                             .body = body,
                             .body_size = strlen(body)};
  struct text text = text_over(page, sizeof page);
  assert_true(pages[ENDPOINT_MODEL_INDEX].write(&asked, &text, &error));
  has("[{\"name\":\"voxelize\",");
  atomic_store(&service.phase, PHASE_DRAINING);
  text = text_over(page, sizeof page);
  assert_true(pages[ENDPOINT_MODEL_INDEX].write(&asked, &text, &error));
  assert_string_equal(page, "[]\n");
  atomic_store(&service.phase, PHASE_READY);
  asked.body_size = 1;
  text = text_over(page, sizeof page);
  assert_false(pages[ENDPOINT_MODEL_INDEX].write(&asked, &text, &error));
  assert_int_equal(error.kind, ERROR_BAD_BODY);
}

// ---- statistics -----------------------------------------------------------------------------------------------------

static void statistics_of_a_model(void **state) {
  (void)state;
  static const char part[] = "{\"model_stats\":[{\"name\":\"%s\",\"version\":\"1\",\"last_inference\":%s";
  static struct model_counts counts = {.name = "fps",
                                       .succeeded = 2,
                                       .succeeded_ns = 11,
                                       .failed = 3,
                                       .failed_ns = 12,
                                       .part_ns = {13, 14, 15, 16},
                                       .last_unix_ms = 17};
  char expected[512];
  atomic_store(&service.counters.models.first, &counts);
  says(
      ENDPOINT_MODEL_STATS, "fps",
      "{\"model_stats\":[{\"name\":\"fps\",\"version\":\"1\",\"last_inference\":17,\"inference_count\":2,"
      "\"execution_count\":2,\"inference_stats\":{\"success\":{\"count\":2,\"ns\":11},\"fail\":{\"count\":3,\"ns\":12},"
      "\"queue\":{\"count\":2,\"ns\":13},\"compute_input\":{\"count\":2,\"ns\":14},"
      "\"compute_infer\":{\"count\":2,\"ns\":15},\"compute_output\":{\"count\":2,\"ns\":16},"
      "\"cache_hit\":{\"count\":0,\"ns\":0},\"cache_miss\":{\"count\":0,\"ns\":0}},\"batch_stats\":[]}]}\n");
  assert_true(ask(ENDPOINT_MODEL_STATS, "nms", true));
  snprintf(expected, sizeof expected, part, "nms", "0,");
  has(expected);
  assert_true(ask(ENDPOINT_MODELS_STATS, "", true));
  snprintf(expected, sizeof expected, part, "voxelize", "0,");
  has(expected);
  has("\"batch_stats\":[]},{\"name\":\"fps\",\"version\":\"1\",\"last_inference\":17,");
  has("\"batch_stats\":[]}]}\n");
  assert_false(ask(ENDPOINT_MODEL_STATS, "nowhere", true));
  assert_int_equal(error.kind, ERROR_NOT_FOUND);
  atomic_store(&service.counters.models.first, NULL);
}

// ---- files ----------------------------------------------------------------------------------------------------------

static void files_for_browsers(void **state) {
  (void)state;
  static const char *const media[][2] = {
      {"a.html", "text/html; charset=utf-8"},       {"a.css", "text/css; charset=utf-8"},
      {"a.b.js", "text/javascript; charset=utf-8"}, {"a.svg", "image/svg+xml"},
      {"a.png", "text/plain; charset=utf-8"},       {"a", "text/plain; charset=utf-8"}};
  for (size_t i = 0; i < sizeof media / sizeof *media; i++)
    assert_string_equal(web_media_type(media[i][0]), media[i][1]);
  assert_true(resources_web_count > 4);
  for (size_t i = 0; i < resources_web_count; i++) {
    says(ENDPOINT_WEB, resources_web[i].name, resources_web[i].text);
    assert_ptr_equal(web_tag(resources_web[i].name), resources_web[i].tag);
  }
  assert_null(web_tag("none.js"));
  assert_false(ask(ENDPOINT_WEB, "none.js", true));
  assert_int_equal(error.kind, ERROR_NOT_FOUND);
}

int main(void) {
  service.options.max_body_bytes = 91, service.options.max_response_bytes = 92, service.options.max_timeout_ms = 93;
  service.options.max_sampling_work = 94, service.options.allow_shared_memory = true,
  service.options.shared_memory_pinned_bytes = 55;
  service.options.stream_memory_bytes = 56;
  snprintf(service.address, sizeof service.address, "127.0.0.1:\"");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_built),
      cmocka_unit_test(counts_and_limits),
      cmocka_unit_test(gpus_and_their_states),
      cmocka_unit_test(where_samplings_run),
      cmocka_unit_test(each_phase_has_its_answers),
      cmocka_unit_test(an_index_of_what_is_ready),
      cmocka_unit_test(statistics_of_a_model),
      cmocka_unit_test(files_for_browsers),
  };
  return cmocka_run_group_tests(tests, open_rooms, close_rooms);
}

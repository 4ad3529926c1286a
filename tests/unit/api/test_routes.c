// The endpoint table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "api/ops/ops.h"
#include "api/routes.h"
#include "kernels/ops.h"

static void paths_match_exactly(void **state) {
  (void)state;
  static const struct {
    const char *path;
    enum endpoint endpoint;
    const char *name;
  } cases[] = {{"/v1/voxelize", ENDPOINT_VOXELIZE, ""},
               {"/v1/fps", ENDPOINT_FPS, ""},
               {"/v1/fps/", ENDPOINT_UNKNOWN, NULL},
               {"/v1/FPS", ENDPOINT_UNKNOWN, NULL},
               {"/v1/voxelize/", ENDPOINT_UNKNOWN, NULL},
               {"/v1/presets", ENDPOINT_PRESETS, ""},
               {"/v1/presets/", ENDPOINT_UNKNOWN, NULL},
               {"/v1/presets/a", ENDPOINT_PRESET, "a"},
               {"/v1/presets/a/b", ENDPOINT_UNKNOWN, NULL},
               {"/V1/voxelize", ENDPOINT_UNKNOWN, NULL},
               {"/", ENDPOINT_VIEWER, ""},
               {"//", ENDPOINT_UNKNOWN, NULL},
               {"/status", ENDPOINT_DASHBOARD, ""},
               {"/docs", ENDPOINT_REFERENCE, ""},
               {"/ui/", ENDPOINT_UNKNOWN, NULL},
               {"/ui/style.css", ENDPOINT_WEB, "style.css"},
               {"/ui/../api", ENDPOINT_UNKNOWN, NULL},
               {"", ENDPOINT_UNKNOWN, NULL},
               {"/healthz", ENDPOINT_HEALTHZ, ""},
               {"/v2/health/ready", ENDPOINT_KSERVE_READY, ""},
               {"/v2", ENDPOINT_KSERVE, ""},
               {"/v2/", ENDPOINT_UNKNOWN, NULL},
               {"/v2/models", ENDPOINT_MODELS, ""},
               {"/v2/models/", ENDPOINT_UNKNOWN, NULL},
               {"/v2/models/stats", ENDPOINT_MODELS_STATS, ""},
               {"/v2/models/a", ENDPOINT_MODEL, "a"},
               {"/v2/models/a/versions/1", ENDPOINT_MODEL, "a"},
               {"/v2/models/a/versions/2.1-b", ENDPOINT_MODEL, "a"},
               {"/v2/models/a/versions/", ENDPOINT_UNKNOWN, NULL},
               {"/v2/models/a/config", ENDPOINT_MODEL_CONFIG, "a"},
               {"/v2/models/a/versions/1/config", ENDPOINT_MODEL_CONFIG, "a"},
               {"/v2/models/a/versions/1/stats", ENDPOINT_MODEL_STATS, "a"},
               {"/v2/repository/models/a/load", ENDPOINT_MODEL_LOAD, "a"},
               {"/v2/repository/models/a/unload", ENDPOINT_MODEL_UNLOAD, "a"},
               {"/v2/models/a/versions/1/infer", ENDPOINT_INFER, "a"},
               {"/v2/models/a/ready", ENDPOINT_MODEL_READY, "a"},
               {"/v2/models/a/versions/1/ready", ENDPOINT_MODEL_READY, "a"},
               {"/v2/models/a/versions/11/ready", ENDPOINT_MODEL_READY, "a"},
               {"/v2/models/a/versions/ready", ENDPOINT_MODEL, "a"},
               {"/v2/models/a/versions/1/versions/1", ENDPOINT_UNKNOWN, NULL},
               {"/v2/repository/models/a/versions/1/load", ENDPOINT_UNKNOWN, NULL},
               {"/v2/models//ready", ENDPOINT_UNKNOWN, NULL},
               {"/v2/models/a/b/ready", ENDPOINT_UNKNOWN, NULL},
               {"/v2/models/a/ready/", ENDPOINT_UNKNOWN, NULL},
               {"/v1/presets/a/versions/1", ENDPOINT_UNKNOWN, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct route_names names;
    assert_int_equal(route_find(cases[i].path, routes[cases[i].endpoint].method, &names), cases[i].endpoint);
    if (cases[i].name) assert_string_equal(names.name, cases[i].name);
  }
}

static void a_path_may_name_a_version(void **state) {
  (void)state;
  static const char *const cases[][2] = {{"/v2/models/a", ""},
                                         {"/v2/models/a/ready", ""},
                                         {"/v2/models/a/versions/1", "1"},
                                         {"/v2/models/a/versions/11/infer", "11"},
                                         {"/v2/models/a/versions/2.1-b/stats", "2.1-b"},
                                         {"/v2/models/a/versions/ready", "ready"}};
  struct route_names names;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_not_equal(route_find(cases[i][0], "GET", &names), ENDPOINT_UNKNOWN);
    assert_string_equal(names.name, "a");
    assert_string_equal(names.version, cases[i][1]);
  }
}

static void names_are_bounded(void **state) {
  (void)state;
  char path[64 + ROUTE_NAME_SIZE] = "/v1/presets/";
  struct route_names names;
  size_t start = strlen(path);
  memset(path + start, 'x', ROUTE_NAME_SIZE - 1);
  assert_int_equal(route_find(path, "GET", &names), ENDPOINT_PRESET);
  assert_int_equal(strlen(names.name), ROUTE_NAME_SIZE - 1);
  path[start + ROUTE_NAME_SIZE - 1] = 'x';
  assert_int_equal(route_find(path, "GET", &names), ENDPOINT_UNKNOWN);
  int length = snprintf(path, sizeof path, "/v2/models/a/versions/");
  memset(path + length, 'x', sizeof path - (size_t)length);
  path[length + ROUTE_VERSION_SIZE - 1] = '\0';
  assert_int_equal(route_find(path, "GET", &names), ENDPOINT_MODEL);
  assert_int_equal(strlen(names.version), ROUTE_VERSION_SIZE - 1);
  path[length + ROUTE_VERSION_SIZE - 1] = 'x';
  path[length + ROUTE_VERSION_SIZE] = '\0';
  assert_int_equal(route_find(path, "GET", &names), ENDPOINT_UNKNOWN);
}

static void the_path_decides_the_protocol(void **state) {
  (void)state;
  assert_int_equal(route_style("/v2"), PROBLEM_STYLE_KSERVE);
  assert_int_equal(route_style("/v2/nowhere"), PROBLEM_STYLE_KSERVE);
  assert_int_equal(route_style("/v22"), PROBLEM_STYLE_HTTP);
  assert_int_equal(route_style("/v1/fps"), PROBLEM_STYLE_HTTP);
  struct error error;
  assert_false(route_missing("/v2/nowhere", &error));
  assert_non_null(strstr(error.text, "/v2/nowhere"));
  assert_non_null(strstr(error.text, "/openapi.yaml"));
}

static void probes_and_pages_for_browsers_need_no_credentials(void **state) {
  (void)state;
  int probes = 0, others = 0;
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) {
    bool probe = route_is_probe((enum endpoint)endpoint), open = route_is_public((enum endpoint)endpoint);
    assert_true(open || !probe);
    probes += probe;
    others += open && !probe;
  }
  assert_int_equal(probes, 4);
  assert_int_equal(others, 4);
  assert_true(route_is_public(ENDPOINT_VIEWER) && route_is_public(ENDPOINT_DASHBOARD) &&
              route_is_public(ENDPOINT_REFERENCE) && route_is_public(ENDPOINT_WEB));
  assert_true(route_is_probe(ENDPOINT_HEALTHZ) && route_is_probe(ENDPOINT_READYZ));
  assert_true(route_is_probe(ENDPOINT_KSERVE_LIVE) && route_is_probe(ENDPOINT_KSERVE_READY));
}

// Each operation has one endpoint with the operation's name. The operations that `head` chooses among share the
// endpoint of the first. Apart from these endpoints, only the inference of a model computes.
static void each_operation_has_its_endpoint(void **state) {
  (void)state;
  int endpoints[VX_OPS] = {0};
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) {
    const struct route *route = &routes[endpoint];
    assert_int_equal(route_computes((enum endpoint)endpoint), route->op <= OP_OF_MODEL);
    if (route->op >= OP_OF_MODEL) continue;
    assert_string_equal(route->method, "POST");
    assert_int_equal(strncmp(route->path, "/v1/", 4), 0);
    assert_string_equal(route->path + 4, vx_operations[route->op].name);
    endpoints[route->op]++;
  }
  for (enum vx_op op = 0; op < VX_OPS; op++) {
    const char *head = operations[op]->head;
    assert_int_equal(endpoints[op], head && strcmp(head, operations[VX_DECODE]->head) != 0 ? 0 : 1);
  }
}

// The error shows the first 200 bytes of the path, so that the list of paths fits.
static void a_missing_path_is_refused_with_a_list_of_paths(void **state) {
  (void)state;
  char path[1000];
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  struct error error;
  assert_false(route_missing(path, &error));
  assert_int_equal(error.kind, ERROR_NOT_FOUND);
  assert_null(strstr(error.text, path));
  path[200] = '\0';
  assert_non_null(strstr(error.text, path));
  for (int endpoint = 0; endpoint < ENDPOINT_UNKNOWN; endpoint++)
    if (route_style(routes[endpoint].path) == PROBLEM_STYLE_HTTP)
      assert_non_null(strstr(error.text, routes[endpoint].path));
}

static void methods_are_checked(void **state) {
  (void)state;
  struct error error;
  assert_true(route_takes(ENDPOINT_VOXELIZE, "POST", &error));
  assert_true(route_takes(ENDPOINT_STATUS, "GET", &error));
  assert_true(route_takes(ENDPOINT_STATUS, "HEAD", &error));
  static const char *const wrong[] = {"GET", "HEAD", "post", "PUT", "OPTIONS", ""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_false(route_takes(ENDPOINT_VOXELIZE, wrong[i], &error));
    assert_int_equal(error.kind, ERROR_METHOD_NOT_ALLOWED);
    assert_false(route_takes(ENDPOINT_FPS, wrong[i], &error));
  }
  assert_string_equal(route_allow(ENDPOINT_VOXELIZE), "POST");
  assert_string_equal(route_allow(ENDPOINT_STATUS), "GET, HEAD");
}

// A path with two methods has two endpoints, counted as one.
static void a_path_may_have_two_methods(void **state) {
  (void)state;
  struct route_names names;
  struct error error;
  const char *path = "/v1/streams/roof";
  assert_int_equal(route_find(path, "GET", &names), ENDPOINT_STREAM);
  assert_string_equal(names.name, "roof");
  assert_int_equal(route_find(path, "HEAD", &names), ENDPOINT_STREAM);
  assert_int_equal(route_find(path, "DELETE", &names), ENDPOINT_STREAM_DELETE);
  assert_int_equal(route_find(path, "POST", &names), ENDPOINT_STREAM);
  assert_int_equal(route_find("/nowhere", "GET", &names), ENDPOINT_UNKNOWN);
  assert_false(route_takes(route_find(path, "POST", &names), "POST", &error));
  assert_string_equal(route_allow(ENDPOINT_STREAM), "GET, HEAD, DELETE");
  assert_string_equal(route_allow(ENDPOINT_STREAM_DELETE), "GET, HEAD, DELETE");
  assert_int_equal(route_counted(ENDPOINT_STREAM_DELETE), ENDPOINT_STREAM);
  assert_int_equal(route_counted(ENDPOINT_UNKNOWN), ENDPOINT_UNKNOWN);
  assert_int_equal(route_find("/v1/streams/roof/last", "GET", &names), ENDPOINT_STREAM_LAST);
}

static void data_kept_for_clients_has_its_own_paths(void **state) {
  (void)state;
  static const enum endpoint kept[] = {ENDPOINT_STREAMS,
                                       ENDPOINT_STREAM,
                                       ENDPOINT_STREAM_DELETE,
                                       ENDPOINT_STREAM_LAST,
                                       ENDPOINT_STREAM_EVENTS,
                                       ENDPOINT_EVENTS,
                                       ENDPOINT_REGIONS,
                                       ENDPOINT_REGION,
                                       ENDPOINT_REGION_REGISTER,
                                       ENDPOINT_REGION_UNREGISTER,
                                       ENDPOINT_REGIONS_UNREGISTER,
                                       ENDPOINT_CUDA_REGIONS,
                                       ENDPOINT_CUDA_REGION,
                                       ENDPOINT_CUDA_REGION_REGISTER,
                                       ENDPOINT_CUDA_REGION_UNREGISTER,
                                       ENDPOINT_CUDA_REGIONS_UNREGISTER};
  for (int i = 0; i <= ENDPOINT_UNKNOWN; i++) {
    bool listed = false;
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) listed = listed || kept[k] == (enum endpoint)i;
    assert_int_equal(route_has_state((enum endpoint)i), listed);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(paths_match_exactly),
                                     cmocka_unit_test(a_path_may_name_a_version),
                                     cmocka_unit_test(names_are_bounded),
                                     cmocka_unit_test(the_path_decides_the_protocol),
                                     cmocka_unit_test(probes_and_pages_for_browsers_need_no_credentials),
                                     cmocka_unit_test(each_operation_has_its_endpoint),
                                     cmocka_unit_test(a_missing_path_is_refused_with_a_list_of_paths),
                                     cmocka_unit_test(methods_are_checked),
                                     cmocka_unit_test(a_path_may_have_two_methods),
                                     cmocka_unit_test(data_kept_for_clients_has_its_own_paths)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The endpoint table: exact paths, the one wildcard, methods.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "api/routes.h"

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
               {"/", ENDPOINT_UNKNOWN, NULL},
               {"", ENDPOINT_UNKNOWN, NULL},
               {"/healthz", ENDPOINT_HEALTHZ, ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *name = NULL;
    assert_int_equal(route_find(cases[i].path, &name), cases[i].endpoint);
    if (cases[i].name) assert_string_equal(name, cases[i].name);
  }
}

static void two_endpoints_run_jobs(void **state) {
  (void)state;
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++) {
    enum job_kind kind = endpoint == ENDPOINT_VOXELIZE ? JOB_VOXELIZE : endpoint == ENDPOINT_FPS ? JOB_FPS : JOB_KINDS;
    assert_int_equal(route_job((enum endpoint)endpoint), kind);
  }
}

static void methods_are_checked(void **state) {
  (void)state;
  struct problem problem;
  assert_true(route_takes(ENDPOINT_VOXELIZE, "POST", &problem));
  assert_true(route_takes(ENDPOINT_STATUS, "GET", &problem));
  assert_true(route_takes(ENDPOINT_STATUS, "HEAD", &problem));
  static const char *const wrong[] = {"GET", "HEAD", "post", "PUT", "OPTIONS", ""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_false(route_takes(ENDPOINT_VOXELIZE, wrong[i], &problem));
    assert_int_equal(problem.kind, PROBLEM_METHOD_NOT_ALLOWED);
    assert_false(route_takes(ENDPOINT_FPS, wrong[i], &problem));
  }
  assert_string_equal(route_allow(ENDPOINT_VOXELIZE), "POST");
  assert_string_equal(route_allow(ENDPOINT_STATUS), "GET, HEAD");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(paths_match_exactly), cmocka_unit_test(two_endpoints_run_jobs),
                                     cmocka_unit_test(methods_are_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

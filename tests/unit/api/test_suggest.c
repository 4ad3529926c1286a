// The names that wrong names suggest.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/base/suggest.h"

static const char *suggested(const char *asked) {
  static const char *const names[] = {"max_voxels", "max_points_per_voxel", "preset", "fps", "start", "kitti_second"};
  static char text[96];
  struct suggestion near = suggest(asked, strlen(asked));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) suggest_try(&near, names[i]);
  return suggest_text(&near, text, sizeof text);
}

static void slips_suggest_the_name(void **state) {
  (void)state;
  assert_string_equal(suggested("max_voxel"), " (did you mean 'max_voxels'?)");
  assert_string_equal(suggested("maxvoxels"), " (did you mean 'max_voxels'?)");
  assert_string_equal(suggested("MAX_VOXELS"), " (did you mean 'max_voxels'?)");
  assert_string_equal(suggested("max_points_per_pillar"), " (did you mean 'max_points_per_voxel'?)");
  assert_string_equal(suggested("perset"), " (did you mean 'preset'?)");
  assert_string_equal(suggested("fsp"), " (did you mean 'fps'?)");
  assert_string_equal(suggested("kiti_secnod"), " (did you mean 'kitti_second'?)");
}

static void other_words_suggest_nothing(void **state) {
  (void)state;
  static const char longer[] = "max_voxels_and_so_on_and_so_on_and_so_on_and_so_on_and_so_on_and_so_on_and_so_on";
  assert_string_equal(suggested("threshold"), "");
  assert_string_equal(suggested("ab"), "");
  assert_string_equal(suggested(""), "");
  assert_string_equal(suggested(longer), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slips_suggest_the_name),
      cmocka_unit_test(other_words_suggest_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

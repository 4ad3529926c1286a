// Limits of control groups, from files like the kernel's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/base.h"

static char root[32];

static int make_root(void **state) {
  (void)state;
  strcpy(root, "/tmp/voxeld-limits-XXXXXX");
  return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}

static int remove_root(void **state) {
  (void)state;
  return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// Writes a file and the directories of its path.
static void put(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s%s", root, name);
  for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
    *slash = '\0';
    (void)mkdir(path, 0700);
    *slash = '/';
  }
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

// The processors that this test may use; a quota can only lower the number.
static int64_t processors_here(void) { return limits_processors("/nonexistent"); }

static void without_files_there_is_no_limit(void **state) {
  (void)state;
  assert_true(processors_here() >= 1);
  assert_int_equal(limits_processors(root), processors_here());
  assert_int_equal(limits_memory_bytes(root), INT64_MAX);
}

static void max_is_no_limit(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/memory.max", "max\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  assert_int_equal(limits_processors(root), processors_here());
  assert_int_equal(limits_memory_bytes(root), INT64_MAX);
}

static void version_2_of_a_container(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/\n");
  put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  put("/sys/fs/cgroup/memory.max", "536870912\n");
  assert_int_equal(limits_processors(root), 1);
  assert_int_equal(limits_memory_bytes(root), 536870912);
}

// /proc shows the group's path on the host, but the mount begins at the group.
static void version_1_of_a_container(void **state) {
  (void)state;
  put("/proc/self/cgroup", "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  assert_int_equal(limits_processors(root), 1);
  assert_int_equal(limits_memory_bytes(root), 1073741824);
}

static void a_limit_of_a_group_above_holds_too(void **state) {
  (void)state;
  put("/proc/self/cgroup", "0::/system.slice/voxeld.service\n");
  put("/sys/fs/cgroup/system.slice/memory.max", "2000\n");
  put("/sys/fs/cgroup/system.slice/voxeld.service/memory.max", "3000\n");
  assert_int_equal(limits_memory_bytes(root), 2000);
  put("/sys/fs/cgroup/system.slice/voxeld.service/memory.max", "1000\n");
  assert_int_equal(limits_memory_bytes(root), 1000);
  put("/sys/fs/cgroup/user.slice/memory.max", "1\n");  // a group of other processes
  assert_int_equal(limits_memory_bytes(root), 1000);
}

static void a_part_of_a_processor_counts_as_one(void **state) {
  (void)state;
  if (processors_here() < 2) skip();
  put("/sys/fs/cgroup/cpu.max", "110000 100000\n");
  assert_int_equal(limits_processors(root), 2);
  put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  assert_int_equal(limits_processors(root), 1);
  put("/sys/fs/cgroup/cpu.max", "100000000 100000\n");
  assert_int_equal(limits_processors(root), processors_here());
}

static void rubbish_is_no_limit(void **state) {
  (void)state;
  put("/proc/self/cgroup", "\n:\n0\n0:\n0:x\n::::\n");
  put("/sys/fs/cgroup/cpu.max", "");
  put("/sys/fs/cgroup/memory.max", "\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "0\n");
  assert_int_equal(limits_processors(root), processors_here());
  assert_int_equal(limits_memory_bytes(root), INT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_files_there_is_no_limit, make_root, remove_root),
      cmocka_unit_test_setup_teardown(max_is_no_limit, make_root, remove_root),
      cmocka_unit_test_setup_teardown(version_2_of_a_container, make_root, remove_root),
      cmocka_unit_test_setup_teardown(version_1_of_a_container, make_root, remove_root),
      cmocka_unit_test_setup_teardown(a_limit_of_a_group_above_holds_too, make_root, remove_root),
      cmocka_unit_test_setup_teardown(a_part_of_a_processor_counts_as_one, make_root, remove_root),
      cmocka_unit_test_setup_teardown(rubbish_is_no_limit, make_root, remove_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

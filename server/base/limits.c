// See base.h.
#include "server/base/base.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Reads the number at the beginning of a file, and the next number (0: none) into `second`, which may be NULL. False if
// the file or the number is missing; a file may say "max" instead.
static bool read_numbers(const char *directory, const char *name, double *first, double *second) {
  char path[2 * PATH_MAX + 32], line[128] = "", *end = line;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  if (!fgets(line, sizeof line, file)) line[0] = '\0';
  (void)fclose(file);
  *first = strtod(line, &end);
  if (second) *second = strtod(end, NULL);
  return end > line;
}

// ---- the limit of one group; INFINITY if it has none ----------------------------------------------------------------

// The files of a limit, one row for each version of cgroup: a machine may use both versions, for different controllers.
// `controller`: the name in /proc/self/cgroup, "" for version 2. A CPU limit is quota / period; the period is the
// second number of the file `limit` (has_period), or in the file `period`.
struct source {
  const char *controller, *mount, *limit, *period;
  bool has_period;
};
static const struct source processor_sources[] = {
    {"", "/sys/fs/cgroup", "cpu.max", NULL, true},
    {"cpu", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us", false}};
static const struct source memory_sources[] = {
    {"", "/sys/fs/cgroup", "memory.max", NULL, false},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", NULL, false}};

static double limit_of(const struct source *source, const char *directory) {
  double limit, period = 1;
  bool found = read_numbers(directory, source->limit, &limit, source->has_period ? &period : NULL) &&
               (!source->period || read_numbers(directory, source->period, &period, NULL));
  return found && limit > 0 && period > 0 ? limit / period : INFINITY;
}

// ---- this process's group and those above ---------------------------------------------------------------------------

// The path of this process's group for `controller`, from a line NUMBER:CONTROLLERS:PATH; "": there is none.
static void find_group(const char *root, const char *controller, char group[PATH_MAX]) {
  char line[PATH_MAX];
  group[0] = '\0';
  snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
  FILE *file = fopen(line, "re");
  while (file && fgets(line, sizeof line, file)) {
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (list_has(controllers + 1, controller)) snprintf(group, PATH_MAX, "%s", path);
  }
  if (file) (void)fclose(file);
}

// The least limit of the group and the groups above it. A directory may be missing: in a container, the group's files
// may be mounted at the top, although /proc/self/cgroup has the path on the host.
static double least_limit(const char *root, const struct source *source) {
  char group[PATH_MAX], directory[2 * PATH_MAX];
  find_group(root, source->controller, group);
  int top = snprintf(directory, sizeof directory, "%s%s", root, source->mount);
  if (top < 0 || top + strlen(group) >= sizeof directory) return INFINITY;
  strcpy(directory + top, group);
  double least = limit_of(source, directory);
  for (char *end; (end = strrchr(directory + top, '/'));) {
    *end = '\0';
    least = fmin(least, limit_of(source, directory));
  }
  return least;
}

int64_t limits_processors(const char *root) {
  cpu_set_t set;  // for up to 1024 processors; with more the call fails
  double least = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (double)sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 0; i < 2; i++) least = fmin(least, ceil(least_limit(root, &processor_sources[i])));
  return least < 1 ? 1 : (int64_t)least;
}

int64_t limits_memory_bytes(const char *root) {
  double least = INFINITY;
  for (int i = 0; i < 2; i++) least = fmin(least, least_limit(root, &memory_sources[i]));
  return least < 0x1p62 ? (int64_t)least : INT64_MAX;  // without a limit, version 1 writes a larger number
}

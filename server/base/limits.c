// Affinity and the files of control groups; see base.h.
#include "server/base/base.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Reads the number at the beginning of a file into `first`, and the next number (0 if there is none) into `second`,
// which may be NULL. False if the file does not begin with a number, for example if it begins with "max".
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

static double processors(double quota, double period) { return quota > 0 && period > 0 ? quota / period : INFINITY; }

static double processors_v2(const char *directory) {
  double quota, period;
  return read_numbers(directory, "cpu.max", &quota, &period) ? processors(quota, period) : INFINITY;
}

static double processors_v1(const char *directory) {
  double quota, period;
  return read_numbers(directory, "cpu.cfs_quota_us", &quota, NULL) &&
                 read_numbers(directory, "cpu.cfs_period_us", &period, NULL)
             ? processors(quota, period)
             : INFINITY;
}

static double memory_v2(const char *directory) {
  double bytes;
  return read_numbers(directory, "memory.max", &bytes, NULL) ? bytes : INFINITY;
}

static double memory_v1(const char *directory) {
  double bytes;
  return read_numbers(directory, "memory.limit_in_bytes", &bytes, NULL) ? bytes : INFINITY;
}

// Where each version of cgroup keeps a limit. A machine may use either version for each controller. In
// /proc/self/cgroup, the line of version 2 has an empty list of controllers.
struct source {
  const char *controller, *mount;
  double (*read)(const char *directory);
};
static const struct source processor_sources[] = {{"", "/sys/fs/cgroup", processors_v2},
                                                  {"cpu", "/sys/fs/cgroup/cpu", processors_v1}};
static const struct source memory_sources[] = {{"", "/sys/fs/cgroup", memory_v2},
                                               {"memory", "/sys/fs/cgroup/memory", memory_v1}};

// ---- this process's group and those above ---------------------------------------------------------------------------

static bool is_listed(const char *controllers, const char *controller) {
  size_t length = strlen(controller);
  for (const char *next = controllers;; next++) {
    size_t own = strcspn(next, ",");
    if (own == length && strncmp(next, controller, length) == 0) return true;
    next += own;
    if (!*next) return false;
  }
}

// The path of this process's group for `controller`, from a line NUMBER:CONTROLLERS:PATH; "" if there is no such line.
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
    if (is_listed(controllers + 1, controller)) snprintf(group, PATH_MAX, "%s", path);
  }
  if (file) (void)fclose(file);
}

// The least limit of the group and the groups above it. Skips directories that do not exist: in a container, the
// group's files may be mounted at the top, although /proc/self/cgroup has the path on the host.
static double least_limit(const char *root, const struct source *source) {
  char group[PATH_MAX], directory[2 * PATH_MAX];
  find_group(root, source->controller, group);
  int top = snprintf(directory, sizeof directory, "%s%s", root, source->mount);
  if (top < 0 || top + strlen(group) >= sizeof directory) return INFINITY;
  strcpy(directory + top, group);
  double least = source->read(directory);
  for (char *end; (end = strrchr(directory + top, '/'));) {
    *end = '\0';
    least = fmin(least, source->read(directory));
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

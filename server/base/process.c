// See base.h.
#include "server/base/base.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

double process_cpu_seconds(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? seconds(usage.ru_utime) + seconds(usage.ru_stime) : 0;
}

// A field of /proc/self/statm, in bytes: 0, the virtual size, or 1, the resident size.
static double memory(int field) {
  char line[256] = "", *next = line;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  if (!fgets(line, sizeof line, file)) line[0] = '\0';
  (void)fclose(file);
  unsigned long long pages = 0;
  for (int i = 0; i <= field; i++) pages = strtoull(next, &next, 10);
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

double process_virtual_bytes(void) { return memory(0); }
double process_resident_bytes(void) { return memory(1); }

double process_open_files(void) {
  DIR *directory = opendir("/proc/self/fd");
  if (!directory) return 0;
  int entries = 0;
  while (readdir(directory)) entries++;
  (void)closedir(directory);
  return entries - 3;  // without ., .. and `directory` itself
}

double process_max_files(void) {
  struct rlimit files;
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? (double)files.rlim_cur : 0;
}

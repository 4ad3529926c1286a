// The processors and the memory that the system grants this process. In a container its control group (cgroup, version
// 1 or 2), or one above it, may grant less than the machine has. Any thread.
//
// `root` is the directory of /proc and /sys: "", or another for tests.
#ifndef VOXELD_LIMITS_H
#define VOXELD_LIMITS_H

#include <stdint.h>

// Processors that the process may use at the same time: those of its affinity, or its CPU quota, rounded up, if that is
// less. 1 or more.
int64_t limits_processors(const char *root);
// Bytes of memory that the process may have; INT64_MAX if there is no limit.
int64_t limits_memory_bytes(const char *root);

#endif

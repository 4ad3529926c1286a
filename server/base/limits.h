// What the system lets this process have. In a container that is less than the machine has, by the limits of its
// control group (cgroup, of version 1 or 2) and of those above it. Any thread.
//
// `root` is the directory that /proc and /sys lie in: "", or another for tests.
#ifndef VOXELD_LIMITS_H
#define VOXELD_LIMITS_H

#include <stdint.h>

// Processors it may run on at the same time: those of its affinity, but no more than its CPU quota pays for, rounded
// up. 1 or more.
int64_t limits_processors(const char *root);
// Memory it may have; INT64_MAX where there is no limit.
int64_t limits_memory_bytes(const char *root);

#endif

// Clocks and medians for the benchmarks.
#ifndef VOXELD_TESTS_BENCH_TIMING_H
#define VOXELD_TESTS_BENCH_TIMING_H

#include <stdlib.h>
#include <time.h>

static inline double timing_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// The processor time of all threads of the process.
static inline double timing_processor_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline int timing_by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Sorts the values in place, ascending.
static inline double timing_median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, timing_by_value);
  return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

#endif

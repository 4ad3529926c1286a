// Sums of rows, in an order that is fixed for all backends. Any thread.
#ifndef VOXELD_CPU_SUMS_H
#define VOXELD_CPU_SUMS_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_summands {
  const float *rows;
  int32_t stride;   // floats from row to row
  int32_t columns;  // the first columns of each row are summed
  bool grouped;
};

// Sums `count` >= 1 listed rows, in the order of the list: in sequence or, if `grouped`, in sequence within groups of
// 64 rows, then the sums of groups in groups of 64, and so on. The error of grouped sums grows with the logarithm of
// the count, and parallel backends can compute them. A sum begins with the first row, not with 0, so -0.0 stays.
void cpu_sum_rows(const struct cpu_summands *summands, const int32_t *list, int32_t count, float *sum);

#endif

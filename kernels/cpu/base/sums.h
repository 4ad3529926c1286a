// Sums of rows, in the order that is fixed for all backends.
#ifndef VOXELD_CPU_SUMS_H
#define VOXELD_CPU_SUMS_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_summands {
  const float *rows;
  int32_t stride;   // floats from one row to the next
  int32_t columns;  // to sum, from the first on
  bool grouped;
};

// Sums `count` listed rows, 1 or more, in the order of the list. Not grouped: in sequence. Grouped: in sequence within
// groups of 64 rows, then the groups' sums in groups of 64, and so on. The error then grows with the logarithm of the
// count, and a parallel backend can compute the same sums. A sum begins with the first row rather than with 0, so -0.0
// stays.
void cpu_sum_rows(const struct cpu_summands *summands, const int32_t *list, int32_t count, float *sum);

#endif

// See sums.h.
#include "kernels/cpu/base/sums.h"

#include <string.h>

#include "kernels/kernels.h"

enum { SUM_GROUP = 64 };

static inline void sum_columns(const struct cpu_summands *summands, const int32_t *list, int32_t count, int32_t columns,
                               float *restrict sum) {
  const float *rows = summands->rows;
  int64_t stride = summands->stride;
  memcpy(sum, rows + list[0] * stride, (size_t)columns * sizeof *sum);
  for (int32_t i = 1; i < count; i++) {
    const float *row = rows + list[i] * stride;
    for (int32_t c = 0; c < columns; c++) sum[c] += row[c];
  }
}

// With a constant number of columns, the compiler keeps the sums in registers.
static void sum_sequence(const struct cpu_summands *summands, const int32_t *list, int32_t count, float *sum) {
  switch (summands->columns) {
    case 3: sum_columns(summands, list, count, 3, sum); break;
    case 4: sum_columns(summands, list, count, 4, sum); break;
    case 5: sum_columns(summands, list, count, 5, sum); break;
    default: sum_columns(summands, list, count, summands->columns, sum);
  }
}

void cpu_sum_rows(const struct cpu_summands *summands, const int32_t *list, int32_t count, float *sum) {
  if (count <= SUM_GROUP || !summands->grouped) {
    sum_sequence(summands, list, count, sum);
    return;
  }
  int64_t width = SUM_GROUP;  // rows of a group; the sums of groups are added last
  while (width * SUM_GROUP < count) width *= SUM_GROUP;
  cpu_sum_rows(summands, list, (int32_t)width, sum);
  for (int64_t begin = width; begin < count; begin += width) {
    float group[VX_MAX_FEATURES];
    int32_t length = (int32_t)(count - begin < width ? count - begin : width);
    cpu_sum_rows(summands, list + begin, length, group);
    for (int32_t c = 0; c < summands->columns; c++) sum[c] += group[c];
  }
}

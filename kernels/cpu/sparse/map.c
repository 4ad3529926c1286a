// The dense map of the last level; see sparse.h. Pure; any thread.
#include <string.h>

#include "kernels/cpu/sparse/sparse.h"

// A line is still in the cache from its clearing when the rows write to it.
void cpu_sparse_fill_lines(const struct cpu_level *level, const float *features, int32_t width, int32_t cloud,
                           int32_t y, float *map) {
  int64_t planes = level->shape[0], lines = level->shape[1], cells = level->shape[2];
  for (int64_t z = 0; z < planes; z++) {
    int64_t line = (cloud * planes + z) * lines + y;
    int32_t first = level->first[line], end = level->first[line + 1];
    for (int64_t channel = 0; channel < width; channel++) {
      float *to = map + ((((int64_t)cloud * width + channel) * planes + z) * lines + y) * cells;
      memset(to, 0, (size_t)cells * sizeof *to);
      for (int64_t row = first; row < end; row++) to[level->x[row]] = features[row * width + channel];
    }
  }
}

// Farthest point sampling by the plain loop over all points for each sample: the baseline of fps-bench.
#ifndef VOXELD_TESTS_BENCH_PLAIN_SAMPLER_H
#define VOXELD_TESTS_BENCH_PLAIN_SAMPLER_H

#include <math.h>
#include <stdint.h>

// `nearest` is scratch, [count]. Gives the same indices as cpu_sample (kernels/cpu/fps/fps.h).
static inline void plain_sample(const float *points, int32_t columns, int32_t count, int32_t samples, int32_t start,
                                float *nearest, int32_t *indices, float *distances) {
  for (int32_t i = 0; i < count; i++) {
    const float *p = points + (int64_t)i * columns;
    nearest[i] = isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]) ? INFINITY : -1;
  }
  indices[0] = start;
  distances[0] = INFINITY;
  for (int32_t s = 1; s < samples; s++) {
    const float *from = points + (int64_t)indices[s - 1] * columns;
    float x = from[0], y = from[1], z = from[2], farthest = -1;
    int32_t at = -1;
    for (int32_t i = 0; i < count; i++) {
      const float *p = points + (int64_t)i * columns;
      float dx = p[0] - x, dy = p[1] - y, dz = p[2] - z;
      float distance = dx * dx + dy * dy + dz * dz;
      if (distance < nearest[i]) nearest[i] = distance;
      if (nearest[i] > farthest) {
        farthest = nearest[i];
        at = i;
      }
    }
    indices[s] = at;
    distances[s] = farthest;
  }
}

#endif

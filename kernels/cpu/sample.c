// See sample.h.
#include "kernels/cpu/sample.h"

#include <math.h>

void cpu_sampler_lay_out(struct cpu_sampler *sampler, struct cpu_arena *arena, int32_t num_points) {
  sampler->distance = cpu_arena_take(arena, (uint64_t)num_points, sizeof *sampler->distance);
}

bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task) {
  for (int32_t i = 0; i < task->num_points; i++) {
    const float *p = task->points + (int64_t)i * task->columns;
    sampler->distance[i] = isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]) ? INFINITY : -1.0f;
  }
  int32_t chosen = task->start;
  float distance = INFINITY;
  for (int32_t k = 0; k < task->num_samples; k++) {
    task->indices[k] = chosen;
    task->distances[k] = distance;
    const float *c = task->points + (int64_t)chosen * task->columns;
    float best = -0.5f;
    int32_t next = 0;
    for (int32_t i = 0; i < task->num_points; i++) {
      const float *p = task->points + (int64_t)i * task->columns;
      float dx = p[0] - c[0], dy = p[1] - c[1], dz = p[2] - c[2];
      float d = dx * dx + dy * dy + dz * dz;
      if (d < sampler->distance[i]) {
        sampler->distance[i] = d;
      }
      if (sampler->distance[i] > best) {
        best = sampler->distance[i];
        next = i;
      }
    }
    chosen = next;
    distance = best;
    if (task->stopped && task->stopped(task->stopped_cls)) {
      return false;
    }
  }
  return true;
}

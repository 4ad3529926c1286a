// The arithmetic of a range image, in loops that the compiler vectorizes. Pure; any thread.
#include "kernels/cpu/image/image.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void project(const struct vx_range_image *params, struct cpu_projected *points) {
  const struct vx_view view = vx_view_of(params);
  enum vx_outside outside = params->outside;
  bool by_elevation = params->rows == VX_ROWS_ELEVATION;
  for (int i = 0; i < CPU_PROJECTED; i++)
    points->distance[i] = vx_distance_of(points->x[i], points->y[i], points->z[i]);
  for (int i = 0; i < CPU_PROJECTED; i++)
    points->column[i] = vx_image_column(&view, (double)points->x[i], (double)points->y[i]);
  for (int i = 0; by_elevation && i < CPU_PROJECTED; i++)
    points->row[i] = vx_row_in_image(
        &view, outside, vx_image_row(&view, (double)points->x[i], (double)points->y[i], (double)points->z[i]));
  for (int i = 0; i < CPU_PROJECTED; i++) {
    int32_t pixel = (int32_t)(points->row[i] * view.width + points->column[i]);
    pixel = points->row[i] < 0 ? VX_NO_PIXEL : pixel;
    points->pixel[i] = vx_are_finite(points->x[i], points->y[i], points->z[i]) ? pixel : VX_NOT_FINITE_PIXEL;
  }
}

static void project_plain(const struct vx_range_image *params, struct cpu_projected *points) {
  project(params, points);
}

static bool runs_anywhere(void) { return true; }

#ifdef __x86_64__

static __attribute__((target("avx512f"))) void project_avx512(const struct vx_range_image *params,
                                                              struct cpu_projected *points) {
  project(params, points);
}

static bool runs_avx512(void) { return __builtin_cpu_supports("avx512f"); }

static __attribute__((target("avx2"))) void project_avx2(const struct vx_range_image *params,
                                                         struct cpu_projected *points) {
  project(params, points);
}

static bool runs_avx2(void) { return __builtin_cpu_supports("avx2"); }

#endif

const struct cpu_project_way cpu_project_ways[] = {
#ifdef __x86_64__
    {"avx512", runs_avx512, project_avx512},
    {"avx2", runs_avx2, project_avx2},
#endif
    {"plain", runs_anywhere, project_plain},
};

const int cpu_num_project_ways = sizeof cpu_project_ways / sizeof *cpu_project_ways;

cpu_project *cpu_project_here(void) {
  const struct cpu_project_way *way = cpu_project_ways;
  while (!way->runs()) way++;
  return way->project;
}

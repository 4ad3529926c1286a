// The arithmetic of a range image, in loops that become vectors. Pure functions: any thread may call them.
#include "kernels/cpu/image/image.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void project(const struct vx_view *shared_view, bool rows, struct cpu_projected *points) {
  struct vx_view view = *shared_view;
  for (int i = 0; i < CPU_PROJECTED; i++)
    points->distance[i] = vx_distance_of(points->x[i], points->y[i], points->z[i]);
  for (int i = 0; i < CPU_PROJECTED; i++)
    points->column[i] = vx_image_column(&view, (double)points->x[i], (double)points->y[i]);
  for (int i = 0; rows && i < CPU_PROJECTED; i++)
    points->row[i] = vx_image_row(&view, (double)points->x[i], (double)points->y[i], (double)points->z[i]);
}

void cpu_project_any(const struct vx_view *view, bool rows, struct cpu_projected *points) {
  project(view, rows, points);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void project_avx2(const struct vx_view *view, bool rows,
                                                         struct cpu_projected *points) {
  project(view, rows, points);
}

#endif

void cpu_project(const struct vx_view *view, bool rows, struct cpu_projected *points) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    project_avx2(view, rows, points);
    return;
  }
#endif
  cpu_project_any(view, rows, points);
}

// The arithmetic of cylindrical coordinates (kernels/cylinder.h), in loops that the compiler vectorizes. Pure; any
// thread.
#include "kernels/cylinder.h"
#include "kernels/cpu/steps/steps.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void to_cylinder(const float *points, int32_t columns, int64_t count, float *rows) {
  double x[CPU_CYLINDER], y[CPU_CYLINDER];
  float rho[CPU_CYLINDER], phi[CPU_CYLINDER];
  for (int64_t i = 0; i < count; i++) x[i] = (double)points[i * columns], y[i] = (double)points[i * columns + 1];
  for (int64_t i = 0; i < count; i++) rho[i] = vx_cylinder_rho(x[i], y[i]), phi[i] = vx_cylinder_phi(x[i], y[i]);
  for (int64_t i = 0; i < count; i++)
    vx_cylinder_row(rho[i], phi[i], points + i * columns, columns, rows + i * (columns + VX_CYLINDER_EXTRA));
}

void cpu_to_cylinder_any(const float *points, int32_t columns, int64_t count, float *rows) {
  to_cylinder(points, columns, count, rows);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void to_cylinder_avx2(const float *points, int32_t columns, int64_t count,
                                                             float *rows) {
  to_cylinder(points, columns, count, rows);
}
#endif

void cpu_to_cylinder(const float *points, int32_t columns, int64_t count, float *rows) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    to_cylinder_avx2(points, columns, count, rows);
    return;
  }
#endif
  cpu_to_cylinder_any(points, columns, count, rows);
}

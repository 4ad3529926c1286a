// The keys of cells on a curve, in loops that the compiler vectorizes. Pure; any thread.
#include "kernels/cpu/serialize/serialize.h"

static inline __attribute__((always_inline)) void find_keys(int32_t curve, int32_t depth, const int32_t *grid,
                                                            int32_t count, uint64_t keys[CPU_KEYS]) {
  uint32_t x[CPU_KEYS] = {0}, y[CPU_KEYS] = {0}, z[CPU_KEYS] = {0};
  int swap = vx_is_transposed(curve);
  for (int32_t i = 0; i < count; i++) {
    x[i] = (uint32_t)grid[3 * i + swap];
    y[i] = (uint32_t)grid[3 * i + 1 - swap];
    z[i] = (uint32_t)grid[3 * i + 2];
  }
  for (int bit = depth - 1; bit > 0 && vx_is_hilbert(curve); bit--)
    for (int32_t i = 0; i < CPU_KEYS; i++) vx_hilbert_step(bit, &x[i], &y[i], &z[i]);
  if (vx_is_hilbert(curve))
    for (int32_t i = 0; i < CPU_KEYS; i++) keys[i] = vx_hilbert_end(x[i], y[i], z[i]);
  else
    for (int32_t i = 0; i < CPU_KEYS; i++) keys[i] = vx_z_key(x[i], y[i], z[i]);
}

void cpu_find_keys_any(int32_t curve, int32_t depth, const int32_t *grid, int32_t count, uint64_t keys[CPU_KEYS]) {
  find_keys(curve, depth, grid, count, keys);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void find_keys_avx2(int32_t curve, int32_t depth, const int32_t *grid,
                                                           int32_t count, uint64_t keys[CPU_KEYS]) {
  find_keys(curve, depth, grid, count, keys);
}
#endif

void cpu_find_keys(int32_t curve, int32_t depth, const int32_t *grid, int32_t count, uint64_t keys[CPU_KEYS]) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    find_keys_avx2(curve, depth, grid, count, keys);
    return;
  }
#endif
  cpu_find_keys_any(curve, depth, grid, count, keys);
}

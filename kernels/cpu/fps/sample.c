// Farthest point sampling of one cloud (fps.h): compiles sample_steps.h for each kind of vector, and chooses one.
#include "kernels/cpu/fps/fps.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// The most nodes that wait during a walk of the tree: seven more per level.
enum { STACK = (CPU_SAMPLE_LANES - 1) * CPU_SAMPLE_DEPTH + 1 };

#define WIDTH 4
#define TARGET
#define NAME(x) x##_any
#include "kernels/cpu/fps/sample_steps.h"
#undef WIDTH
#undef TARGET
#undef NAME

#if defined(__x86_64__)
#define WIDTH 8
#define TARGET __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#include "kernels/cpu/fps/sample_steps.h"
#undef WIDTH
#undef TARGET
#undef NAME
#endif

static bool begin(struct cpu_sampler *sampler, const struct cpu_sample_task *task) {
  sampler->task = task;
  sampler->stop = task->stop;
  return cpu_sample_build(sampler);
}

bool cpu_sample_any(struct cpu_sampler *sampler, const struct cpu_sample_task *task) {
  return begin(sampler, task) && take_samples_any(sampler);
}

bool cpu_sample(struct cpu_sampler *sampler, const struct cpu_sample_task *task) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return begin(sampler, task) && take_samples_avx2(sampler);
#endif
  return cpu_sample_any(sampler, task);
}

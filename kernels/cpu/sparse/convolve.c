// The sums of a layer, for each kind of processor; see sparse.h. Pure; any thread.
#include "kernels/cpu/sparse/fused.h"
#include "kernels/cpu/sparse/sparse.h"

// ---- plain C --------------------------------------------------------------------------------------------------------

static void convolve_plain(const struct cpu_pairs *pairs) {
  for (int32_t i = 0; i < pairs->count; i++) {
    const float *from = pairs->in + (int64_t)pairs->input[i] * pairs->inputs, *weight = pairs->weight;
    float *to = pairs->out + (int64_t)pairs->row[i] * pairs->width;
    for (int32_t c = 0; c < pairs->inputs; c++, weight += pairs->width)
      for (int32_t d = 0; d < pairs->width; d++) to[d] = cpu_fuse(from[c], weight[d], to[d]);
  }
}

static bool runs_anywhere(void) { return true; }

// ---- AVX-512, AVX2 --------------------------------------------------------------------------------------------------

#ifdef __x86_64__

#include <immintrin.h>

#define KIND(name) name##_avx512
#define VECTOR __m512
#define LANES 16
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define SPLAT(at) _mm512_set1_ps(*(at))
#define FUSE _mm512_fmadd_ps
#define TARGET __attribute__((target("avx512f")))
#define MOST_ROWS(vectors) ((vectors) == 4 ? 6 : 8)
#include "kernels/cpu/sparse/convolve_rows.h"

__attribute__((target("avx512f"))) static void convolve_avx512(const struct cpu_pairs *pairs) {
  int32_t channel = 0, left = pairs->width;
  for (; left >= 64; channel += 64, left -= 64) convolve_channels_avx512(pairs, channel, 4);
  for (; left >= 32; channel += 32, left -= 32) convolve_channels_avx512(pairs, channel, 2);
  for (; left > 0; channel += 16, left -= 16) convolve_channels_avx512(pairs, channel, 1);
}

static bool runs_avx512(void) { return __builtin_cpu_supports("avx512f"); }

#define KIND(name) name##_avx2
#define VECTOR __m256
#define LANES 8
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define SPLAT _mm256_broadcast_ss
#define FUSE _mm256_fmadd_ps
#define TARGET __attribute__((target("avx2,fma")))
#define MOST_ROWS(vectors) 6
#include "kernels/cpu/sparse/convolve_rows.h"

__attribute__((target("avx2,fma"))) static void convolve_avx2(const struct cpu_pairs *pairs) {
  for (int32_t channel = 0; channel < pairs->width; channel += 16) convolve_channels_avx2(pairs, channel, 2);
}

static bool runs_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#endif

// ---- NEON -----------------------------------------------------------------------------------------------------------

#ifdef __aarch64__

#include <arm_neon.h>

#define KIND(name) name##_neon
#define VECTOR float32x4_t
#define LANES 4
#define LOAD vld1q_f32
#define STORE vst1q_f32
#define SPLAT vld1q_dup_f32
#define FUSE(a, b, c) vfmaq_f32(c, a, b)
#define TARGET
#define MOST_ROWS(vectors) 6
#include "kernels/cpu/sparse/convolve_rows.h"

static void convolve_neon(const struct cpu_pairs *pairs) {
  for (int32_t channel = 0; channel < pairs->width; channel += 16) convolve_channels_neon(pairs, channel, 4);
}

#endif

const struct cpu_convolve_way cpu_convolve_ways[] = {
#ifdef __x86_64__
    {"avx512", runs_avx512, convolve_avx512},
    {"avx2", runs_avx2, convolve_avx2},
#endif
#ifdef __aarch64__
    {"neon", runs_anywhere, convolve_neon},
#endif
    {"plain", runs_anywhere, convolve_plain},
};

const int cpu_num_convolve_ways = sizeof cpu_convolve_ways / sizeof *cpu_convolve_ways;

cpu_convolve *cpu_convolve_here(void) {
  const struct cpu_convolve_way *way = cpu_convolve_ways;
  while (!way->runs()) way++;
  return way->convolve;
}

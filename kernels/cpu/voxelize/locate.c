// See locate.h. Pure; any thread.
#include "kernels/cpu/voxelize/locate.h"

#include <float.h>

#include "kernels/half.h"

// ---- plain C --------------------------------------------------------------------------------------------------------

// Always computes a whole chunk, because the vectorizer needs a constant trip count.
static void locate_plain(const struct vx_cell_map *map, const float *points, int32_t columns, int32_t count,
                         struct cpu_located *located) {
  float xyz[3][CPU_CHUNK] = {{0}};
  int32_t cell[3][CPU_CHUNK], is_inside[CPU_CHUNK], not_finite = 0;
  for (int32_t i = 0; i < count; i++) {
    const float *point = points + (int64_t)i * columns;
    xyz[0][i] = point[0];
    xyz[1][i] = point[1];
    xyz[2][i] = point[2];
  }
  for (int32_t i = 0; i < CPU_CHUNK; i++) {
    float x = xyz[0][i], y = xyz[1][i], z = xyz[2][i];
    int32_t at[3];
    is_inside[i] = vx_cell_of_point(map, x, y, z, at);
    cell[0][i] = at[0];
    cell[1][i] = at[1];
    cell[2][i] = at[2];
    not_finite += !vx_are_finite(x, y, z);
  }
  int32_t inside = 0;
  for (int32_t i = 0; i < count; i++) {
    located->at[inside] = i;
    located->key[inside] = vx_key(map->key, cell[0][i], cell[1][i], cell[2][i]);
    inside += is_inside[i];  // the next point overwrites a point outside
  }
  located->num_inside = inside;
  located->not_finite = not_finite;
}

static bool runs_anywhere(void) { return true; }

// ---- AVX-512 --------------------------------------------------------------------------------------------------------

#ifdef __x86_64__

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f")))

// Like vx_cell_on_axis: clears the bits of `*inside` whose points are outside on this axis.
static inline AVX512 __m512i cells_on_axis(const struct vx_cell_map *map, int axis, __m512 p, __mmask16 *inside) {
  __m512 t = _mm512_div_ps(_mm512_sub_ps(p, _mm512_set1_ps(map->min[axis])), _mm512_set1_ps(map->size[axis]));
  t = _mm512_max_ps(_mm512_set1_ps(map->least[axis]), t);  // a NaN t stays: with a NaN, the second operand is taken
  t = _mm512_min_ps(_mm512_set1_ps(map->most[axis]), t);
  *inside = _mm512_mask_cmp_ps_mask(*inside, t, _mm512_setzero_ps(), _CMP_GE_OQ);
  *inside = _mm512_mask_cmp_ps_mask(*inside, t, _mm512_set1_ps(map->limit[axis]), _CMP_LT_OQ);
  return _mm512_cvttps_epi32(t);
}

// vx_key of eight cells.
static inline AVX512 __m512i keys_of(struct vx_key_format format, __m256i x, __m256i y, __m256i z) {
  __m512i high = _mm512_sll_epi64(_mm512_cvtepu32_epi64(x), _mm_cvtsi32_si128(format.yz_bits));
  __m512i middle = _mm512_sll_epi64(_mm512_cvtepu32_epi64(y), _mm_cvtsi32_si128(format.z_bits));
  return _mm512_or_si512(_mm512_or_si512(high, middle), _mm512_cvtepu32_epi64(z));
}

#define LOW(cells) _mm512_castsi512_si256(cells)
#define HIGH(cells) _mm512_extracti64x4_epi64(cells, 1)

static AVX512 void locate_avx512(const struct vx_cell_map *map, const float *points, int32_t columns, int32_t count,
                                 struct cpu_located *located) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i offset = _mm512_mullo_epi32(lane, _mm512_set1_epi32(columns));
  const __m512 largest = _mm512_set1_ps(FLT_MAX);
  int32_t num_inside = 0, num_finite = 0;
  for (int32_t begin = 0; begin < count; begin += 16) {
    __mmask16 there = (__mmask16)(count - begin < 16 ? (1 << (count - begin)) - 1 : 0xFFFF), finite = there;
    __mmask16 inside = there;
    __m512i cell[3];
    for (int axis = 0; axis < 3; axis++) {
      const float *first = points + (int64_t)begin * columns + axis;
      __m512 p = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), there, offset, first, 4);
      finite = _mm512_mask_cmp_ps_mask(finite, _mm512_abs_ps(p), largest, _CMP_LE_OQ);
      cell[axis] = cells_on_axis(map, axis, p, &inside);
    }
    __m512i low = keys_of(map->key, LOW(cell[0]), LOW(cell[1]), LOW(cell[2]));
    __m512i high = keys_of(map->key, HIGH(cell[0]), HIGH(cell[1]), HIGH(cell[2]));
    // `located` has at most `begin` points so far, so whole vectors fit in the chunk.
    int32_t num_low = __builtin_popcount(inside & 0xFFU);
    _mm512_storeu_si512(located->at + num_inside,
                        _mm512_maskz_compress_epi32(inside, _mm512_add_epi32(lane, _mm512_set1_epi32(begin))));
    _mm512_storeu_si512(located->key + num_inside, _mm512_maskz_compress_epi64((__mmask8)inside, low));
    _mm512_storeu_si512(located->key + num_inside + num_low,
                        _mm512_maskz_compress_epi64((__mmask8)(inside >> 8), high));
    num_inside += __builtin_popcount(inside);
    num_finite += __builtin_popcount(finite);
  }
  located->num_inside = num_inside;
  located->not_finite = count - num_finite;
}

static bool runs_avx512(void) { return __builtin_cpu_supports("avx512f"); }

#endif

const struct cpu_locate_way cpu_locate_ways[] = {
#ifdef __x86_64__
    {"avx512", runs_avx512, locate_avx512},
#endif
    {"plain", runs_anywhere, locate_plain},
};

const int cpu_num_locate_ways = sizeof cpu_locate_ways / sizeof *cpu_locate_ways;

cpu_locate *cpu_locate_here(void) {
  const struct cpu_locate_way *way = cpu_locate_ways;
  while (!way->runs()) way++;
  return way->locate;
}

// De-skew on a GPU: the first kernel of a job moves the points as they arrive (bring.cuh).
#ifndef VOXELD_CUDA_DESKEW_CUH
#define VOXELD_CUDA_DESKEW_CUH

#include "kernels/cuda/base/bring.cuh"
#include "kernels/deskew.h"

enum {
  DESKEW_FEW = 16,  // segments that fit beside a kernel's other arguments
  DESKEW_WORDS = sizeof(struct vx_segment) / sizeof(uint32_t),
};
static_assert(sizeof(struct vx_segment) % sizeof(uint32_t) == 0, "segments are copied word by word");

struct cuda_deskew {
  const float *times;               // [num_points]: host memory, or a copy
  const struct vx_segment *longer;  // [count]; NULL: `few` has the segments
  int32_t count;
  float first, last;  // times outside are clamped
  struct cuda_deskew_counts *counts;
  struct vx_segment few[DESKEW_FEW];
};

// A block's copy of `few`.
static __device__ inline struct vx_segment *cuda_own_segments(void) {
  __shared__ struct vx_segment segments[DESKEW_FEW];
  return segments;
}

// Called by a whole block before a barrier, and before it waits for the kernel ahead. Copies `few`, since the threads
// of a warp may need different segments, and an argument's first reads are slow.
static __device__ inline void cuda_begin_deskew(const struct cuda_deskew &d) {
  uint32_t words = d.times && !d.longer ? (uint32_t)d.count * DESKEW_WORDS : 0;
  for (uint32_t i = threadIdx.x; i < words; i += blockDim.x)
    ((uint32_t *)cuda_own_segments())[i] = ((const uint32_t *)d.few)[i];
}

// The number of the segment at `t`, as vx_segment_at finds it. No read depends on an earlier read.
static __device__ inline int32_t cuda_segment_at(const struct vx_segment *segments, int32_t count, float t) {
  int32_t at = 0;
  for (int32_t i = 1; i < count; i++) at += segments[i].start <= t;
  return at;
}

// Moves an arriving row that was measured at `t`. Returns true: the row may have changed (see bring_chunks). If
// `counts` is true, counts rows that do not move, and times that are clamped.
static __device__ inline bool cuda_deskew_row(const struct cuda_deskew &d, float t, bool counts, struct location *at) {
  float point[3] = {at->x, at->y, at->z};
  if (!vx_is_finite(t)) at->x = point[0] = vx_bits_float(VX_FLOAT_NAN);
  if (!vx_are_finite(point[0], point[1], point[2])) {
    if (counts) atomicAdd(&d.counts->unmoved, 1);
    return true;
  }
  if (counts && (t < d.first || t > d.last)) atomicAdd(&d.counts->clamped, 1);
  t = t < d.first ? d.first : t;
  t = t > d.last ? d.last : t;
  const struct vx_segment *segments = d.longer ? d.longer : cuda_own_segments();
  vx_deskew(&segments[cuda_segment_at(segments, d.count, t)], t, point);
  *at = {point[0], point[1], point[2]};
  return true;
}

// Fills the arguments of the kernel that moves the job's points, and brings to the device what it cannot read in place.
VX_WARN_UNUSED enum vx_status cuda_plan_deskew(const struct cuda_run *run, struct cuda_deskew_counts *counts,
                                               struct cuda_deskew *deskew, struct error *error);

#endif

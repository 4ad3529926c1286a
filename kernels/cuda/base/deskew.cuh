// De-skew on a GPU: the first kernel of a job moves the points as they arrive (bring.cuh).
#ifndef VOXELD_CUDA_DESKEW_CUH
#define VOXELD_CUDA_DESKEW_CUH

#include "kernels/cuda/base/bring.cuh"
#include "kernels/deskew.h"

enum { DESKEW_FEW = 16 };  // segments that fit beside a kernel's other arguments

// How points move, as a kernel sees it.
struct cuda_deskew {
  const float *times;               // [num_points]: host memory, or a copy
  const struct vx_segment *longer;  // [count]; NULL: `few` has the segments
  int32_t count;
  float first, last;                  // times outside are clamped
  struct cuda_deskew_counts *counts;  // of the job
  struct vx_segment few[DESKEW_FEW];
};

// Moves a row that arrives. Also counts the row if `counts` is true.
static __device__ inline bool cuda_deskew_row(const struct cuda_deskew &d, uint64_t row, bool counts,
                                              struct location *at) {
  float t = __ldcs(d.times + row), point[3] = {at->x, at->y, at->z};
  if (!vx_is_finite(t)) at->x = point[0] = vx_bits_float(VX_FLOAT_NAN);
  if (!vx_are_finite(point[0], point[1], point[2])) {
    if (counts) atomicAdd(&d.counts->unmoved, 1);
    return true;
  }
  if (counts && (t < d.first || t > d.last)) atomicAdd(&d.counts->clamped, 1);
  t = t < d.first ? d.first : t;
  t = t > d.last ? d.last : t;
  const struct vx_segment *segments = d.longer ? d.longer : d.few;
  vx_deskew(&segments[vx_segment_at(segments, d.count, t, 0)], t, point);
  *at = {point[0], point[1], point[2]};
  return true;
}

// Fills the arguments of the kernel that moves the job's points, and brings to the device what it cannot read in place.
VX_WARN_UNUSED enum vx_status cuda_plan_deskew(const struct cuda_run *run, struct cuda_deskew_counts *counts,
                                               struct cuda_deskew *deskew, struct error *error);

#endif

// Steps: what happens to the points between the input and the operation of a job.
//
// A chain is a list of steps. Each step sees the points that the steps before it left, in the order of the input. A
// step may move points, change their other columns, and drop points. It treats each cloud of a batch alone.
//
// The chain works on a float32 copy of the rows, where the x of a dropped row becomes NaN. The operation then runs on
// the copy, and skips rows that are not finite. So no operation knows of steps.
//
// The chain's rows, on every backend:
//   rows   float32 [N, C]. A row is left if its x is not NaN; then x, y and z are finite. Before the first step, rows
//          whose x, y or z is not finite are dropped as not_finite, and count as dropped by step 1.
//   fates  uint8 [N]: enum vx_fate of a dropped row; 0 (VX_FATE_KEPT) while the row is left.
//   steps  uint8 [N]: the number, from 1, of the step that dropped the row; 0: none.
//   heads  int32 [N]: for a row with the fate `merged`, the row that represents it. Other entries are undefined. NULL
//          if nothing reads them.
//
// What a step may write:
//   - of a row that is left: any column. If x, y or z is no longer finite, the step must drop the row as not_finite.
//   - to drop a row that is left: its fate, its step, NaN as its x, and for `merged` its head, which must be a row that
//     this step leaves or merges. cpu_drop and cuda_drop write these.
//   - nothing of a dropped row.
// On the CPU the chain counts the fates at its end. On a GPU cuda_drop counts them.
//
// The operation `points` returns the rows that its chain, perhaps of 0 steps, has left. `transform` is the same with a
// chain of one step of the type transform. Other operations may return these tensors too, if the job has a chain:
//   points         the rows that are left, of all clouds, in the order of the input
//   point_indices  for each of them, the row of the input
//   point_rows     for each row of the input, its row of `points` or, if it was merged, its head's row; -1 if the row
//                  was dropped otherwise, or the head was
//   point_fates    the chain's `fates`; point_steps the chain's `steps`
// A merged row has the voxel of its head in point_voxel_ids. If a later step has merged the head, the head's own head
// counts.
//
// A new step type needs a line of VX_STEPS, the include of its header, and these files:
//   kernels/step_NAME.h, .c   struct vx_NAME with the parameters, the definition to the last bit, the row vx_step_NAME
//   kernels/cpu/steps/NAME.c    cpu_step_NAME, as kernels/cpu/steps/steps.h says
//   kernels/cuda/steps/NAME.cu  cuda_step_NAME, as kernels/cuda/steps/steps.cuh says
//   api/steps/NAME.c            step_NAME, the rows of its parameters, as api/steps/steps.h says
#ifndef VOXELD_STEPS_H
#define VOXELD_STEPS_H

#include "kernels/kernels.h"
#include "kernels/step_downsample.h"
#include "kernels/step_radius_outlier.h"
#include "kernels/step_ring_outlier.h"
#include "kernels/step_statistical_outlier.h"
#include "kernels/step_transform.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VX_CHAIN_TENSORS                                                                                               \
  (VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES) | VX_TENSOR_BIT(VX_POINT_ROWS) |                    \
   VX_TENSOR_BIT(VX_POINT_FATES) | VX_TENSOR_BIT(VX_POINT_STEPS))

// X(TYPE, name)
#define VX_STEPS(X)                                                                                                    \
  X(TRANSFORM, transform)                                                                                              \
  X(DOWNSAMPLE, downsample)                                                                                            \
  X(RING_OUTLIER, ring_outlier)                                                                                        \
  X(RADIUS_OUTLIER, radius_outlier)                                                                                    \
  X(STATISTICAL_OUTLIER, statistical_outlier)

enum vx_step_type {
#define X(type, name) VX_STEP_##type,
  VX_STEPS(X)
#undef X
      VX_STEP_TYPES
};

struct vx_step {
  enum vx_step_type type;
  union {
#define X(type, name) struct vx_##name name;
    VX_STEPS(X)
#undef X
  } params;
};

struct vx_chain {
  int32_t count;  // 0..VX_MAX_STEPS
  struct vx_step steps[VX_MAX_STEPS];
};

const struct vx_step_row *vx_step_row_of(enum vx_step_type type);
// The functions are pure. Any thread may call them.

// VX_FATE_BITs of the fates that steps of the chain can give.
uint32_t vx_fates_of_chain(const struct vx_chain *chain);
// Whether a backend must note the head of each merged row.
bool vx_chain_needs_heads(const struct vx_job *job);
// Whether a step or the operation reads the body as it was before the steps.
bool vx_chain_reads_body(const struct vx_job *job);
// VX_REFUSED if the chain does not fit the job.
VX_WARN_UNUSED enum vx_status vx_check_chain(const struct vx_job *job, struct error *error);

#ifdef __cplusplus
}
#endif
#endif

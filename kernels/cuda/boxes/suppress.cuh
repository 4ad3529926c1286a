// Suppresses ranked boxes on a GPU, segment by segment: boxes.h says what that is.
//
// Only enqueues work. Adds the fates over_pre_max, suppressed, over_post_max and kept to the tally. If the host orders
// the job to stop, boxes are left out, and the fates are not right.
#ifndef VOXELD_CUDA_SUPPRESS_CUH
#define VOXELD_CUDA_SUPPRESS_CUH

#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/boxes/suppression.cuh"

// Takes `kept` and what is its own. Runs twice, as all layouts do.
void cuda_take_suppression(struct cuda_suppression *suppression, struct cuda_arena *arena);
VX_WARN_UNUSED enum vx_status cuda_suppress(const struct cuda_run *run, struct cuda_suppression *suppression,
                                            struct error *error);

#endif

// Moves the channels of maps behind their cells. Only enqueues work.
#ifndef VOXELD_CUDA_CHANNELS_CUH
#define VOXELD_CUDA_CHANNELS_CUH

#include "kernels/cuda/base/check.cuh"
#include "kernels/detection.h"

// From `written` to `last`, of those maps that need it.
VX_WARN_UNUSED enum vx_status cuda_move_channels(struct vx_lane *lane, const struct vx_detection *detection,
                                                 struct error *error);

#endif

// A detection on a GPU. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_DETECT_CUH
#define VOXELD_CUDA_DETECT_CUH

#include "kernels/kernels.h"

// Whether the job, a detection, has a session, and its network can read the clouds of a batch where they lie.
bool cuda_detects(const struct vx_job *job);
// Does not trim the lane.
VX_WARN_UNUSED enum vx_status cuda_detect(struct vx_lane *lane, struct vx_job *job, struct error *error);

#endif

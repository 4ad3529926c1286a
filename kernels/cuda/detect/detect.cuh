// A detection on a GPU. Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_DETECT_CUH
#define VOXELD_CUDA_DETECT_CUH

#include "kernels/detection.h"

// Whether the detection has a session, and its network can read the clouds of a batch in place. A backbone needs
// neither.
bool cuda_detects(const struct vx_job *job);
// Runs the detection or the backbone. Does not trim the lane.
VX_WARN_UNUSED enum vx_status cuda_detect(struct vx_lane *lane, struct vx_job *job, struct error *error);

// Runs the backbone from voxels_at to features_at. Waits once, for the numbers of rows of all levels.
VX_WARN_UNUSED enum vx_status cuda_run_backbone(struct vx_lane *lane, struct vx_detection *detection,
                                                struct error *error);

// Moves the channels of maps to the last dimension, where needed: from `written` to `last`. Only enqueues work.
VX_WARN_UNUSED enum vx_status cuda_move_channels(struct vx_lane *lane, const struct vx_detection *detection,
                                                 struct error *error);

#endif

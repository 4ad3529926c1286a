// Non-maximum suppression on the CPU. Runs on the thread that has the lane.
#ifndef VOXELD_CPU_NMS_H
#define VOXELD_CPU_NMS_H

#include "kernels/kernels.h"

VX_WARN_UNUSED enum vx_status cpu_nms(struct vx_lane *lane, struct vx_job *job, struct error *error);

#endif

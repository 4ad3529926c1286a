// Decoding of a centre head's maps on the CPU. Runs on the thread that has the lane.
#ifndef VOXELD_CPU_CENTER_H
#define VOXELD_CPU_CENTER_H

#include "kernels/kernels.h"

VX_WARN_UNUSED enum vx_status cpu_decode_center(struct vx_lane *lane, struct vx_job *job, struct error *error);

#endif

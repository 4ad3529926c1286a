// Serialize on the CPU (kernels/serialize.h). Runs on the thread that has the lane.
#ifndef VOXELD_CPU_SERIALIZE_H
#define VOXELD_CPU_SERIALIZE_H

#include "kernels/kernels.h"

// The operation of a job with a chain, whose rows are the lane's points.
VX_WARN_UNUSED enum vx_status cpu_serialize(struct vx_lane *lane, struct vx_job *job, struct error *error);

#endif

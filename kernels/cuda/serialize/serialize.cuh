// Serialize on a GPU (kernels/serialize.h). Runs on the thread that has the lane.
#ifndef VOXELD_CUDA_SERIALIZE_CUH
#define VOXELD_CUDA_SERIALIZE_CUH

#include "kernels/cuda/base/run.cuh"

// Serializes the rows that the job's chain left and numbered.
VX_WARN_UNUSED enum vx_status cuda_serialize(struct cuda_run *run, struct error *error);

#endif

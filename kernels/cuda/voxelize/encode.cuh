// From rows to encoded features: encode.h of kernels/.
#ifndef VOXELD_CUDA_VOXELIZE_ENCODE_CUH
#define VOXELD_CUDA_VOXELIZE_ENCODE_CUH

#include "kernels/cuda/base/run.cuh"

// Before the job's memory is taken: fills run->num_rooms and run->room_floats.
void cuda_measure_encoder(struct cuda_run *run);
// Writes encoded_features, or the rows that bev_features is made of.
VX_WARN_UNUSED enum vx_status cuda_encode(const struct cuda_run *run, struct error *error);

#endif

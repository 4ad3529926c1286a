// The CUDA backend's table; its files are those of kernels/cuda/. See kernels/kernels.h for what a backend does.
#ifndef VOXELD_CUDA_BACKEND_H
#define VOXELD_CUDA_BACKEND_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct vx_backend vx_cuda_backend;

#ifdef __cplusplus
}
#endif
#endif

// The backends of this build. The tables are constant. Any thread.
#ifndef VOXELD_BACKENDS_H
#define VOXELD_BACKENDS_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct vx_backend vx_cpu_backend;   // in every build
extern const struct vx_backend vx_cuda_backend;  // in builds with VOXELD_CUDA

// The fastest first; ends in NULL.
extern const struct vx_backend *const vx_backends[];
// NULL if this build has none of that name.
const struct vx_backend *vx_backend_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif

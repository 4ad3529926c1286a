// The backends, and the table of the backends in this build.
#ifndef VOXELD_BACKENDS_H
#define VOXELD_BACKENDS_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct vx_backend vx_cpu_backend;   // in every build
extern const struct vx_backend vx_cuda_backend;  // in builds with VOXELD_CUDA

// The backends of this build, the fastest first; NULL ends them.
extern const struct vx_backend *const vx_backends[];
// Returns NULL if this build has no backend of that name.
const struct vx_backend *vx_backend_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif

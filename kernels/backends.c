// See backends.h. VOXELD_CUDA: the CUDA backend, or a stand-in for it, is linked.
#include "kernels/backends.h"

#include <string.h>

const struct vx_backend *const vx_backends[] = {
#ifdef VOXELD_CUDA
    &vx_cuda_backend,
#endif
    &vx_cpu_backend,
    NULL,
};

const struct vx_backend *vx_backend_find(const char *name) {
  for (const struct vx_backend *const *backend = vx_backends; *backend; backend++)
    if (strcmp((*backend)->name, name) == 0) return *backend;
  return NULL;
}

// See moving.cuh.
#include "kernels/cuda/base/moving.cuh"

#include <string.h>

#include "kernels/cuda/base/transfer.cuh"

// Brings the clouds' matrices to the device through the host commands, which the device reads later. So each step uses
// its own part of them, and waits for earlier steps if no room is left.
static enum vx_status bring_matrices(struct cuda_chain *chain, struct cuda_moving *moving, struct error *error) {
  const struct vx_transform *params = &moving->params;
  memcpy(moving->one, vx_matrix_of(params, 0), sizeof moving->one);
  moving->each = NULL;
  if (params->num_matrices < 2) return VX_OK;
  uint32_t count = (uint32_t)params->num_matrices, values = count * VX_MATRIX_VALUES;
  if (chain->host_matrices + count > VX_MAX_CLOUDS) {
    CUDA_CALL(cudaStreamSynchronize(chain->run.stream), error);
    chain->host_matrices = 0;
  }
  uint32_t from = chain->host_matrices * VX_MATRIX_VALUES, to = chain->used_matrices * VX_MATRIX_VALUES;
  memcpy(chain->run.lane->commands->matrices + from, params->matrices, values * sizeof(float));
  CUDA_TRY(cuda_fetch(&chain->run, chain->run.commands->matrices + from, chain->matrices + to, values, error));
  moving->each = chain->matrices + to;
  chain->host_matrices += count;
  chain->used_matrices += count;
  return VX_OK;
}

enum vx_status cuda_plan_moving(struct cuda_chain *chain, const struct vx_transform *params, struct cuda_moving *moving,
                                struct error *error) {
  moving->params = *params;
  for (int32_t i = 0; i < params->num_cuts; i++) moving->cuts[i] = params->cuts[i];
  return bring_matrices(chain, moving, error);
}

// The step `transform` on a GPU. It has no kernel: the kernel that reads the rows next moves them (arrival.cuh).
#include "kernels/cuda/steps/arrival.cuh"

enum vx_status cuda_step_transform(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  struct cuda_arrival *arrival = chain->arrival;
  if (arrival->transforms) CUDA_TRY(cuda_settle_rows(chain, error));
  CUDA_TRY(cuda_plan_moving(chain, &step->params.transform, &arrival->moving, error));
  arrival->transforms = true;
  arrival->number = chain->rows.number;
  return VX_OK;
}

// See suppress.cuh.
#include "kernels/cuda/boxes/suppress.cuh"

void cuda_take_suppression(struct cuda_suppression *suppression, struct cuda_arena *arena) {
  take(arena, &suppression->kept, cuda_ranked_room(suppression->segments, (uint32_t)suppression->nms.pre_max));
}

enum vx_status cuda_suppress(const struct cuda_run *run, const struct cuda_suppression *suppression,
                             struct vx_error *error) {
  (void)run, (void)suppression;
  return vx_refuse(error, "boxes are not suppressed on a GPU yet");
}

// See rank.cuh.
#include "kernels/cuda/boxes/rank.cuh"

void cuda_take_ranking(struct cuda_ranking *ranking, struct cuda_arena *arena) {
  take(arena, &ranking->ranked, cuda_ranked_room(ranking->segments, ranking->most));
}

enum vx_status cuda_rank(const struct cuda_run *run, const struct cuda_ranking *ranking, struct vx_error *error) {
  (void)run, (void)ranking;
  return vx_refuse(error, "boxes are not ranked on a GPU yet");
}

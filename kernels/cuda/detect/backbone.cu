// The backbone of a detection, and its weights, which a lane keeps. They are megabytes, so the lane compares the
// backbone's number and not the weights.
#include "kernels/cuda/detect/detect.cuh"

#include <string.h>

#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/sparse/sparse.h"

// Cannot overflow, since the weights are in memory.
static size_t weights_of(const struct vx_sparse_layer *layer) {
  return (size_t)vx_sparse_offsets(layer) * layer->inputs * layer->width;
}

// Fills `placed` with the backbone's layers, whose weights are in the arena.
static void place(const struct vx_sparse *backbone, struct cuda_arena *arena, struct vx_sparse *placed) {
  *placed = *backbone;
  for (int32_t i = 0; i < backbone->num_layers; i++) {
    float *weight, *bias;
    take(arena, &weight, weights_of(&backbone->layers[i]));
    take(arena, &bias, (uint64_t)backbone->layers[i].width);
    placed->layers[i].weight = weight;
    placed->layers[i].bias = bias;
  }
}

static enum vx_status copy_values(struct vx_lane *lane, const float *to, const float *from, size_t count,
                                  struct error *error) {
  CUDA_CALL(cudaMemcpyAsync((void *)to, from, count * sizeof *from, cudaMemcpyHostToDevice, lane->stream), error);
  return VX_OK;
}

static enum vx_status copy_weights(struct vx_lane *lane, const struct vx_sparse *backbone,
                                   const struct vx_sparse *placed, struct error *error) {
  for (int32_t i = 0; i < backbone->num_layers; i++) {
    const struct vx_sparse_layer *from = &backbone->layers[i], *to = &placed->layers[i];
    CUDA_TRY(copy_values(lane, to->weight, from->weight, weights_of(from), error));
    CUDA_TRY(copy_values(lane, to->bias, from->bias, (size_t)from->width, error));
  }
  return VX_OK;
}

static enum vx_status bring_weights(struct vx_lane *lane, const struct vx_detector *detector, struct vx_sparse *placed,
                                    struct error *error) {
  struct cuda_arena measured = {}, arena = {};
  bool kept = lane->backbone.memory && lane->backbone_number == detector->backbone_number;
  lane->backbone_number = 0;
  place(&detector->backbone, &measured, placed);
  CUDA_TRY(cuda_reserve(lane, &lane->backbone, measured.used, error));
  arena.memory = lane->backbone.memory;
  place(&detector->backbone, &arena, placed);
  if (!kept) CUDA_TRY(copy_weights(lane, &detector->backbone, placed, error));
  lane->backbone_number = detector->backbone_number;
  return VX_OK;
}

enum vx_status cuda_run_backbone(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct vx_sparse backbone;
  struct vx_sparse_rows rows = vx_detection_rows(detection);
  CUDA_TRY(vx_detection_check_time(detection, "the backbone ran", error));
  CUDA_TRY(bring_weights(lane, detection->detector, &backbone, error));
  detection->sparse.map = (float *)detection->features_at;
  enum vx_status status = cuda_sparse(lane, &backbone, &rows, &detection->sparse, error);
  memcpy(detection->job->counts.level_rows, detection->sparse.level_rows, sizeof detection->sparse.level_rows);
  return status;
}

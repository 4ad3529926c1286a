// The weights of an encoder on the device. The lane also keeps its last weights on the host, since a comparison delays
// the kernels less than a copy to the device.
#include "kernels/cuda/encode/encode.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/base/memory.cuh"

// Cannot overflow, since the weights are in memory.
static size_t weights_of(const struct vx_encoder_layer *layer) { return (size_t)layer->inputs * layer->width; }

static size_t all_weights(const struct vx_encoder *encoder) {
  size_t count = 0;
  for (int32_t i = 0; i < encoder->num_layers; i++)
    count += weights_of(&encoder->layers[i]) + (size_t)encoder->layers[i].width;
  return count;
}

static bool are_those(const struct vx_encoder *encoder, const float *weights) {
  for (int32_t i = 0; i < encoder->num_layers; i++) {
    const struct vx_encoder_layer *layer = &encoder->layers[i];
    size_t count = weights_of(layer), width = (size_t)layer->width;
    if (memcmp(layer->weight, weights, count * sizeof *weights) != 0 ||
        memcmp(layer->bias, weights + count, width * sizeof *weights) != 0)
      return false;
    weights += count + width;
  }
  return true;
}

static void copy(const struct vx_encoder *encoder, float *weights) {
  for (int32_t i = 0; i < encoder->num_layers; i++) {
    const struct vx_encoder_layer *layer = &encoder->layers[i];
    size_t count = weights_of(layer), width = (size_t)layer->width;
    memcpy(weights, layer->weight, count * sizeof *weights);
    memcpy(weights + count, layer->bias, width * sizeof *weights);
    weights += count + width;
  }
}

enum vx_status cuda_bring_weights(struct cuda_run *run, struct error *error) {
  struct vx_lane *lane = run->lane;
  const struct vx_encoder *encoder = &run->params->encoder;
  size_t count = all_weights(encoder);
  if (!lane->weights.memory || lane->num_weights != count || !are_those(encoder, lane->host_weights)) {
    lane->num_weights = 0;
    CUDA_TRY(cuda_reserve(lane, &lane->weights, count * sizeof(float), error));
    float *grown = (float *)realloc(lane->host_weights, count * sizeof(float));
    if (!grown) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for %zu weights", count);
    lane->host_weights = grown;
    copy(encoder, grown);
    CUDA_CALL(cudaMemcpyAsync(lane->weights.memory, grown, count * sizeof(float), cudaMemcpyHostToDevice, run->stream),
              error);
    lane->num_weights = count;
  }
  run->weights = (const float *)lane->weights.memory;
  return VX_OK;
}

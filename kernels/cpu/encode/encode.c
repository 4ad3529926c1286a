// The encoder of a pillar, layer by layer, a block of channels at a time: the sums of a block stay in registers during
// a pass over the rows. A channel has its own lane of a vector, so vectors change no sum.
#include "kernels/cpu/encode/encode.h"

#include <string.h>

// Vectors of every processor of the architecture: SSE2 or NEON. With four vectors, the sums, a product and the maxima
// of a block fit in 16 registers.
enum { LANES = 4, VECTORS = 4, BLOCK = LANES * VECTORS };

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

// One layer over the rows of a pillar. A row of the next layer is the layer's values, then the maxima, which are known
// after all rows.
struct pass {
  const struct vx_encoder_layer *layer;
  struct vx_stop *stop;
  const float *rows;  // [count,inputs]
  int32_t count;
  bool last;
  float *next;     // [count,2 * width]; unused by the last layer
  float *largest;  // [width]: the maxima, which are in the second half of row 0 of `next` unless `last`
};

static inline floats load(const float *from) {
  floats values;
  memcpy(&values, from, sizeof values);
  return values;
}

// In each lane. If `a` is NaN, the result is b.
static inline floats larger(floats a, floats b) {
  ints mask = a > b;
  return (floats)((mask & (ints)a) | (~mask & (ints)b));
}

// Computes channels `channel` to `channel + BLOCK - 1`.
static void encode_block(const struct pass *pass, int32_t channel) {
  const struct vx_encoder_layer *layer = pass->layer;
  const float *row = pass->rows;
  int64_t place = channel;  // index in `next`
  floats bias[VECTORS], best[VECTORS] = {{0}};
  memcpy(bias, layer->bias + channel, sizeof bias);
  VX_EACH_ROW(pass->stop, i, 0, pass->count) {
    const float *weight = layer->weight + channel;
    floats sum[VECTORS];
    memcpy(sum, bias, sizeof sum);
    for (int32_t c = 0; c < layer->inputs; c++, weight += layer->width)
      for (int64_t v = 0; v < VECTORS; v++) sum[v] += row[c] * load(weight + v * LANES);
    for (int64_t v = 0; v < VECTORS; v++) {
      sum[v] = larger(sum[v], (floats){0});
      best[v] = larger(sum[v], best[v]);
    }
    if (!pass->last) {
      memcpy(pass->next + place, sum, sizeof sum);
      place += 2 * (int64_t)layer->width;
    }
    row += layer->inputs;
  }
  memcpy(pass->largest + channel, best, sizeof best);
}

// Computes one channel of those that do not fill a block.
static void encode_channel(const struct pass *pass, int32_t channel) {
  const struct vx_encoder_layer *layer = pass->layer;
  const float *row = pass->rows;
  float best = 0;
  VX_EACH_ROW(pass->stop, i, 0, pass->count) {
    const float *weight = layer->weight + channel;
    float sum = layer->bias[channel];
    for (int32_t c = 0; c < layer->inputs; c++, weight += layer->width) sum += row[c] * *weight;
    sum = sum > 0 ? sum : 0;
    best = sum > best ? sum : best;
    if (!pass->last) pass->next[2 * i * layer->width + channel] = sum;
    row += layer->inputs;
  }
  pass->largest[channel] = best;
}

static void run(const struct pass *pass) {
  int32_t width = pass->layer->width, channel = 0;
  for (; width - channel >= BLOCK; channel += BLOCK) encode_block(pass, channel);
  for (; channel < width; channel++) encode_channel(pass, channel);
  if (!pass->next) return;
  VX_EACH_ROW(pass->stop, i, 1, pass->last ? 0 : pass->count)
    memcpy(pass->next + (2 * i + 1) * width, pass->largest, (size_t)width * sizeof(float));
}

int32_t cpu_encode_room(const struct vx_encoder *encoder) {
  int32_t most = 0;
  for (int32_t i = 0; i < encoder->num_layers; i++) {
    int32_t inputs = encoder->layers[i].inputs;
    most = inputs > most ? inputs : most;
  }
  return most;
}

void cpu_encode(const struct vx_encoder *encoder, struct vx_stop *stop, float *rows, float *other, int32_t count,
                float *values) {
  const struct vx_encoder_layer *layer = encoder->layers;
  for (int32_t i = 1; i < encoder->num_layers; i++, layer++) {
    run(&(struct pass){layer, stop, rows, count, false, other, other + layer->width});
    float *next = other;
    other = rows;
    rows = next;
  }
  run(&(struct pass){layer, stop, rows, count, true, NULL, values});
}

// The encoder of one pillar, a block of channels at a time: the sums of a block stay in registers while the pillar's
// points go by. Each channel has a lane of its own, so the vectors change no sum.
#include "kernels/cpu/encode/encode.h"

#include <string.h>

// The compiler's vectors: SSE2 on x86-64, NEON on arm64, where every processor has it. A block is four of them, so that
// its sums, a product and the largest so far fit in 16 registers.
enum { LANES = 4, VECTORS = 4, BLOCK = LANES * VECTORS };

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));

static inline floats load(const float *from) {
  floats values;
  memcpy(&values, from, sizeof values);
  return values;
}

// Lane by lane. A NaN in `a` gives b.
static inline floats larger(floats a, floats b) {
  ints mask = a > b;
  return (floats)((mask & (ints)a) | (~mask & (ints)b));
}

// The BLOCK channels from `channel` on.
static void encode_block(const struct vx_encoder *encoder, int32_t channel, const float *rows, int32_t count,
                         bool padded, float *values) {
  floats bias[VECTORS], best[VECTORS];
  for (int64_t v = 0; v < VECTORS; v++) {
    bias[v] = load(encoder->bias + channel + v * LANES);
    best[v] = padded ? larger(bias[v], (floats){0}) : (floats){0};
  }
  for (int32_t i = 0; i < count; i++, rows += encoder->channels) {
    const float *weight = encoder->weight + channel;
    floats sum[VECTORS];
    memcpy(sum, bias, sizeof sum);
    for (int32_t c = 0; c < encoder->channels; c++, weight += encoder->width) {
      for (int64_t v = 0; v < VECTORS; v++) {
        sum[v] += rows[c] * load(weight + v * LANES);
      }
    }
    for (int64_t v = 0; v < VECTORS; v++) {
      best[v] = larger(sum[v], best[v]);
    }
  }
  memcpy(values + channel, best, sizeof best);
}

// One channel, of those that fill no block.
static void encode_channel(const struct vx_encoder *encoder, int32_t channel, const float *rows, int32_t count,
                           bool padded, float *values) {
  float bias = encoder->bias[channel], best = padded && bias > 0 ? bias : 0;
  for (int32_t i = 0; i < count; i++, rows += encoder->channels) {
    const float *weight = encoder->weight + channel;
    float sum = bias;
    for (int32_t c = 0; c < encoder->channels; c++, weight += encoder->width) {
      sum += rows[c] * *weight;
    }
    best = sum > best ? sum : best;
  }
  values[channel] = best;
}

void cpu_encode(const struct vx_encoder *encoder, const float *rows, int32_t count, int32_t cap, float *values) {
  bool padded = count < cap;
  int32_t channel = 0;
  for (; encoder->width - channel >= BLOCK; channel += BLOCK) {
    encode_block(encoder, channel, rows, count, padded, values);
  }
  for (; channel < encoder->width; channel++) {
    encode_channel(encoder, channel, rows, count, padded, values);
  }
}

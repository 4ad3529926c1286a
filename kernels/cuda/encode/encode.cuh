// The encoder of a pillar (kernels/encode.h), run by a warp. Each lane has its own channels, so sums keep their order,
// and maxima need no exchange between lanes.
//
// A pillar's rows come in chunks in shared memory. A row takes `stride` floats, a multiple of 4. one_layer has its
// weights in registers and sees each row once. all_layers goes over the rows once per layer, and computes the earlier
// layers again. So only maxima are kept, for any number of rows.
#ifndef VOXELD_CUDA_ENCODE_CUH
#define VOXELD_CUDA_ENCODE_CUH

#include "kernels/cuda/base/run.cuh"
#include "kernels/encode.h"

// Called on the host, by the thread that has the lane. Fills run->weights with each layer's weight, then its bias.
// Enqueues a copy if they differ from those of the lane's last encoder, which the lane keeps.
VX_WARN_UNUSED enum vx_status cuda_bring_weights(struct cuda_run *run, struct error *error);

enum { ENCODER_LANES = 32, ENCODER_SLOTS = 2, ENCODER_TILE = 8 };

struct encoder_layer {
  const float *weight;  // [inputs, width]
  const float *bias;    // [width]
  uint32_t inputs, width;
  uint64_t largest;  // where its maxima are in the room
};

// The room of a warp: the maxima of each layer, then two tiles of rows between layers. All parts begin at multiples of
// 4 floats.
struct encoder_params {
  uint32_t num_layers;
  struct encoder_layer layers[VX_MAX_ENCODER_LAYERS];
  uint64_t hidden;  // floats of a row between layers
  uint64_t tiles;   // where the tiles are in the room
  uint64_t room;    // floats
};

static inline uint64_t encoder_round(uint64_t floats) { return (floats + 3) / 4 * 4; }

static inline struct encoder_params encoder_params_of(const struct vx_encoder *encoder, const float *weights) {
  struct encoder_params p = {};
  p.num_layers = (uint32_t)encoder->num_layers;
  for (uint32_t i = 0; i < p.num_layers; i++) {
    uint64_t inputs = (uint64_t)encoder->layers[i].inputs, width = (uint64_t)encoder->layers[i].width;
    p.layers[i] = {weights, weights + inputs * width, (uint32_t)inputs, (uint32_t)width, p.tiles};
    weights += (inputs + 1) * width;
    p.tiles += encoder_round(width);
    p.hidden = i + 1 < p.num_layers && width > p.hidden ? encoder_round(width) : p.hidden;
  }
  p.room = p.tiles + 2 * ENCODER_TILE * p.hidden;
  return p;
}

// `largest` is at least +0, so a value that is not above it is ignored, including -0 and NaN.
static __device__ inline float encoder_larger(float value, float largest) { return value > largest ? value : largest; }

// ---- one layer ------------------------------------------------------------------------------------------------------

// For encoders with up to two channels per lane.
template <int inputs> struct one_layer {
  enum { BLOCKS = 4 };  // blocks of 256 threads per multiprocessor, limited by registers
  float weight[inputs][ENCODER_SLOTS], bias[ENCODER_SLOTS], largest[ENCODER_SLOTS];

  __device__ void prepare(const struct encoder_params &p, float *) {
    const struct encoder_layer &layer = p.layers[0];
#pragma unroll
    for (int slot = 0; slot < ENCODER_SLOTS; slot++) {
      uint32_t channel = threadIdx.x % ENCODER_LANES + slot * ENCODER_LANES;
      bool here = channel < layer.width;
      bias[slot] = here ? layer.bias[channel] : 0.0f;
#pragma unroll
      for (int c = 0; c < inputs; c++) weight[c][slot] = here ? layer.weight[c * layer.width + channel] : 0.0f;
    }
  }

  __device__ void begin() {
#pragma unroll
    for (int slot = 0; slot < ENCODER_SLOTS; slot++) largest[slot] = 0.0f;
  }

  __device__ uint32_t rounds() const { return 1; }

  __device__ void take(uint32_t, const float *rows, uint32_t stride, uint32_t count) {
    constexpr int PARTS = (inputs + 3) / 4;
#pragma unroll 2
    for (uint32_t i = 0; i < count; i++, rows += stride) {
      float row[4 * PARTS], sum[ENCODER_SLOTS];
#pragma unroll
      for (int part = 0; part < PARTS; part++) {
        float4 four = ((const float4 *)rows)[part];
        row[4 * part] = four.x, row[4 * part + 1] = four.y, row[4 * part + 2] = four.z, row[4 * part + 3] = four.w;
      }
#pragma unroll
      for (int slot = 0; slot < ENCODER_SLOTS; slot++) {
        sum[slot] = bias[slot];
#pragma unroll
        for (int c = 0; c < inputs; c++) sum[slot] += row[c] * weight[c][slot];
        largest[slot] = encoder_larger(sum[slot], largest[slot]);
      }
    }
  }

  // The pillar's feature of channel lane + slot * ENCODER_LANES.
  __device__ float value(uint32_t slot) const { return slot == 0 ? largest[0] : largest[1]; }
};

// ---- several layers, or wide ones -----------------------------------------------------------------------------------

// Input rows of a layer. A row has its own first `values` inputs; `common` has the others, for all rows.
struct encoder_tile {
  const float *rows;
  uint64_t stride;
  uint32_t count, values;
  const float *common;
};

struct all_layers {
  enum { BLOCKS = 2 };
  const struct encoder_params *p;
  float *room;

  __device__ void prepare(const struct encoder_params &params, float *memory) { p = &params, room = memory; }

  __device__ void begin() {
    __syncwarp();
    for (uint64_t i = threadIdx.x % ENCODER_LANES; i < p->tiles; i += ENCODER_LANES) room[i] = 0.0f;
    __syncwarp();
  }

  __device__ uint32_t rounds() const { return p->num_layers; }

  // Adds the products with a channel's weights, which are `width` floats apart. A tile with fewer rows repeats its last
  // row, which does not change the maximum.
  static __device__ void add(float (&sum)[ENCODER_TILE], const struct encoder_tile &tile, const float *weight,
                             uint32_t inputs, uint64_t width) {
    const float *rows[ENCODER_TILE];
    uint32_t c = 0;
#pragma unroll
    for (uint32_t r = 0; r < ENCODER_TILE; r++) rows[r] = tile.rows + min(r, tile.count - 1) * tile.stride;
    for (; c + 4 <= tile.values; c += 4, weight += 4 * width) {
      float w[4] = {weight[0], weight[width], weight[2 * width], weight[3 * width]};
#pragma unroll
      for (int r = 0; r < ENCODER_TILE; r++) {
        float4 four = *(const float4 *)(rows[r] + c);
        sum[r] += four.x * w[0];
        sum[r] += four.y * w[1];
        sum[r] += four.z * w[2];
        sum[r] += four.w * w[3];
      }
    }
    for (; c < tile.values; c++, weight += width) {
#pragma unroll
      for (int r = 0; r < ENCODER_TILE; r++) sum[r] += rows[r][c] * *weight;
    }
    for (; c < inputs; c++, weight += width) {
      float value = tile.common[c - tile.values];
#pragma unroll
      for (int r = 0; r < ENCODER_TILE; r++) sum[r] += value * *weight;
    }
  }

  // Runs one layer over a tile. The values go to `next` if another layer follows, else to the maxima.
  __device__ void run(const struct encoder_layer &layer, const struct encoder_tile &tile, float *next) {
    for (uint32_t channel = threadIdx.x % ENCODER_LANES; channel < layer.width; channel += ENCODER_LANES) {
      float sum[ENCODER_TILE], *largest = room + layer.largest + channel, best = next ? 0.0f : *largest;
#pragma unroll
      for (int r = 0; r < ENCODER_TILE; r++) sum[r] = layer.bias[channel];
      add(sum, tile, layer.weight + channel, layer.inputs, layer.width);
#pragma unroll
      for (int r = 0; r < ENCODER_TILE; r++) {
        best = encoder_larger(sum[r], best);
        if (next) next[r * p->hidden + channel] = encoder_larger(sum[r], 0.0f);
      }
      if (!next) *largest = best;
    }
    __syncwarp();
  }

  // Round k finds the maxima of layer k.
  __device__ void take(uint32_t round, const float *rows, uint32_t stride, uint32_t count) {
    for (uint32_t begin = 0; begin < count; begin += ENCODER_TILE) {
      struct encoder_tile tile = {rows + begin * stride, stride, min(count - begin, (uint32_t)ENCODER_TILE),
                                  p->layers[0].inputs, NULL};
      for (uint32_t k = 0; k <= round; k++) {
        float *next = k == round ? NULL : room + p->tiles + k % 2 * ENCODER_TILE * p->hidden;
        run(p->layers[k], tile, next);
        tile = {next, p->hidden, tile.count, p->layers[k].width, room + p->layers[k].largest};
      }
    }
  }

  __device__ float value(uint32_t slot) const {
    return room[p->layers[p->num_layers - 1].largest + threadIdx.x % ENCODER_LANES + slot * ENCODER_LANES];
  }
};

#endif

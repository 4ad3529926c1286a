// One layer with features and weights of float16, on tensor cores; see sparse.cuh and kernels/sparse.h.
//
// A warp has a tile of rows and some channels. It goes over offsets and input channels in steps of 16 or 32, always in
// the same order, while copies bring the next steps to shared memory. A lane reads only what it has brought itself, so
// warps do not wait for each other. Loads into registers would be slower: a warp that waits for one waits for all its
// loads.
//
// Lane l of a warp has:
//   rows             l / 4 + 8 * i
//   input channels   of each step, step / 4 channels from l % 4 * step / 4 on
//   output channels  of each 16 channels, 4 from l % 4 * 4 on
// The weights are packed so that each lane loads its part of a product of 16 x 16 matrices as 16 bytes.
#include "kernels/cuda/sparse/sparse.cuh"

enum {
  BLOCK = 16,      // rows, channels in and channels out of a product
  WARPS = 2,       // of a thread block; each has a tile of its own
  HALF_TILES = 2,  // products of a tile, one below the other
};

// ---- weights --------------------------------------------------------------------------------------------------------

static __device__ uint32_t pack_two(float low, float high) {
  return sparse_to_half(low) | (uint32_t)sparse_to_half(high) << 16;
}

static __device__ float weight_at(const struct sparse_packed &layer, int32_t k, int32_t input, int32_t channel) {
  return input < layer.inputs ? layer.weight[((int64_t)k * layer.inputs + input) * layer.width + channel] : 0.0f;
}

// A thread packs the 16 bytes that a lane loads at once: [offset, step, product of the step, group of 16 output
// channels, lane].
static __global__ void __launch_bounds__(SPARSE_BLOCK) pack_kernel(struct sparse_packing packing) {
  cuda_wait();
  uint32_t at = blockIdx.x * SPARSE_BLOCK + threadIdx.x;
  if (at >= packing.first[packing.count]) return;
  int32_t number = 0;
  while (at >= packing.first[number + 1]) number++;
  const struct sparse_packed &layer = packing.layers[number];
  uint32_t rest = at - packing.first[number], lane = rest % 32;
  uint32_t columns = layer.width / BLOCK, products = sparse_packed_inputs(layer.inputs) / BLOCK;
  int32_t column = rest / 32 % columns, product = rest / 32 / columns % products, k = rest / 32 / columns / products;
  int32_t step = sparse_half_step(layer.inputs), parts = step / BLOCK;
  int32_t input = product / parts * step + (lane % 4) * step / 4 + product % parts * 4;
  int32_t channel = column * BLOCK + lane / 8 * 4 + lane / 4 % 2;
  uint32_t packed[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    packed[i] = pack_two(weight_at(layer, k, input + i % 2 * 2, channel + i / 2 * 2),
                         weight_at(layer, k, input + i % 2 * 2 + 1, channel + i / 2 * 2));
  layer.packed[rest] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
}

enum vx_status sparse_pack(const struct cuda_run *run, const struct sparse_packing &packing, struct error *error) {
  return cuda_launch("pack_kernel", pack_kernel, cuda_blocks(packing.first[packing.count], SPARSE_BLOCK), SPARSE_BLOCK,
                     0, run, error, packing);
}

// ---- products -------------------------------------------------------------------------------------------------------

// Adds the product of 16 x 16 values and 16 x 8 weights.
static __device__ void multiply(float (&sums)[4], const uint32_t (&values)[4], uint32_t low, uint32_t high) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(values[0]), "r"(values[1]), "r"(values[2]), "r"(values[3]), "r"(low), "r"(high));
#elif __CUDA_ARCH__ >= 750
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(values[0]), "r"(values[1]), "r"(low));
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(values[2]), "r"(values[3]), "r"(high));
#else
  uint32_t lane = threadIdx.x % 32;
  for (int i = 0; i < 4; i++) {
    for (uint32_t part = 0; part < 4; part++) {
      for (int half = 0; half < 2; half++) {
        uint32_t value = __shfl_sync(~0u, values[half * 2 + i / 2], lane / 4 * 4 + part);
        uint32_t weight = __shfl_sync(~0u, half == 0 ? low : high, (lane % 4 * 2 + i % 2) * 4 + part);
        sums[i] = __fmaf_rn(vx_half_to_float(value & 0xFFFF), vx_half_to_float(weight & 0xFFFF), sums[i]);
        sums[i] = __fmaf_rn(vx_half_to_float(value >> 16), vx_half_to_float(weight >> 16), sums[i]);
      }
    }
  }
#endif
}

struct stride {
  uint32_t left;    // offsets from the current one on
  int32_t channel;  // first channel of the step

  __device__ bool ends() const { return left == 0; }
  __device__ int32_t offset() const { return __ffs(left) - 1; }
  __device__ void advance(const struct sparse_layer &layer, int32_t step) {
    channel += step;
    if (channel < layer.inputs) return;
    channel = 0;
    left &= left - 1;
  }
};

// The inputs of a tile, in shared memory.
typedef int32_t tile_inputs[VX_MAX_SPARSE_OFFSETS][SPARSE_TILE];

// A warp brings the inputs of its tile at once: loads at each offset would each wait for the second-level cache.
static __device__ void bring_inputs(const int32_t *from, uint32_t offsets, tile_inputs &to) {
  enum { EACH = 4, OF_OFFSET = SPARSE_TILE / EACH };  // inputs per copy, copies per offset
  for (int32_t i = threadIdx.x % 32; i < VX_MAX_SPARSE_OFFSETS * OF_OFFSET; i += 32)
    if ((offsets >> i / OF_OFFSET & 1) != 0) cuda_copy_ahead(&to[0][0] + i * EACH, from + i * EACH, true);
  cuda_end_copies();
  cuda_await_copies<0>();
  __syncwarp();
}

// What a warp has of a step: the values of 4 rows of each lane, and the weights.
template <int STEP, int COLUMNS> struct stage {
  enum { VALUE_BYTES = STEP / 4 * 2, WORDS = VALUE_BYTES / 4 };  // per row and lane
  alignas(16) uint32_t values[2 * HALF_TILES][32][WORDS];
  uint4 factors[STEP / BLOCK][COLUMNS / BLOCK][32];
};

// Begins to bring a step. `weight`: the lane's first weights.
template <int STEP, int COLUMNS>
static __device__ void bring(const struct sparse_layer &layer, const struct stride &at, const tile_inputs &inputs,
                             const uint4 *weight, struct stage<STEP, COLUMNS> &to) {
  uint32_t lane = threadIdx.x % 32, columns = layer.width / BLOCK;
  const uint16_t *in = (const uint16_t *)layer.in + at.channel + lane % 4 * (STEP / 4);
  int32_t rows[2 * HALF_TILES];
#pragma unroll
  for (int i = 0; i < 2 * HALF_TILES; i++) rows[i] = inputs[at.offset()][lane / 4 + 8 * i];
#pragma unroll
  for (int i = 0; i < 2 * HALF_TILES; i++) {
    bool is_there = rows[i] != SPARSE_NO_INPUT;
    const uint16_t *from = in + (uint64_t)(is_there ? (uint32_t)rows[i] : 0) * (uint32_t)layer.pitch;
    cuda_copy_cached<stage<STEP, COLUMNS>::VALUE_BYTES>(to.values[i][lane], from, is_there);
  }
  weight += (at.offset() * (layer.pitch / BLOCK) + at.channel / BLOCK) * columns * 32;
#pragma unroll
  for (int part = 0; part < STEP / BLOCK; part++)
#pragma unroll
    for (int c = 0; c < COLUMNS / BLOCK; c++)
      cuda_copy_cached<16>(&to.factors[part][c][lane], weight + (part * columns + c) * 32, true);
}

template <int WORDS> static __device__ void load_words(const uint32_t (&from)[WORDS], uint32_t (&to)[WORDS]) {
  if (WORDS == 4) {
    uint4 four = *(const uint4 *)from;
    to[0] = four.x, to[1] = four.y, to[WORDS - 2] = four.z, to[WORDS - 1] = four.w;
  } else {
    uint2 two = *(const uint2 *)from;
    to[0] = two.x, to[1] = two.y;
  }
}

template <int STEP, int COLUMNS>
static __device__ void compute(const struct stage<STEP, COLUMNS> &stage, float (&sums)[HALF_TILES][COLUMNS / 8][4]) {
  uint32_t lane = threadIdx.x % 32, rows[2 * HALF_TILES][STEP / 8];
#pragma unroll
  for (int i = 0; i < 2 * HALF_TILES; i++) load_words(stage.values[i][lane], rows[i]);
#pragma unroll
  for (int part = 0; part < STEP / BLOCK; part++) {
#pragma unroll
    for (int c = 0; c < COLUMNS / BLOCK; c++) {
      uint4 factors = stage.factors[part][c][lane];
#pragma unroll
      for (int i = 0; i < HALF_TILES; i++) {
        const uint32_t values[4] = {rows[2 * i][2 * part], rows[2 * i + 1][2 * part], rows[2 * i][2 * part + 1],
                                    rows[2 * i + 1][2 * part + 1]};
        multiply(sums[i][2 * c], values, factors.x, factors.y);
        multiply(sums[i][2 * c + 1], values, factors.z, factors.w);
      }
    }
  }
}

static __device__ float end_sum(float sum) { return sum > 0.0f ? sum : 0.0f; }

// Writes 4 values of a row: max(sum + added, 0), or max(sum, 0) if the layer adds nothing.
static __device__ void end_row(const struct sparse_layer &layer, uint32_t row, int32_t column, float4 sum) {
  uint64_t at = (uint64_t)row * layer.width + column;
  if (layer.added) {
    uint2 added = *(const uint2 *)((const uint16_t *)layer.added + at);
    sum.x += sparse_from_half(added.x & 0xFFFF), sum.y += sparse_from_half(added.x >> 16);
    sum.z += sparse_from_half(added.y & 0xFFFF), sum.w += sparse_from_half(added.y >> 16);
  }
  sum = make_float4(end_sum(sum.x), end_sum(sum.y), end_sum(sum.z), end_sum(sum.w));
  if (layer.is_last)
    *(float4 *)(layer.out + at) = sum;
  else
    *(uint2 *)((uint16_t *)layer.out + at) = make_uint2(pack_two(sum.x, sum.y), pack_two(sum.z, sum.w));
}

// What a warp has in shared memory. DEPTH: steps.
template <int STEP, int COLUMNS, int DEPTH> struct half_block {
  struct stage<STEP, COLUMNS> stages[DEPTH];
  alignas(16) tile_inputs inputs;
};

// A thread block has WARPS tiles. Its warps share weights, in the first-level cache.
template <int STEP, int COLUMNS, int DEPTH>
static __global__ void __launch_bounds__(32 * WARPS) half_kernel(struct sparse_table table, struct sparse_layer layer) {
  __shared__ struct half_block<STEP, COLUMNS, DEPTH> blocks[WARPS];
  struct half_block<STEP, COLUMNS, DEPTH> &shared = blocks[threadIdx.x / 32];
  uint2 turn = __ldcg(&table.turns[blockIdx.x / layer.columns * WARPS + threadIdx.x / 32]);
  uint32_t tile = turn.x, offsets = turn.y, lane = threadIdx.x % 32;
  int32_t first = (int32_t)(blockIdx.x % layer.columns) * COLUMNS;
  sparse_clear_part(layer);
  if (offsets == 0) return cuda_wait_alone();
  bring_inputs(table.inputs + (uint64_t)tile * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE, offsets, shared.inputs);
  const uint4 *weight = (const uint4 *)layer.weight + first / BLOCK * 32 + lane;
  struct stride next = {offsets, 0};
  int32_t left = __popc(next.left) * (layer.pitch / STEP);  // steps to compute
  float sums[HALF_TILES][COLUMNS / 8][4];
#pragma unroll
  for (int c = 0; c < COLUMNS / BLOCK; c++) {
    float4 bias = __ldcg((const float4 *)(layer.bias + first + c * BLOCK + lane % 4 * 4));
#pragma unroll
    for (int i = 0; i < HALF_TILES; i++) {
      sums[i][2 * c][0] = sums[i][2 * c][2] = bias.x, sums[i][2 * c][1] = sums[i][2 * c][3] = bias.y;
      sums[i][2 * c + 1][0] = sums[i][2 * c + 1][2] = bias.z, sums[i][2 * c + 1][1] = sums[i][2 * c + 1][3] = bias.w;
    }
  }
  cuda_wait_alone();
  for (int i = 0; i < DEPTH - 1; i++) {
    if (!next.ends()) bring<STEP, COLUMNS>(layer, next, shared.inputs, weight, shared.stages[i]);
    if (!next.ends()) next.advance(layer, STEP);
    cuda_end_copies();
  }
  for (int slot = 0; left > 0; left--, slot = slot + 1 == DEPTH ? 0 : slot + 1) {
    if (!next.ends()) {
      bring<STEP, COLUMNS>(layer, next, shared.inputs, weight, shared.stages[slot == 0 ? DEPTH - 1 : slot - 1]);
      next.advance(layer, STEP);
    }
    cuda_end_copies();
    cuda_await_copies<DEPTH - 1>();
    compute<STEP, COLUMNS>(shared.stages[slot], sums);
  }
  cuda_let_next();
#pragma unroll
  for (int i = 0; i < 2 * HALF_TILES; i++) {
    uint32_t to = table.order[tile * SPARSE_TILE + lane / 4 + 8 * i];
    if (to == UINT32_MAX) continue;
#pragma unroll
    for (int c = 0; c < COLUMNS / BLOCK; c++) {
      const float *low = &sums[i / 2][2 * c][i % 2 * 2], *high = &sums[i / 2][2 * c + 1][i % 2 * 2];
      end_row(layer, to, first + c * BLOCK + lane % 4 * 4, make_float4(low[0], low[1], high[0], high[1]));
    }
  }
}

template <int STEP, int COLUMNS, int DEPTH>
static enum vx_status launch(const struct cuda_run *run, const struct sparse_table &table, struct sparse_layer layer,
                             struct error *error) {
  layer.columns = layer.width / COLUMNS;
  uint64_t blocks = (uint64_t)table.num_tiles / WARPS * layer.columns;
  layer.each = (layer.words + blocks - 1) / blocks;
  return cuda_launch("half_kernel", half_kernel<STEP, COLUMNS, DEPTH>, blocks, 32 * WARPS, 0, run, error, table, layer);
}

// Below this number of warps, the device has idle parts. With fewer channels for each warp there are more warps.
enum { WARPS_OF_MULTIPROCESSOR = 8 };

template <int STEP>
static enum vx_status convolve(const struct cuda_run *run, const struct sparse_table &table,
                               const struct sparse_layer &layer, struct error *error) {
  uint64_t least = (uint64_t)run->lane->device->multiprocessors * WARPS_OF_MULTIPROCESSOR;
  if (layer.width % 64 == 0 && (uint64_t)table.num_tiles * layer.width / 64 >= least)
    return launch<STEP, 64, 3>(run, table, layer, error);
  if (layer.width % 32 == 0 && (uint64_t)table.num_tiles * layer.width / 32 >= least)
    return launch<STEP, 32, 4>(run, table, layer, error);
  return launch<STEP, 16, 4>(run, table, layer, error);
}

enum vx_status sparse_convolve_half(const struct cuda_run *run, const struct sparse_table &table,
                                    const struct sparse_layer &layer, struct error *error) {
  return sparse_half_step(layer.inputs) == 32 ? convolve<32>(run, table, layer, error)
                                              : convolve<16>(run, table, layer, error);
}

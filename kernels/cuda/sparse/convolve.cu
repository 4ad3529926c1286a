// One layer: sums of a block of rows and channels; see sparse.cuh and kernels/sparse.h.
//
// A block has a tile of rows. It goes over offsets and input channels in stages, while copies bring the next stages to
// shared memory. A thread has the sums of 4 channels of some rows. Missing inputs are zeros.
#include "kernels/cuda/sparse/sparse.cuh"

enum { GROUP = 4 };  // channels of a thread, and channels that are brought at once

// COLUMNS: channels of a block. EACH: rows of a thread. STAGE: channels of a stage. DEPTH: stages in shared memory.
template <int BLOCK_COLUMNS, int THREAD_ROWS, int STAGE_CHANNELS, int STAGES> struct shape {
  enum : int {
    ROWS = SPARSE_TILE,
    COLUMNS = BLOCK_COLUMNS,
    EACH = THREAD_ROWS,
    STAGE = STAGE_CHANNELS,
    DEPTH = STAGES,
    PITCH = STAGE + GROUP,  // floats from row to row: the rows of a warp are then in different banks
    THREADS = ROWS / EACH * (COLUMNS / GROUP),
    VALUES = ROWS * STAGE / GROUP / THREADS,  // groups of input values that a thread brings
    FACTORS = STAGE * COLUMNS / GROUP / THREADS,
    LANES = COLUMNS < 32 ? COLUMNS / GROUP : 8,  // lanes of a warp side by side along the channels
    APART = 32 / LANES,                          // rows between the rows of a thread
  };
  static_assert(VALUES * GROUP * THREADS == ROWS * STAGE && FACTORS * GROUP * THREADS == STAGE * COLUMNS,
                "threads bring equal parts");
};

template <typename type> struct block {
  alignas(16) float values[type::DEPTH][type::ROWS][type::PITCH];
  alignas(16) float factors[type::DEPTH][type::STAGE][type::COLUMNS];
  uint32_t inputs[VX_MAX_SPARSE_OFFSETS][type::ROWS];  // where an input's values begin, in groups
};

struct walk {
  uint32_t left;    // offsets from the current one on
  int32_t channel;  // first channel of the stage

  __device__ bool ends() const { return left == 0; }
  __device__ int32_t offset() const { return __ffs(left) - 1; }
  __device__ void advance(int32_t inputs, int32_t stage) {
    channel += stage;
    if (channel < inputs) return;
    channel = 0;
    left &= left - 1;
  }
};

enum : uint32_t { NOWHERE = UINT32_MAX };

// Begins to bring a stage. `is_whole`: the layer's inputs fill every stage.
template <typename type, bool is_whole>
static __device__ void bring_stage(const struct sparse_layer &layer, struct block<type> &shared,
                                   const struct walk &walk, const float *weight, int slot) {
  constexpr int VALUE_GROUPS = type::STAGE / GROUP, VALUE_ROWS = type::THREADS / VALUE_GROUPS;
  constexpr int FACTOR_GROUPS = type::COLUMNS / GROUP, FACTOR_ROWS = type::THREADS / FACTOR_GROUPS;
  int32_t k = walk.offset(), row = threadIdx.x / VALUE_GROUPS, group = threadIdx.x % VALUE_GROUPS;
  const uint32_t *inputs = &shared.inputs[k][row];
  const float4 *in = (const float4 *)layer.in + walk.channel / GROUP + group;
  bool has_channels = is_whole || walk.channel + group * GROUP < layer.pitch;
  float *to = &shared.values[slot][row][group * GROUP];
  uint32_t begins[type::VALUES];
#pragma unroll
  for (int i = 0; i < type::VALUES; i++) begins[i] = inputs[i * VALUE_ROWS];
#pragma unroll
  for (int i = 0; i < type::VALUES; i++) {
    bool is_there = begins[i] != NOWHERE && has_channels;
    cuda_copy_ahead(to + i * VALUE_ROWS * type::PITCH, in + (is_there ? begins[i] : 0), is_there);
  }
  row = threadIdx.x / FACTOR_GROUPS, group = threadIdx.x % FACTOR_GROUPS;
  const float *from = weight + (k * layer.inputs + walk.channel) * layer.width;
  to = &shared.factors[slot][row][group * GROUP];
#pragma unroll
  for (int i = 0; i < type::FACTORS; i++) {
    bool is_there = is_whole || walk.channel + row + i * FACTOR_ROWS < layer.inputs;
    cuda_copy_ahead(to + i * FACTOR_ROWS * type::COLUMNS, is_there ? from + i * FACTOR_ROWS * layer.width : weight,
                    is_there);
  }
}

template <typename type, bool is_whole>
static __device__ void compute_stage(const struct block<type> &shared, int slot, int32_t channels, int32_t row,
                                     int32_t column, float (&sums)[type::EACH][GROUP]) {
#pragma unroll
  for (int c = 0; c < type::STAGE; c += GROUP) {
    if (!is_whole && c >= channels) break;
    float values[type::EACH][GROUP];
#pragma unroll
    for (int r = 0; r < type::EACH; r++) {
      float4 value = *(const float4 *)&shared.values[slot][row + r * type::APART][c];
      values[r][0] = value.x, values[r][1] = value.y, values[r][2] = value.z, values[r][3] = value.w;
    }
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
      float4 factor = *(const float4 *)&shared.factors[slot][c + i][column];
#pragma unroll
      for (int r = 0; r < type::EACH; r++) {
        sums[r][0] = __fmaf_rn(values[r][i], factor.x, sums[r][0]);
        sums[r][1] = __fmaf_rn(values[r][i], factor.y, sums[r][1]);
        sums[r][2] = __fmaf_rn(values[r][i], factor.z, sums[r][2]);
        sums[r][3] = __fmaf_rn(values[r][i], factor.w, sums[r][3]);
      }
    }
  }
}

static __device__ float end_sum(float sum) { return sum > 0.0f ? sum : 0.0f; }

static __device__ void end_row(const struct sparse_layer &layer, uint32_t row, int32_t column,
                               const float (&sums)[GROUP]) {
  uint64_t at = (uint64_t)row * layer.width + column;
  float4 sum = make_float4(sums[0], sums[1], sums[2], sums[3]);
  if (layer.added) {
    float4 added = *(const float4 *)(layer.added + at);
    sum = make_float4(sum.x + added.x, sum.y + added.y, sum.z + added.z, sum.w + added.w);
  }
  *(float4 *)(layer.out + at) = make_float4(end_sum(sum.x), end_sum(sum.y), end_sum(sum.z), end_sum(sum.w));
}

// The thread's first row and channel in the block. A warp's 128-bit load from shared memory takes more than two passes,
// unless lanes i and i ^ 1, or i and i ^ 2, read the same address. So bit 1 of the lane chooses the row, and bits 0 and
// 2 choose channels.
template <typename type> static __device__ void find_place(int32_t *row, int32_t *column) {
  int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int BESIDE = type::COLUMNS / GROUP / type::LANES;  // warps side by side
  if (type::LANES == 8) {
    *column = GROUP * (8 * (warp % BESIDE) + ((lane & 1) | (lane >> 1 & 6)));
    *row = type::APART * type::EACH * (warp / BESIDE) + ((lane >> 1 & 1) | (lane >> 3 & 2));
  } else {
    *column = GROUP * ((lane & 1) | (lane >> 1 & 2));
    *row = type::APART * type::EACH * warp + ((lane >> 1 & 1) | (lane >> 2 & 6));
  }
}

template <typename type>
static __device__ void load_inputs(const struct sparse_table &table, const struct sparse_layer &layer, uint32_t tile,
                                   uint32_t offsets, struct block<type> &shared) {
  const int32_t *inputs = table.inputs + (uint64_t)tile * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE;
#pragma unroll 4
  for (int32_t i = threadIdx.x; i < VX_MAX_SPARSE_OFFSETS * SPARSE_TILE; i += type::THREADS) {
    int32_t input = (offsets >> i / SPARSE_TILE & 1) != 0 ? __ldcg(&inputs[i]) : SPARSE_NO_INPUT;
    shared.inputs[i / SPARSE_TILE][i % SPARSE_TILE] =
        input == SPARSE_NO_INPUT ? NOWHERE : (uint32_t)input * (uint32_t)(layer.pitch / GROUP);
  }
}

template <typename type, bool is_whole>
static __global__ void __launch_bounds__(type::THREADS)
    convolve_kernel(struct sparse_table table, struct sparse_layer layer) {
  __shared__ struct block<type> shared;
  uint2 turn = __ldcg(&table.turns[blockIdx.x / layer.columns]);
  uint32_t tile = turn.x, offsets = turn.y;
  int32_t first = (int32_t)(blockIdx.x % layer.columns) * type::COLUMNS, row, column;
  constexpr int GROUPS = type::COLUMNS / GROUP;
  const float *weight =
      layer.weight + first + threadIdx.x / GROUPS * layer.width + threadIdx.x % GROUPS * GROUP;  // first of the thread
  sparse_clear_part(layer);
  if (offsets == 0) return cuda_wait_alone();
  struct walk walk = {offsets, 0}, next = walk;
  find_place<type>(&row, &column);
  load_inputs<type>(table, layer, tile, offsets, shared);
  float sums[type::EACH][GROUP];
  float4 bias = __ldcg((const float4 *)(layer.bias + first + column));
#pragma unroll
  for (int r = 0; r < type::EACH; r++)
    sums[r][0] = bias.x, sums[r][1] = bias.y, sums[r][2] = bias.z, sums[r][3] = bias.w;
  cuda_wait_alone();
  __syncthreads();
  for (int i = 0; i < type::DEPTH - 1; i++) {
    if (!next.ends()) bring_stage<type, is_whole>(layer, shared, next, weight, i);
    if (!next.ends()) next.advance(layer.inputs, type::STAGE);
    cuda_end_copies();
  }
  for (int slot = 0; !walk.ends(); slot = slot + 1 == type::DEPTH ? 0 : slot + 1) {
    cuda_await_copies<type::DEPTH - 2>();
    __syncthreads();
    if (!next.ends()) {
      bring_stage<type, is_whole>(layer, shared, next, weight, slot == 0 ? type::DEPTH - 1 : slot - 1);
      next.advance(layer.inputs, type::STAGE);
    }
    cuda_end_copies();
    compute_stage<type, is_whole>(shared, slot, layer.inputs - walk.channel, row, column, sums);
    walk.advance(layer.inputs, type::STAGE);
  }
  cuda_let_next();
#pragma unroll
  for (int r = 0; r < type::EACH; r++) {
    uint32_t to = table.order[tile * SPARSE_TILE + row + r * type::APART];
    if (to != UINT32_MAX) end_row(layer, to, first + column, sums[r]);
  }
}

template <typename type>
static enum vx_status launch(const struct cuda_run *run, const struct sparse_table &table, struct sparse_layer layer,
                             struct error *error) {
  layer.columns = layer.width / type::COLUMNS;
  uint64_t blocks = (uint64_t)table.num_tiles * layer.columns;
  layer.each = (layer.words + blocks - 1) / blocks;
  bool is_whole = layer.inputs % type::STAGE == 0;
  return cuda_launch("convolve_kernel", is_whole ? convolve_kernel<type, true> : convolve_kernel<type, false>, blocks,
                     type::THREADS, 0, run, error, table, layer);
}

enum vx_status sparse_convolve(const struct cuda_run *run, const struct sparse_table &table,
                               const struct sparse_layer &layer, struct error *error) {
  if (layer.width % 64 == 0) return launch<shape<64, 4, 32, 3>>(run, table, layer, error);
  if (layer.width % 32 == 0 && layer.inputs > 16) return launch<shape<32, 4, 32, 3>>(run, table, layer, error);
  return launch<shape<16, 2, 16, 4>>(run, table, layer, error);
}

// One layer: sums of a tile of 32 rows and a block of channels; see sparse.cuh and kernels/sparse.h.
//
// A block goes over the offsets of its tile and over the channels of the inputs, in stages of STAGE channels. While it
// computes a stage, the next one is on its way to registers. A thread has the sums of 4 rows and 4 channels, each a
// chain of its own. Rows without an input at an offset compute with zeros.
#include "kernels/cuda/sparse/sparse.cuh"

enum { STAGE = 16, ROWS = SPARSE_TILE, PITCH = ROWS + 4, GROUP = 4 };

// Where a walk over the offsets and channels is.
struct walk {
  uint32_t left;    // offsets from the current one on
  int32_t channel;  // first channel of the stage

  __device__ bool ends() const { return left == 0; }
  __device__ int32_t offset() const { return __ffs(left) - 1; }
  __device__ void advance(int32_t inputs) {
    channel += STAGE;
    if (channel < inputs) return;
    channel = 0;
    left &= left - 1;
  }
};

// COLUMNS: channels of a block.
template <int COLUMNS> struct tile {
  enum : int {
    THREADS = ROWS / GROUP * (COLUMNS / GROUP),
    VALUES = ROWS * STAGE / GROUP / THREADS,  // groups of input values that a thread brings
    FACTORS = STAGE * COLUMNS / GROUP / THREADS,
  };
  float values[2][STAGE][PITCH];
  float factors[2][STAGE][COLUMNS];
  int32_t inputs[VX_MAX_SPARSE_OFFSETS][ROWS];
};

// A thread's part of a stage, in registers on its way to shared memory.
template <int COLUMNS> struct brought { float4 values[tile<COLUMNS>::VALUES], factors[tile<COLUMNS>::FACTORS]; };

static __device__ float4 bring_values(const struct sparse_layer &layer, int32_t input, int32_t channel) {
  if (input == SPARSE_NO_INPUT || channel >= layer.inputs) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  const float *from = layer.in + (uint64_t)input * layer.inputs + channel;
  if (layer.inputs % GROUP == 0) return *(const float4 *)from;
  int32_t left = layer.inputs - channel;
  return make_float4(from[0], left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
}

template <int COLUMNS>
static __device__ void bring_stage(const struct sparse_layer &layer, const struct tile<COLUMNS> &shared,
                                   const struct walk &walk, int32_t column, struct brought<COLUMNS> &to) {
  typedef struct tile<COLUMNS> type;
  int32_t k = walk.offset();
#pragma unroll
  for (int i = 0; i < type::VALUES; i++) {
    int32_t part = threadIdx.x + i * type::THREADS, row = part % ROWS, channel = part / ROWS * GROUP;
    to.values[i] = bring_values(layer, shared.inputs[k][row], walk.channel + channel);
  }
#pragma unroll
  for (int i = 0; i < type::FACTORS; i++) {
    int32_t part = threadIdx.x + i * type::THREADS, at = part % (COLUMNS / GROUP) * GROUP;
    int32_t channel = walk.channel + part / (COLUMNS / GROUP);
    const float *from = layer.weight + ((uint64_t)k * layer.inputs + channel) * layer.width + column + at;
    to.factors[i] = channel < layer.inputs ? *(const float4 *)from : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

template <int COLUMNS>
static __device__ void store_stage(struct tile<COLUMNS> &shared, int half, const struct brought<COLUMNS> &from) {
  typedef struct tile<COLUMNS> type;
#pragma unroll
  for (int i = 0; i < type::VALUES; i++) {
    int32_t part = threadIdx.x + i * type::THREADS, row = part % ROWS, channel = part / ROWS * GROUP;
    shared.values[half][channel][row] = from.values[i].x;
    shared.values[half][channel + 1][row] = from.values[i].y;
    shared.values[half][channel + 2][row] = from.values[i].z;
    shared.values[half][channel + 3][row] = from.values[i].w;
  }
#pragma unroll
  for (int i = 0; i < type::FACTORS; i++) {
    int32_t part = threadIdx.x + i * type::THREADS;
    *(float4 *)&shared.factors[half][part / (COLUMNS / GROUP)][part % (COLUMNS / GROUP) * GROUP] = from.factors[i];
  }
}

// Channels past the layer's last are skipped, so a sum of -0 stays.
template <int COLUMNS>
static __device__ void compute_stage(const struct tile<COLUMNS> &shared, int half, int32_t channels, int32_t row,
                                     int32_t column, float (&sums)[GROUP][GROUP]) {
#pragma unroll
  for (int c = 0; c < STAGE; c++) {
    if (c >= channels) break;
    float4 value = *(const float4 *)&shared.values[half][c][row],
           factor = *(const float4 *)&shared.factors[half][c][column];
    float values[GROUP] = {value.x, value.y, value.z, value.w},
          factors[GROUP] = {factor.x, factor.y, factor.z, factor.w};
#pragma unroll
    for (int r = 0; r < GROUP; r++)
#pragma unroll
      for (int d = 0; d < GROUP; d++) sums[r][d] = __fmaf_rn(values[r], factors[d], sums[r][d]);
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

// The thread's first row and channel in the block. A 128-bit load of a warp from shared memory takes two passes only if
// lanes i and i ^ 1, or i and i ^ 2, read the same address. So the lane's bits 0, 2 and 3 choose the channels.
template <int COLUMNS> static __device__ void find_place(int32_t *row, int32_t *column) {
  int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (COLUMNS >= 32) {
    constexpr int HALVES = COLUMNS >= 32 ? COLUMNS / 32 : 1;
    *column = GROUP * (8 * (warp % HALVES) + ((lane & 1) | (lane >> 1 & 6)));
    *row = GROUP * (4 * (warp / HALVES) + ((lane >> 1 & 1) | (lane >> 3 & 2)));
  } else {
    *column = GROUP * ((lane & 1) | (lane >> 1 & 2));
    *row = GROUP * ((lane >> 1 & 1) | (lane >> 2 & 6));
  }
}

template <int COLUMNS>
static __global__ void __launch_bounds__(tile<COLUMNS>::THREADS)
    convolve_kernel(struct sparse_table table, struct sparse_layer layer) {
  __shared__ struct tile<COLUMNS> shared;
  typedef struct tile<COLUMNS> type;
  cuda_wait_alone();
  uint32_t number = blockIdx.x / layer.columns;
  int32_t first = (int32_t)(blockIdx.x % layer.columns) * COLUMNS, row, column;
  struct walk walk = {table.tiles[number], 0}, next = walk;
  struct brought<COLUMNS> brought;
  find_place<COLUMNS>(&row, &column);
  const int32_t *inputs = table.inputs + (uint64_t)number * VX_MAX_SPARSE_OFFSETS * ROWS;
  for (int32_t i = threadIdx.x; i < VX_MAX_SPARSE_OFFSETS * ROWS; i += type::THREADS)
    shared.inputs[i / ROWS][i % ROWS] = (walk.left >> i / ROWS & 1) != 0 ? inputs[i] : SPARSE_NO_INPUT;
  float sums[GROUP][GROUP];
#pragma unroll
  for (int r = 0; r < GROUP; r++)
#pragma unroll
    for (int d = 0; d < GROUP; d++) sums[r][d] = layer.bias[first + column + d];
  __syncthreads();
  if (!next.ends()) {
    bring_stage(layer, shared, next, first, brought);
    store_stage(shared, 0, brought);
    next.advance(layer.inputs);
  }
  for (int half = 0; !walk.ends(); half ^= 1) {
    __syncthreads();
    if (!next.ends()) bring_stage(layer, shared, next, first, brought);
    compute_stage(shared, half, layer.inputs - walk.channel, row, column, sums);
    if (!next.ends()) store_stage(shared, half ^ 1, brought);
    walk = next;
    if (!next.ends()) next.advance(layer.inputs);
  }
#pragma unroll
  for (int r = 0; r < GROUP; r++) {
    uint32_t to = table.order[number * ROWS + row + r];
    if (to != UINT32_MAX) end_row(layer, to, first + column, sums[r]);
  }
}

template <int COLUMNS>
static enum vx_status launch(const struct cuda_run *run, const struct sparse_table &table, struct sparse_layer layer,
                             uint64_t rows, struct error *error) {
  layer.columns = layer.width / COLUMNS;
  return cuda_launch("convolve_kernel", convolve_kernel<COLUMNS>, sparse_tiles(rows) * layer.columns,
                     tile<COLUMNS>::THREADS, 0, run, error, table, layer);
}

enum vx_status sparse_convolve(const struct cuda_run *run, const struct sparse_table &table,
                               const struct sparse_layer &layer, uint64_t rows, struct error *error) {
  if (layer.width % 64 == 0) return launch<64>(run, table, layer, rows, error);
  if (layer.width % 32 == 0) return launch<32>(run, table, layer, rows, error);
  return launch<16>(run, table, layer, rows, error);
}

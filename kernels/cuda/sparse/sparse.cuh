// Sparse convolution on a GPU: levels, tables of neighbours, layers. All kernels run in the lane's stream. Arrays are
// on the device.
//
// Rows are ordered by cell: cloud, z, y, x. A line is all cells with one cloud, z and y. Bit i of word w of a line is
// the cell x = 32 * w + i - 1, so a line's first and last bit are 0. A row's number is the number of occupied cells
// before it.
//
// A table has the neighbours of output rows. Its rows are sorted by class: the rows of a class have inputs at similar
// offsets, so that the rows of a tile need few offsets. The order in a class does not matter: each row has its own
// sums. A layer computes the tiles with the most offsets first, so that its last blocks are short.
//
// The host launches each kernel for as many rows as a level has room for; the kernels read the numbers of rows. If the
// rows of some level have no room, or a row is refused, every number is 0.
//
// A layer reads its table and its biases before it waits for the kernel ahead (base/device.cuh). This is safe because
// the sort of the features, and every layer, let the next kernel start only after their own wait.
#ifndef VOXELD_CUDA_SPARSE_CUH
#define VOXELD_CUDA_SPARSE_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/sparse/sparse.h"

enum {
  SPARSE_BLOCK = 256,
  SPARSE_WORDS = 2048,    // words that a block counts
  SPARSE_TILE = 32,       // rows of a tile
  SPARSE_CLASSES = 4096,  // classes of rows, by the offsets at which a row has an input
  SPARSE_NO_INPUT = -1,
};

struct sparse_level {
  int32_t shape[3], clouds, words;  // words of a line
  uint64_t all_words;
  uint32_t *bits;            // [all_words + 1]
  uint32_t *ranks;           // [all_words]: rows before each word that has bits
  uint32_t room;             // rows that the arrays have room for
  const uint64_t *num_rows;  // [1]
  int4 *cells;               // [room]: cloud, z, y, x
};

// What the device found. The kernels fill a cleared struct in device memory, then copy it to the host's, where the host
// has cleared `told`. The copy has the true numbers of rows.
struct sparse_found {
  uint64_t rows[VX_MAX_SPARSE_LEVELS];  // in device memory all are 0 if a level has no room, or a row is refused
  uint32_t outside;                     // UINT32_MAX - row, for the first row outside of the grid; 0 if there is none
  uint32_t repeated;                    // rows whose cell another row has
  uint32_t told;                        // 1: the host has everything
};

// All levels. Block b of a kernel that goes over all words has SPARSE_WORDS of them.
struct sparse_levels {
  int32_t count;
  uint32_t first[VX_MAX_SPARSE_LEVELS + 1];  // first block of each level
  // [blocks of all levels + 1]: at first the number of bits in each block, later the number in all blocks before it.
  uint64_t *sums;
  struct sparse_level levels[VX_MAX_SPARSE_LEVELS];
};

struct sparse_window {
  int8_t kernel[3], stride[3], padding[3], from, to;
};

// The tables of all layers. Layers with the same neighbours share a table. A place is an index into the table's order.
// The rows and the places of a table begin at the same multiple of SPARSE_BLOCK.
struct sparse_tables {
  int32_t count;
  struct sparse_window windows[VX_MAX_SPARSE_LAYERS];
  uint32_t first[VX_MAX_SPARSE_LAYERS + 1];  // first row of each table
  // For each table: [SPARSE_CLASSES] rows of each class, later where the class begins; [1] blocks that have counted;
  // [SPARSE_TILE] tiles with 0, 1, ... offsets.
  uint32_t (*classes)[SPARSE_CLASSES + 1 + SPARSE_TILE];
  uint32_t *masks;    // [rows]: a bit for each offset with an input
  uint32_t *members;  // [rows]: number of the row in its class
  uint32_t *order;    // [rows]: row of each place; UINT32_MAX after the last
  uint2 *tiles;       // [rows / SPARSE_TILE]: mask of the tile's offsets; its number among tiles with as many offsets
  uint2 *turns;       // [rows / SPARSE_TILE]: a tile, and the mask of its offsets; the most offsets come first
  int32_t *inputs;    // [rows / SPARSE_TILE, VX_MAX_SPARSE_OFFSETS, SPARSE_TILE]: only of the tile's offsets
};

struct sparse_table {
  const uint32_t *order;
  const uint2 *turns;
  const int32_t *inputs;
  uint32_t num_tiles;  // tiles that the table has room for; tiles after the last row have no offsets
};

// With float16, `weight` is packed, and `in`, `added` and `out` point to float16, but the last layer's `out` to
// float32.
struct sparse_layer {
  const float *weight, *bias, *in, *added;  // `added` may be NULL
  float *out;
  int32_t inputs, pitch, width;  // pitch: values between two rows of `in`
  int32_t columns;               // blocks of channels
  bool is_last;
  uint4 *cleared;  // the part of the map that the layer also clears
  uint64_t words;  // of 16 bytes, to clear
  uint64_t each;   // words that a block clears
};

// A layer's weights, and room for them as float16 in the order in which half.cu loads them.
struct sparse_packed {
  const float *weight;
  uint4 *packed;
  int32_t inputs, width;
};

struct sparse_packing {
  int32_t count;
  uint32_t first[VX_MAX_SPARSE_LAYERS + 1];  // groups of 8 weights before each layer
  struct sparse_packed layers[VX_MAX_SPARSE_LAYERS];
};

// The number of a layer's inputs in half.cu, with zeros up to a multiple of 16, and how many of them a step brings.
static __host__ __device__ inline int32_t sparse_packed_inputs(int32_t inputs) { return (inputs + 15) / 16 * 16; }
static __host__ __device__ inline int32_t sparse_half_step(int32_t inputs) {
  return sparse_packed_inputs(inputs) % 32 == 0 ? 32 : 16;
}

// Rounds to float16. Numbers beyond its range become its largest, so that no product is a NaN.
static __device__ inline uint16_t sparse_to_half(float value) {
  value = value == value ? fminf(fmaxf(value, -65504.0f), 65504.0f) : value;
#if __CUDA_ARCH__ >= 750
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
#else
  return vx_float_to_half(value);
#endif
}

static __device__ inline float sparse_from_half(uint16_t half) {
#if __CUDA_ARCH__ >= 750
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#else
  return vx_half_to_float(half);
#endif
}

// Clears the block's words of the map. Nobody reads the map before the last layer has ended.
static __device__ inline void sparse_clear_part(const struct sparse_layer &layer) {
  uint64_t first = blockIdx.x * layer.each, end = first + layer.each;
  end = end < layer.words ? end : layer.words;
  for (uint64_t i = first + threadIdx.x; i < end; i += blockDim.x) __stcs(&layer.cleared[i], make_uint4(0, 0, 0, 0));
}

static inline uint64_t sparse_word_blocks(const struct sparse_level &level) {
  return (level.all_words + SPARSE_WORDS - 1) / SPARSE_WORDS;
}

static __device__ inline uint64_t sparse_line(const struct sparse_level &level, int32_t cloud, int32_t z, int32_t y) {
  return ((uint64_t)cloud * level.shape[0] + z) * level.shape[1] + y;
}

// Whether the cell is occupied. If so, `row` becomes the cell's row.
static __device__ inline bool sparse_look(const struct sparse_level &level, int32_t cloud, int32_t z, int32_t y,
                                          int32_t x, uint32_t *row) {
  if (z < 0 || z >= level.shape[0] || y < 0 || y >= level.shape[1] || x < 0 || x >= level.shape[2]) return false;
  uint64_t word = sparse_line(level, cloud, z, y) * level.words + (x + 1) / 32;
  uint32_t bits = level.bits[word], bit = 1u << (x + 1) % 32;
  if ((bits & bit) == 0) return false;
  *row = level.ranks[word] + __popc(bits & (bit - 1));
  return true;
}

// Each of these functions enqueues one step. `run` has the lane and its stream.
//
// Clears words of 16 bytes from `first` on, and copies the input from the lane's commands.
VX_WARN_UNUSED enum vx_status sparse_clear(const struct cuda_run *run, void *first, uint64_t words,
                                           struct cuda_sparse_input *input, struct error *error);
// Marks the cells of the rows in the cleared bitmap of level 0, and counts them into the cleared sums.
VX_WARN_UNUSED enum vx_status sparse_mark(const struct cuda_run *run, const struct sparse_levels &all,
                                          const struct cuda_sparse_input *input, struct sparse_found *found,
                                          struct error *error);
// Fills the bitmap of the level that a strided layer begins, and counts its cells into the cleared sums.
VX_WARN_UNUSED enum vx_status sparse_stride(const struct cuda_run *run, const struct sparse_levels &all,
                                            const struct sparse_window &window, struct error *error);
// Adds up the sums, and finds the numbers of rows.
VX_WARN_UNUSED enum vx_status sparse_count(const struct cuda_run *run, const struct sparse_levels &all,
                                           struct sparse_found *found, struct error *error);
// Numbers the rows of all levels and lists their cells. Writes all that was found to `published`, in host memory.
VX_WARN_UNUSED enum vx_status sparse_number(const struct cuda_run *run, const struct sparse_levels &all,
                                            const struct sparse_found *found, struct sparse_found *published,
                                            struct error *error);
// Copies the features into the order of the level. A row of `sorted` has `pitch` values, of float16 if `half`. The
// values after the row's channels become 0.
VX_WARN_UNUSED enum vx_status sparse_sort(const struct cuda_run *run, const struct sparse_level &level,
                                          const struct cuda_sparse_input *input, uint32_t channels, uint32_t pitch,
                                          float *sorted, bool half, struct error *error);
// Fills the tables. The caller has cleared their `classes`.
VX_WARN_UNUSED enum vx_status sparse_fill_tables(const struct cuda_run *run, const struct sparse_levels &all,
                                                 const struct sparse_tables &tables, struct error *error);
VX_WARN_UNUSED enum vx_status sparse_convolve(const struct cuda_run *run, const struct sparse_table &table,
                                              const struct sparse_layer &layer, struct error *error);
// For float16: sparse_pack packs the weights of all layers, sparse_convolve_half computes a layer.
VX_WARN_UNUSED enum vx_status sparse_pack(const struct cuda_run *run, const struct sparse_packing &packing,
                                          struct error *error);
VX_WARN_UNUSED enum vx_status sparse_convolve_half(const struct cuda_run *run, const struct sparse_table &table,
                                                   const struct sparse_layer &layer, struct error *error);
// Writes the rows of the last level into the cleared map.
VX_WARN_UNUSED enum vx_status sparse_fill_map(const struct cuda_run *run, const struct sparse_level &level,
                                              const float *features, int32_t width, float *map, struct error *error);

#endif

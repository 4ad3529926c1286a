// The block filter: rows stay where the kept points of the blocks around them span the right height.
//
// Only blocks that hold a kept point exist, in a hash table of their keys. Heights are collected by atomicMin and
// atomicMax over integers that order like the floats; minima and maxima do not depend on the order of the threads.
#include <cub/device/device_scan.cuh>

#include "kernels/cuda/run.cuh"
#include "kernels/half.h"

enum { BLOCK = 256 };
#define NO_BLOCK UINT64_MAX

struct filter_params {
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  struct cuda_clouds clouds;
  struct cuda_lists lists;
  const uint32_t *first_points;
  const uint32_t *sorted_rows;  // [num_points]: row of each place in the lists
  uint32_t row_capacity;
  int32_t factor, size;
  float low, high;
  int64_t grid_blocks[2];
  uint64_t seed;
  uint64_t *keys;     // [num_slots]
  uint32_t *heights;  // [num_slots, 2]
  unsigned char *block_stays;
  uint64_t num_slots;
  uint32_t *block_of, *stays, *output_rows, *rows_in_order;
  uint32_t *cloud_rows;
  struct cuda_tally *tally;
};

// Integers that order like the floats they stand for.
static __device__ uint32_t ordered(float value) {
  uint32_t bits = vx_float_bits(value);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

static __device__ float unordered(uint32_t bits) { return vx_bits_float(bits >> 31 != 0 ? bits & 0x7FFFFFFFu : ~bits); }

static __device__ uint64_t block_key(const struct filter_params &p, int64_t cloud, int64_t x, int64_t y) {
  return (uint64_t)((cloud * p.grid_blocks[0] + x) * p.grid_blocks[1] + y);
}

static __device__ uint64_t block_home(const struct filter_params &p, uint64_t key) {
  uint64_t a = key ^ p.seed;
  return ((a * 0x9E3779B97F4A7C15u) ^ __umul64hi(a, 0x9E3779B97F4A7C15u)) & (p.num_slots - 1);
}

static __device__ uint64_t add_block(const struct filter_params &p, uint64_t key) {
  uint64_t slot = block_home(p, key);
  for (uint64_t step = 0; step < p.num_slots; step++, slot = (slot + 1) & (p.num_slots - 1)) {
    unsigned long long *place = (unsigned long long *)&p.keys[slot];
    uint64_t before = *(volatile unsigned long long *)place;
    if (before == NO_BLOCK) {
      before = atomicCAS(place, NO_BLOCK, key);
    }
    if (before == NO_BLOCK || before == key) {
      return slot;
    }
  }
  atomicAdd(&p.tally->unplaced, 1);
  return 0;
}

// num_slots if there is no such block.
static __device__ uint64_t find_block(const struct filter_params &p, uint64_t key) {
  uint64_t slot = block_home(p, key);
  for (uint64_t step = 0; step < p.num_slots; step++, slot = (slot + 1) & (p.num_slots - 1)) {
    if (p.keys[slot] == key || p.keys[slot] == NO_BLOCK) {
      return p.keys[slot] == key ? slot : p.num_slots;
    }
  }
  return p.num_slots;
}

// One thread a row.
static __global__ void __launch_bounds__(BLOCK) find_blocks_kernel(const __grid_constant__ struct filter_params p) {
  uint32_t row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= p.tally->num_rows) {
    return;
  }
  int32_t cloud = cuda_cloud_of_row(p.clouds, row), cell[3];
  const float *point = p.points + (uint64_t)cuda_first_of_row(p.clouds, p.first_points, cloud, row) * p.columns;
  vx_cell_of_point(&p.map, point[0], point[1], point[2], cell);
  p.block_of[row] = (uint32_t)add_block(p, block_key(p, cloud, cell[0] / p.factor, cell[1] / p.factor));
}

// One thread a place in the lists.
static __global__ void __launch_bounds__(BLOCK) heights_kernel(const __grid_constant__ struct filter_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i >= p.clouds.num_points) {
    return;
  }
  uint32_t row = p.sorted_rows[i];
  if (row >= p.tally->num_rows || i - p.lists.begins[row] >= cuda_kept_of(p.lists, row)) {
    return;
  }
  uint32_t z = ordered(p.points[(uint64_t)p.lists.points[i] * p.columns + 2]);
  uint32_t *heights = p.heights + 2 * (uint64_t)p.block_of[row];
  volatile uint32_t *seen = heights;
  if (z < seen[0]) {
    atomicMin(&heights[0], z);
  }
  if (z > seen[1]) {
    atomicMax(&heights[1], z);
  }
}

// One thread a slot of the table of blocks.
static __global__ void __launch_bounds__(BLOCK) judge_blocks_kernel(const __grid_constant__ struct filter_params p) {
  uint64_t slot = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (slot >= p.num_slots || p.keys[slot] == NO_BLOCK) {
    return;
  }
  int64_t y = (int64_t)(p.keys[slot] % (uint64_t)p.grid_blocks[1]);
  int64_t above = (int64_t)(p.keys[slot] / (uint64_t)p.grid_blocks[1]);
  int64_t x = above % p.grid_blocks[0], cloud = above / p.grid_blocks[0];
  int32_t below = p.size / 2;
  uint32_t lowest = p.heights[2 * slot], highest = p.heights[2 * slot + 1];
  for (int64_t i = max(x - below, INT64_C(0)); i < min(x - below + p.size, p.grid_blocks[0]); i++) {
    for (int64_t j = max(y - below, INT64_C(0)); j < min(y - below + p.size, p.grid_blocks[1]); j++) {
      uint64_t found = find_block(p, block_key(p, cloud, i, j));
      if (found != p.num_slots) {
        lowest = min(lowest, p.heights[2 * found]);
        highest = max(highest, p.heights[2 * found + 1]);
      }
    }
  }
  float span = unordered(highest) - unordered(lowest);
  p.block_stays[slot] = span > p.low && span < p.high;
}

static __global__ void __launch_bounds__(BLOCK) judge_rows_kernel(const __grid_constant__ struct filter_params p) {
  uint32_t row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= p.row_capacity) {
    return;
  }
  bool exists = row < p.tally->num_rows;
  bool stays = exists && p.block_stays[p.block_of[row]];
  p.stays[row] = stays;
  if (exists && !stays) {
    uint32_t hits = p.lists.hits[row], kept = cuda_kept_of(p.lists, row);
    atomicSub(&p.tally->kept, kept);
    atomicSub(&p.tally->over_voxel_cap, hits - kept);
    atomicAdd(&p.tally->block_filtered, hits);
  }
}

// output_rows holds the number of staying rows before each row.
static __global__ void __launch_bounds__(BLOCK) renumber_kernel(const __grid_constant__ struct filter_params p) {
  uint32_t row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= p.row_capacity || row >= p.tally->num_rows) {
    return;
  }
  uint32_t output = p.output_rows[row];
  bool stays = p.stays[row] != 0;
  if (stays) {
    p.rows_in_order[output] = row;
    if (p.clouds.count > 1) {
      atomicAdd(&p.cloud_rows[cuda_cloud_of_row(p.clouds, row)], 1);
    }
  } else {
    p.output_rows[row] = CUDA_NO_ROW;
  }
  if (row == p.tally->num_rows - 1) {
    p.tally->num_output_rows = output + stays;
  }
}

static cudaError_t scan_stays(const struct cuda_run *run, void *temporary, size_t *bytes) {
  return cub::DeviceScan::ExclusiveSum(temporary, *bytes, run->stays, run->output_rows, (int64_t)run->row_capacity,
                                       run->stream);
}

size_t cuda_filter_cub_bytes(const struct cuda_run *run) {
  size_t bytes = 0;
  return scan_stays(run, NULL, &bytes) == cudaSuccess ? bytes : SIZE_MAX;
}

static struct filter_params filter_params_of(const struct cuda_run *run) {
  const struct vx_block_filter *filter = &run->params->block_filter;
  struct filter_params p = {};
  p.map = run->map;
  p.points = run->points;
  p.columns = run->columns;
  p.clouds = run->clouds;
  p.lists = run->lists;
  p.first_points = run->first_points;
  p.sorted_rows = run->sorted_rows;
  p.row_capacity = run->row_capacity;
  p.factor = filter->factor;
  p.size = filter->size;
  p.low = filter->low;
  p.high = filter->high;
  for (int axis = 0; axis < 2; axis++) {
    p.grid_blocks[axis] = (run->grid.cells[axis] - 1) / filter->factor + 1;
  }
  p.seed = run->lane->seed[0];
  p.keys = run->block_keys;
  p.heights = run->block_heights;
  p.block_stays = run->block_stays;
  p.num_slots = run->block_slots;
  p.block_of = run->block_of;
  p.stays = run->stays;
  p.output_rows = run->output_rows;
  p.rows_in_order = run->rows_in_order;
  p.cloud_rows = run->cloud_rows;
  p.tally = run->tally;
  return p;
}

// Every slot: no key, lowest z above all, highest z below all.
static __global__ void __launch_bounds__(BLOCK) empty_blocks_kernel(const __grid_constant__ struct filter_params p) {
  uint64_t slot = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (slot < p.num_slots) {
    p.keys[slot] = NO_BLOCK;
    p.heights[2 * slot] = UINT32_MAX;
    p.heights[2 * slot + 1] = 0;
  }
}

enum vx_status cuda_filter(const struct cuda_run *run, struct vx_error *error) {
  struct filter_params p = filter_params_of(run);
  unsigned row_blocks = cuda_blocks(run->row_capacity, BLOCK), slot_blocks = cuda_blocks(p.num_slots, BLOCK);
  empty_blocks_kernel<<<slot_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("empty_blocks_kernel", error));
  find_blocks_kernel<<<row_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("find_blocks_kernel", error));
  heights_kernel<<<cuda_blocks(run->num_points, BLOCK), BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("heights_kernel", error));
  judge_blocks_kernel<<<slot_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("judge_blocks_kernel", error));
  judge_rows_kernel<<<row_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("judge_rows_kernel", error));
  size_t bytes = run->cub_bytes;
  CUDA_CALL(scan_stays(run, run->cub, &bytes), error);
  if (run->clouds.count > 1) {
    CUDA_CALL(cudaMemsetAsync(run->cloud_rows, 0, (size_t)run->clouds.count * sizeof(uint32_t), run->stream), error);
  }
  renumber_kernel<<<row_blocks, BLOCK, 0, run->stream>>>(p);
  return cuda_launched("renumber_kernel", error);
}

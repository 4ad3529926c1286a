// The block filter: a row stays if the kept points of the blocks around it span the right height.
//
// Only blocks that hold a kept point exist, in a hash table of their keys. Heights are collected by atomicMin and
// atomicMax over integers that are ordered as the floats are, so they do not depend on the order of the threads.
#include "kernels/cuda/voxelize/filter.cuh"

#include <cub/device/device_scan.cuh>

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/table.cuh"
#include "kernels/cuda/voxelize/marks.cuh"
#include "kernels/half.h"

enum { BLOCK = 256, ROW_THREADS = 8 };

struct filter_params {
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  struct cuda_clouds clouds;
  const struct cuda_record *records;
  const uint32_t *lists;  // each row's first points in front
  uint32_t cap, row_capacity;
  int32_t factor, size;
  float low, high;
  int64_t grid_blocks[2];
  struct cuda_table blocks;
  uint64_t num_slots;
  uint32_t *heights;           // [num_slots, 2]
  unsigned char *block_stays;  // [num_slots]
  uint32_t *block_of, *stays, *output_rows, *rows_in_order;
  struct cuda_marks marks;
  uint32_t *cloud_rows;
  struct cuda_tally *tally;
};

static __device__ uint64_t block_key(const struct filter_params &p, int64_t cloud, int64_t x, int64_t y) {
  return (uint64_t)((cloud * p.grid_blocks[0] + x) * p.grid_blocks[1] + y);
}

static __device__ struct cuda_record record_of(const struct filter_params &p, uint32_t row) {
  return cuda_record_of_row(p.clouds, p.records, cuda_cloud_of_row(p.clouds, row), row);
}

// ROW_THREADS threads per row: find its block and the heights of its kept points.
static __global__ void __launch_bounds__(BLOCK) heights_kernel(const __grid_constant__ struct filter_params p) {
  uint64_t row = ((uint64_t)blockIdx.x * BLOCK + threadIdx.x) / ROW_THREADS;
  if (row >= p.tally->num_rows) {
    return;
  }
  struct cuda_record record = record_of(p, (uint32_t)row);
  uint32_t lane = threadIdx.x % ROW_THREADS, kept = min(record.hits, p.cap);
  uint32_t mask = ((1u << ROW_THREADS) - 1) << (threadIdx.x % 32 / ROW_THREADS * ROW_THREADS);
  uint32_t lowest = UINT32_MAX, highest = 0;
  for (uint32_t k = lane; k < kept; k += ROW_THREADS) {
    uint32_t z = cuda_ordered(p.points[(uint64_t)p.lists[record.begin + k] * p.columns + 2]);
    lowest = min(lowest, z);
    highest = max(highest, z);
  }
  for (int offset = ROW_THREADS / 2; offset > 0; offset /= 2) {
    lowest = min(lowest, __shfl_xor_sync(mask, lowest, offset));
    highest = max(highest, __shfl_xor_sync(mask, highest, offset));
  }
  if (lane == 0) {
    const float *point = p.points + (uint64_t)record.first_point * p.columns;
    int32_t cloud = cuda_cloud_of_row(p.clouds, (uint32_t)row), cell[3];
    vx_cell_of_point(&p.map, point[0], point[1], point[2], cell);
    uint32_t slot = cuda_slot_of(p.blocks, block_key(p, cloud, cell[0] / p.factor, cell[1] / p.factor));
    uint64_t block = slot == CUDA_NO_SLOT ? 0 : slot;  // any slot: the host refuses the job
    p.block_of[row] = (uint32_t)block;
    atomicMin(&p.heights[2 * block], lowest);
    atomicMax(&p.heights[2 * block + 1], highest);
  }
}

// One thread per slot of the table of blocks.
static __global__ void __launch_bounds__(BLOCK) judge_blocks_kernel(const __grid_constant__ struct filter_params p) {
  uint64_t slot = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (slot >= p.num_slots || p.blocks.keys[slot] == CUDA_NO_KEY) {
    return;
  }
  int64_t y = (int64_t)(p.blocks.keys[slot] % (uint64_t)p.grid_blocks[1]);
  int64_t above = (int64_t)(p.blocks.keys[slot] / (uint64_t)p.grid_blocks[1]);
  int64_t x = above % p.grid_blocks[0], cloud = above / p.grid_blocks[0];
  int32_t below = p.size / 2;
  uint32_t lowest = p.heights[2 * slot], highest = p.heights[2 * slot + 1];
  for (int64_t i = max(x - below, INT64_C(0)); i < min(x - below + p.size, p.grid_blocks[0]); i++) {
    for (int64_t j = max(y - below, INT64_C(0)); j < min(y - below + p.size, p.grid_blocks[1]); j++) {
      uint64_t found = cuda_look_up(p.blocks, block_key(p, cloud, i, j));
      if (found != CUDA_NO_SLOT) {
        lowest = min(lowest, p.heights[2 * found]);
        highest = max(highest, p.heights[2 * found + 1]);
      }
    }
  }
  float span = cuda_unordered(highest) - cuda_unordered(lowest);
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
    uint32_t hits = record_of(p, row).hits;
    atomicSub(&p.tally->over_voxel_cap, hits - min(hits, p.cap));
    atomicAdd(&p.tally->block_filtered, hits);
  }
}

// Expects in output_rows the number of staying rows before each row.
static __global__ void __launch_bounds__(BLOCK) renumber_kernel(const __grid_constant__ struct filter_params p) {
  uint32_t row = blockIdx.x * BLOCK + threadIdx.x;
  if (row >= p.row_capacity || row >= p.tally->num_rows) {
    return;
  }
  uint32_t output = p.output_rows[row];
  bool stays = p.stays[row] != 0;
  if (stays) {
    p.rows_in_order[output] = row;
    if (p.marks.words != NULL) {
      cuda_mark(p.marks, record_of(p, row).slot);
    }
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

enum vx_status cuda_measure_filter(const struct cuda_run *run, size_t *bytes, struct error *error) {
  return cuda_check(scan_stays(run, NULL, bytes), "cub::DeviceScan", error);
}

static struct filter_params filter_params_of(const struct cuda_run *run) {
  const struct vx_block_filter *filter = &run->params->block_filter;
  struct filter_params p = {};
  p.map = run->map;
  p.points = run->points;
  p.columns = run->columns;
  p.clouds = run->clouds;
  p.records = run->records;
  p.lists = run->lists;
  p.cap = run->cap;
  p.row_capacity = run->row_capacity;
  p.factor = filter->factor;
  p.size = filter->size;
  p.low = filter->low;
  p.high = filter->high;
  for (int axis = 0; axis < 2; axis++) {
    p.grid_blocks[axis] = (run->grid.cells[axis] - 1) / filter->factor + 1;
  }
  p.blocks = cuda_table_in(run, run->block_keys, run->block_slots);
  p.num_slots = run->block_slots;
  p.heights = run->block_heights;
  p.block_stays = run->block_stays;
  p.block_of = run->block_of;
  p.stays = run->stays;
  p.output_rows = run->output_rows;
  p.rows_in_order = run->rows_in_order;
  p.marks = cuda_marks_of(run);
  p.cloud_rows = run->control->cloud_rows;
  p.tally = run->tally;
  return p;
}

// Every slot: no key, lowest z above all, highest z below all.
static __global__ void __launch_bounds__(BLOCK) empty_blocks_kernel(const __grid_constant__ struct filter_params p) {
  uint64_t slot = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (slot < p.num_slots) {
    p.blocks.keys[slot] = CUDA_NO_KEY;
    p.heights[2 * slot] = UINT32_MAX;
    p.heights[2 * slot + 1] = 0;
  }
}

enum vx_status cuda_filter(const struct cuda_run *run, struct error *error) {
  struct filter_params p = filter_params_of(run);
  unsigned row_blocks = cuda_blocks(run->row_capacity, BLOCK), slot_blocks = cuda_blocks(p.num_slots, BLOCK);
  empty_blocks_kernel<<<slot_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("empty_blocks_kernel", error));
  heights_kernel<<<cuda_blocks(run->row_capacity, BLOCK / ROW_THREADS), BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("heights_kernel", error));
  judge_blocks_kernel<<<slot_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("judge_blocks_kernel", error));
  judge_rows_kernel<<<row_blocks, BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("judge_rows_kernel", error));
  size_t bytes = run->filter_cub_bytes;
  CUDA_CALL(scan_stays(run, run->filter_cub, &bytes), error);
  if (run->clouds.count > 1) {
    CUDA_CALL(cudaMemsetAsync(run->control->cloud_rows, 0, (size_t)run->clouds.count * sizeof(uint32_t), run->stream),
              error);
  }
  renumber_kernel<<<row_blocks, BLOCK, 0, run->stream>>>(p);
  return cuda_launched("renumber_kernel", error);
}

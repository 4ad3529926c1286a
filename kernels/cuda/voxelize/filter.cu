// The block filter: a row stays if the heights of the kept points around it span the right range.
//
// A hash table has the blocks with kept points. atomicMin and atomicMax find the heights, as integers with the order of
// the floats.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/table.cuh"
#include "kernels/half.h"

// If params.size > QUICK_SIZE, judge_blocks_kernel may take long and looks whether the job is stopped. One block of
// threads in ASKING asks the host.
enum { BLOCK = 256, ROW_THREADS = 8, QUICK_SIZE = 8, ASKING = 16 };

static __device__ uint64_t block_key(const struct cuda_block_filter &f, int64_t cloud, int64_t x, int64_t y) {
  return (uint64_t)((cloud * f.grid_blocks[0] + x) * f.grid_blocks[1] + y);
}

// ROW_THREADS threads per row.
static __global__ void __launch_bounds__(BLOCK)
    heights_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_block_filter f) {
  uint64_t row = ((uint64_t)blockIdx.x * BLOCK + threadIdx.x) / ROW_THREADS;
  if (row >= v.counters->num_rows) return;
  struct cuda_record record = cuda_record_of(v, (uint32_t)row);
  uint32_t lane = threadIdx.x % ROW_THREADS, kept = min(record.hits, v.cap);
  uint32_t mask = ((1u << ROW_THREADS) - 1) << (threadIdx.x % 32 / ROW_THREADS * ROW_THREADS);
  uint32_t lowest = UINT32_MAX, highest = 0;
  for (uint32_t k = lane; k < kept; k += ROW_THREADS) {
    uint32_t z = cuda_ordered(v.points[(uint64_t)v.lists[record.begin + k] * v.columns + 2]);
    lowest = min(lowest, z);
    highest = max(highest, z);
  }
  for (int offset = ROW_THREADS / 2; offset > 0; offset /= 2) {
    lowest = min(lowest, __shfl_xor_sync(mask, lowest, offset));
    highest = max(highest, __shfl_xor_sync(mask, highest, offset));
  }
  if (lane == 0) {
    const float *point = v.points + (uint64_t)record.first_point * v.columns;
    int32_t cloud = cuda_cloud_of_row(v.clouds, (uint32_t)row), cell[3];
    vx_cell_of_point(&v.map, point[0], point[1], point[2], cell);
    uint32_t slot = cuda_slot_of(f.blocks, block_key(f, cloud, cell[0] / f.params.factor, cell[1] / f.params.factor));
    uint64_t block = slot == CUDA_NO_SLOT ? 0 : slot;  // without a slot, any block: the host fails the job
    f.block_of[row] = (uint32_t)block;
    atomicMin(&f.heights[2 * block], lowest);
    atomicMax(&f.heights[2 * block + 1], highest);
  }
}

// One thread per slot of the table of blocks.
static __global__ void __launch_bounds__(BLOCK)
    judge_blocks_kernel(const __grid_constant__ struct voxel_view v,
                        const __grid_constant__ struct cuda_block_filter f) {
  uint64_t slot = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (f.params.size > QUICK_SIZE && cuda_is_stopped(v.stop, blockIdx.x % ASKING == 0)) return;
  if (slot >= f.blocks.slots || f.blocks.keys[slot] == CUDA_NO_KEY) return;
  int64_t y = (int64_t)(f.blocks.keys[slot] % (uint64_t)f.grid_blocks[1]);
  int64_t above = (int64_t)(f.blocks.keys[slot] / (uint64_t)f.grid_blocks[1]);
  int64_t x = above % f.grid_blocks[0], cloud = above / f.grid_blocks[0];
  int32_t below = f.params.size / 2;
  uint32_t lowest = f.heights[2 * slot], highest = f.heights[2 * slot + 1];
  for (int64_t i = max(x - below, INT64_C(0)); i < min(x - below + f.params.size, f.grid_blocks[0]); i++) {
    for (int64_t j = max(y - below, INT64_C(0)); j < min(y - below + f.params.size, f.grid_blocks[1]); j++) {
      uint64_t found = cuda_look_up(f.blocks, block_key(f, cloud, i, j));
      if (found != CUDA_NO_SLOT) {
        lowest = min(lowest, f.heights[2 * found]);
        highest = max(highest, f.heights[2 * found + 1]);
      }
    }
  }
  float span = cuda_unordered(highest) - cuda_unordered(lowest);
  f.block_stays[slot] = span > f.params.low && span < f.params.high;
}

static __device__ void renumber(const struct voxel_view &v, uint32_t row, bool stays, uint32_t output) {
  v.output_rows[row] = stays ? output : CUDA_NO_ROW;
  if (stays) {
    v.rows_in_order[output] = row;
    if (v.marks) cuda_mark(v, cuda_record_of(v, row).slot);
    if (v.clouds.count > 1) atomicAdd(&v.control->cloud_rows[cuda_cloud_of_row(v.clouds, row)], 1);
  } else {
    uint32_t hits = cuda_record_of(v, row).hits;
    atomicSub(&v.counters->over_voxel_cap, hits - min(hits, v.cap));
    atomicAdd(&v.counters->block_filtered, hits);
  }
}

// Numbers the rows that stay, by a scan.
static __global__ void __launch_bounds__(SCAN_BLOCK)
    renumber_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_block_filter f) {
  __shared__ struct scan_shared shared;
  uint32_t tile = scan_next_tile((uint32_t *)(f.tiles + f.num_tiles), &shared), num_rows = v.counters->num_rows;
  uint32_t begin = tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = begin + k < num_rows && f.block_stays[f.block_of[begin + k]] != 0;
  uint64_t total = scan_items(f.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    if (begin + k < num_rows) renumber(v, begin + k, items[k] != 0, (uint32_t)before[k]);
  if (tile == f.num_tiles - 1 && threadIdx.x == 0) v.counters->num_output_rows = (uint32_t)total;
}

void cuda_plan_filter(struct cuda_run *run) {
  struct cuda_block_filter *filter = &run->filter;
  filter->params = run->params->block_filter;
  for (int axis = 0; axis < 2; axis++)
    filter->grid_blocks[axis] = (run->grid.cells[axis] - 1) / filter->params.factor + 1;
  filter->blocks.slots = cuda_slots(2 * (uint64_t)run->row_capacity);
  filter->num_tiles = cuda_blocks(run->row_capacity, CUDA_TILE);
}

static __global__ void __launch_bounds__(BLOCK)
    empty_blocks_kernel(const __grid_constant__ struct voxel_view v,
                        const __grid_constant__ struct cuda_block_filter f) {
  uint64_t slot = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (slot < f.blocks.slots) {
    f.blocks.keys[slot] = CUDA_NO_KEY;
    f.heights[2 * slot] = UINT32_MAX;
    f.heights[2 * slot + 1] = 0;
  }
  if (slot <= f.num_tiles) f.tiles[slot] = 0;  // the table has more slots
}

enum vx_status cuda_filter(const struct cuda_run *run, struct error *error) {
  unsigned slot_blocks = cuda_blocks(run->filter.blocks.slots, BLOCK);
  empty_blocks_kernel<<<slot_blocks, BLOCK, 0, run->stream>>>(*run, run->filter);
  CUDA_TRY(cuda_launched("empty_blocks_kernel", error));
  heights_kernel<<<cuda_blocks(run->row_capacity, BLOCK / ROW_THREADS), BLOCK, 0, run->stream>>>(*run, run->filter);
  CUDA_TRY(cuda_launched("heights_kernel", error));
  judge_blocks_kernel<<<slot_blocks, BLOCK, 0, run->stream>>>(*run, run->filter);
  CUDA_TRY(cuda_launched("judge_blocks_kernel", error));
  if (run->clouds.count > 1) {
    CUDA_CALL(cudaMemsetAsync(run->control->cloud_rows, 0, (size_t)run->clouds.count * sizeof(uint32_t), run->stream),
              error);
  }
  renumber_kernel<<<run->filter.num_tiles, SCAN_BLOCK, 0, run->stream>>>(*run, run->filter);
  return cuda_launched("renumber_kernel", error);
}

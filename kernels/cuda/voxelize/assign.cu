// From numbers to rows. Each point writes itself into its cell's part of the list, at its rank, and notes its row if
// the rows of points are wanted. A cell's ranks go from 0 on, so what becomes of its points can be counted point by
// point: as many as its row keeps have ranks below the cap. The point of rank 0 marks the cell, and queues the row if
// its whole list is to be ordered and is not tiny.
#include "kernels/cuda/voxelize/assign.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/marks.cuh"

enum { BLOCK = 256 };

struct assign_params {
  struct cuda_clouds clouds;
  const uint32_t *slots, *ranks;  // [num_points]
  const struct cuda_cell *cells;
  const struct cuda_record *records;  // [num_points]
  uint32_t cap, row_capacity;
  uint32_t *rows;           // [num_points], or NULL
  uint32_t *lists;          // [num_points], or NULL
  uint32_t *queue;          // [row_capacity], or NULL
  struct cuda_marks marks;  // of the cells that have rows
  struct cuda_tally *tally;
};

// The row of a point in the cell of that number.
static __device__ uint32_t row_of(const struct assign_params &p, uint32_t point, uint32_t number) {
  return cuda_row_of_cell(p.clouds, cuda_cloud_of_point(p.clouds, point), number, p.row_capacity);
}

// Does once for a row what its list asks for.
static __device__ void use_row(const struct assign_params &p, uint32_t row, uint32_t slot, uint32_t number) {
  if (p.marks.words != NULL) {
    cuda_mark(p.marks, slot);
  }
  if (p.queue == NULL) {
    return;
  }
  uint32_t hits = p.records[number].hits;
  if (hits > CUDA_TINY_LIST) {
    bool is_long = hits > CUDA_WARP_LIST;
    uint32_t at = atomicAdd(is_long ? &p.tally->num_long : &p.tally->num_short, 1);
    p.queue[is_long ? p.row_capacity - 1 - at : at] = row;
    if (is_long) {
      atomicMax(&p.tally->longest, hits);
    }
  }
}

static __global__ void __launch_bounds__(BLOCK) assign_kernel(const __grid_constant__ struct assign_params p) {
  uint32_t point = blockIdx.x * BLOCK + threadIdx.x, row = p.row_capacity, rank = 0;
  bool is_point = point < p.clouds.num_points;
  uint32_t slot = is_point ? __ldcg(&p.slots[point]) : CUDA_NO_SLOT;
  bool has_cell = slot != CUDA_NO_SLOT;
  if (has_cell) {
    rank = __ldcg(&p.ranks[point]);
  }
  cuda_wait_in_turn();  // the gather reads records early
  if (has_cell) {
    uint2 cell = *(const uint2 *)&p.cells[slot];  // its number, and where its list begins
    if (p.lists != NULL) {
      p.lists[cell.y + rank] = point;
    }
    row = row_of(p, point, cell.x);
    if (rank == 0 && row != p.row_capacity) {
      use_row(p, row, slot, cell.x);
    }
  }
  if (is_point && p.rows != NULL) {
    p.rows[point] = row;
  }
  int over_cap = __syncthreads_count(row != p.row_capacity && rank >= p.cap);
  int dropped = __syncthreads_count(has_cell && row == p.row_capacity);
  if (threadIdx.x == 0 && over_cap != 0) {
    atomicAdd(&p.tally->over_voxel_cap, over_cap);
  }
  if (threadIdx.x == 0 && dropped != 0) {
    atomicAdd(&p.tally->over_max_voxels, dropped);
  }
}

enum vx_status cuda_assign(const struct cuda_run *run, struct error *error) {
  struct assign_params p = {};
  p.clouds = run->clouds;
  p.slots = run->slots;
  p.ranks = run->ranks;
  p.cells = run->cells;
  p.records = run->records;
  p.cap = run->cap;
  p.row_capacity = run->row_capacity;
  p.rows = run->rows;
  p.lists = run->lists;
  p.queue = run->queue;
  p.marks = run->params->block_filter.enabled ? cuda_marks{} : cuda_marks_of(run);
  p.tally = run->tally;
  return cuda_launch("assign_kernel", assign_kernel, cuda_blocks(run->num_points, BLOCK), BLOCK, 0, run, p, error);
}

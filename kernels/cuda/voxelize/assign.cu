// From numbers of cells to rows of voxels. Each point writes itself into its cell's part of the list, at its rank, and
// notes the row of its voxel if the job wants that. The ranks in a cell are 0, 1, 2 and so on, so the points with rank
// >= cap are as many as the voxel drops. The thread of the point with rank 0 acts for its cell: it marks the cell, and
// queues the row if more than CUDA_TINY_LIST points of its list must be sorted.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"

enum { BLOCK = 256 };

static __device__ uint32_t row_of(const struct voxel_view &v, uint32_t point, uint32_t number) {
  return cuda_row_of_cell(v.clouds, cuda_cloud_of_point(v.clouds, point), number, v.row_capacity);
}

// Called once per row.
static __device__ void use_row(const struct voxel_view &v, uint32_t row, uint32_t slot, uint32_t number) {
  if (v.marks && !v.filtered) cuda_mark(v, slot);
  if (!v.queue) return;
  uint32_t hits = cuda_listed(v, v.records[number].hits);
  if (hits > CUDA_TINY_LIST) {
    bool is_long = hits > CUDA_WARP_LIST;
    uint32_t at = atomicAdd(is_long ? &v.counters->num_long : &v.counters->num_short, 1);
    v.queue[is_long ? v.row_capacity - 1 - at : at] = row;
    if (is_long) atomicMax(&v.counters->longest, hits);
  }
}

static __global__ void __launch_bounds__(BLOCK) assign_kernel(const __grid_constant__ struct voxel_view v) {
  uint32_t point = blockIdx.x * BLOCK + threadIdx.x, row = v.row_capacity, rank = 0;
  bool is_point = point < v.clouds.num_points;
  uint32_t slot = is_point ? __ldcg(&v.slots[point]) : CUDA_NO_SLOT;
  bool has_cell = slot != CUDA_NO_SLOT;
  if (has_cell) rank = __ldcg(&v.ranks[point]);
  cuda_wait_in_turn();  // in turn, since the gather reads records before its own wait
  if (has_cell) {
    uint2 cell = *(const uint2 *)&v.cells[slot];  // the cell's number, and where the cell's list begins
    if (v.lists) v.lists[cell.y + rank] = point;
    row = row_of(v, point, cell.x);
    if (rank == 0 && row != v.row_capacity) use_row(v, row, slot, cell.x);
  }
  if (is_point && v.rows) v.rows[point] = row;
  int over_cap = __syncthreads_count(row != v.row_capacity && rank >= v.cap);
  int dropped = __syncthreads_count(has_cell && row == v.row_capacity);
  if (threadIdx.x == 0 && over_cap != 0) atomicAdd(&v.counters->over_voxel_cap, over_cap);
  if (threadIdx.x == 0 && dropped != 0) atomicAdd(&v.counters->over_max_voxels, dropped);
}

enum vx_status cuda_assign(const struct cuda_run *run, struct error *error) {
  return cuda_launch("assign_kernel", assign_kernel, cuda_blocks(run->clouds.num_points, BLOCK), BLOCK, 0, run, error,
                     *run);
}

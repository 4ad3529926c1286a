// From numbers to rows. Each point writes itself into its cell's part of the list, at its rank, and notes its row if
// the rows of points are wanted. The fates of each cell's points are counted. Rows with long whole lists are queued for
// ordering.
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

// `cell`: its number, where its list begins; if the point has a slot.
static __device__ void assign_point(const struct assign_params &p, uint32_t point, bool has_cell, uint2 cell,
                                    uint32_t rank) {
  if (has_cell && p.lists != NULL) {
    p.lists[cell.y + rank] = point;
  }
  if (p.rows != NULL) {
    p.rows[point] = !has_cell
                        ? p.row_capacity
                        : cuda_row_of_cell(p.clouds, cuda_cloud_of_point(p.clouds, point), cell.x, p.row_capacity);
  }
}

// What becomes of a cell's points.
struct fates {
  uint32_t kept, over_cap, dropped, longest;
};

static __device__ struct fates fates_of(const struct assign_params &p, uint32_t number, uint4 record) {
  uint32_t hits = record.y;
  int32_t cloud = cuda_cloud_of_point(p.clouds, record.x);
  uint32_t row = cuda_row_of_cell(p.clouds, cloud, number, p.row_capacity);
  if (row == p.row_capacity) {
    return {0, 0, hits, 0};
  }
  if (p.queue != NULL && hits > CUDA_TINY_LIST) {
    bool is_long = hits > CUDA_WARP_LIST;
    uint32_t at = atomicAdd(is_long ? &p.tally->num_long : &p.tally->num_short, 1);
    p.queue[is_long ? p.row_capacity - 1 - at : at] = row;
  }
  if (p.marks.words != NULL) {
    cuda_mark(p.marks, record.w);
  }
  uint32_t kept = min(hits, p.cap);
  return {kept, hits - kept, 0, hits};
}

static __global__ void __launch_bounds__(BLOCK) assign_kernel(const __grid_constant__ struct assign_params p) {
  __shared__ struct fates all;
  if (threadIdx.x == 0) {
    all = {0, 0, 0, 0};
  }
  __syncthreads();
  cuda_wait();
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x, num_cells = p.tally->num_cells;
  bool is_point = i < p.clouds.num_points, is_cell = i < num_cells;
  uint32_t slot = is_point ? p.slots[i] : CUDA_NO_SLOT, rank = 0;
  bool has_cell = slot != CUDA_NO_SLOT;
  // What follows from the slot and from the number of cells is on its way before any of it is used.
  if (has_cell) {
    rank = p.ranks[i];
  }
  uint2 cell = has_cell ? *(const uint2 *)&p.cells[slot] : make_uint2(0, 0);
  uint4 record = is_cell ? *(const uint4 *)&p.records[i] : make_uint4(0, 0, 0, 0);
  if (is_point) {
    assign_point(p, i, has_cell, cell, rank);
  }
  struct fates fates = {0, 0, 0, 0};
  if (is_cell) {
    fates = fates_of(p, i, record);
  }
  if (blockIdx.x * BLOCK >= num_cells) {
    return;
  }
  __syncwarp();
  fates.kept = cuda_warp_add(fates.kept);
  fates.over_cap = cuda_warp_add(fates.over_cap);
  fates.dropped = cuda_warp_add(fates.dropped);
  fates.longest = cuda_warp_max(fates.longest);
  if (threadIdx.x % 32 == 0 && fates.kept + fates.dropped != 0) {
    atomicAdd(&all.kept, fates.kept);
    atomicAdd(&all.over_cap, fates.over_cap);
    atomicAdd(&all.dropped, fates.dropped);
    atomicMax(&all.longest, fates.longest);
  }
  __syncthreads();
  if (threadIdx.x == 0 && all.kept + all.dropped != 0) {
    atomicAdd(&p.tally->kept, all.kept);
    atomicAdd(&p.tally->over_voxel_cap, all.over_cap);
    atomicAdd(&p.tally->over_max_voxels, all.dropped);
    atomicMax(&p.tally->longest, all.longest);
  }
}

enum vx_status cuda_assign(const struct cuda_run *run, struct vx_error *error) {
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

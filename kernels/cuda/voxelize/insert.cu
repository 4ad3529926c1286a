// From points to cells: brings the points from the host's memory and puts each into the table of cells.
//
// The first points are in the table while the last are still in transfer (see bring.cuh). The points are stored as
// float32 for the gather.
//
// A slot of the table counts the cell's points and keeps the first of them by atomicMin. A point's rank is the count
// that it finds; ranks are in no particular order.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/bring.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/table.cuh"
#include "kernels/half.h"

enum { BLOCK = BRING_BLOCK };

// Adds points to a cell; `point` is the first of them. Returns the previous count. Atomic operations take most of this
// kernel's time, so one operation both adds the points and returns the first point so far, which usually stays the
// first. The hits are the upper half of the word, so when they wrap, nothing is carried.
static __device__ uint32_t count_hits(struct cuda_cell *cell, uint32_t point, uint32_t points) {
  uint64_t had = atomicAdd((unsigned long long *)cell, (unsigned long long)points << 32);  // little-endian: the hits
  if (point < (uint32_t)had) atomicMin(&cell->first, point);
  return (uint32_t)(had >> 32) + 1;
}

// Finds the slot and the rank of a point. If several threads of the warp have points in one cell, the first of these
// threads does the work for all, since it has the first point. `inside`: the threads whose points have a cell.
static __device__ void place(const struct voxel_view &v, uint32_t inside, uint32_t point, uint64_t key) {
  uint32_t lane = threadIdx.x % 32, peers = __match_any_sync(inside, (unsigned long long)key);
  uint32_t leader = __ffs(peers) - 1, slot = CUDA_NO_SLOT, before = 0;
  if (lane == leader) {
    slot = cuda_slot_of(v.table, key);
    if (slot != CUDA_NO_SLOT) before = count_hits(&v.cells[slot], point, __popc(peers));
  }
  slot = __shfl_sync(inside, slot, leader);
  before = __shfl_sync(inside, before, leader);
  v.slots[point] = slot;
  v.ranks[point] = before + __popc(peers & ((1u << lane) - 1));
}

// The number of the cell, in the order of clouds, x, y and z.
static __device__ uint64_t key_of(const struct voxel_view &v, uint32_t point, const int32_t cell[3]) {
  uint64_t cloud = v.clouds.count == 1 ? 0 : cuda_cloud_of_point(v.clouds, point);
  return ((cloud * v.nx + cell[0]) * v.ny + cell[1]) * v.nz + cell[2];
}

// Called by a whole warp. Adds the number of threads with a true `is` to the block's count.
static __device__ void count_up(uint32_t *count, bool is) {
  uint32_t threads = __popc(__ballot_sync(~0u, is));
  if (threadIdx.x % 32 == 0 && threads != 0) atomicAdd(count, threads);
}

// Lets no later kernel start before the previous job has cleaned up, because the tickets of the scans must be clean.
static __global__ void __launch_bounds__(BLOCK) insert_kernel(const __grid_constant__ struct voxel_view v) {
  __shared__ uint32_t outside, strange;
  if (threadIdx.x == 0) outside = strange = 0;
  __syncthreads();
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, v.clouds.num_points - first);
    struct location at = bring(v, first, count);
    bool here = threadIdx.x < count;
    int32_t cell[3];
    bool inside = vx_cell_of_point(&v.map, at.x, at.y, at.z, cell) && here;
    bool finite = vx_are_finite(at.x, at.y, at.z);
    uint32_t point = (uint32_t)first + threadIdx.x, all_inside = __ballot_sync(~0u, inside);
    count_up(&outside, here && !inside && finite);
    count_up(&strange, here && !finite);
    if (first + (uint64_t)gridDim.x * BLOCK >= v.clouds.num_points) {
      cuda_let_next();  // all of this block's points have arrived; the rest is short
      if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
    }
    if (inside)
      place(v, all_inside, point, key_of(v, point, cell));
    else if (here)
      v.slots[point] = CUDA_NO_SLOT;
    __syncwarp();
  }
  __syncthreads();
  if (threadIdx.x == 0 && outside != 0) atomicAdd(&v.counters->out_of_range, outside);
  if (threadIdx.x == 0 && strange != 0) atomicAdd(&v.counters->not_finite, strange);
}

enum vx_status cuda_insert(const struct cuda_run *run, struct error *error) {
  return cuda_launch("insert_kernel", insert_kernel, cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4), BLOCK,
                     0, run, error, *run);
}

// The fates of a lone cloud's points, section by section.
//
// section_points_kernel counts each point; a point in a row counts as kept. section_rows_kernel subtracts the points
// beyond the cap of each row. A row keeps its first points, and sections follow each other. So the number of the row's
// points in each section tells how many of them it keeps, even if its list is not sorted. If a row keeps random points,
// its list begins with these, and the kernel counts the others.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/half.h"

enum { BLOCK = 256, WARPS = BLOCK / 32 };
static_assert(VX_MAX_SECTIONS % 32 == 0, "a warp's threads have equally many sections");

// ---- points ---------------------------------------------------------------------------------------------------------

static __device__ bool is_filtered(const struct voxel_view &v, uint32_t row) {
  return v.filtered && v.output_rows[row] == CUDA_NO_ROW;
}

static __device__ enum vx_fate fate_of(const struct voxel_view &v, uint32_t point) {
  if (v.slots[point] == CUDA_NO_SLOT) {
    const float *at = v.points + (uint64_t)point * v.columns;
    bool finite = vx_are_finite(at[0], at[1], at[2]);
    return finite ? VX_FATE_OUT_OF_RANGE : VX_FATE_NOT_FINITE;
  }
  uint32_t row = v.cells[v.slots[point]].first;  // the number of the point's cell
  return row >= v.clouds.max_rows ? VX_FATE_OVER_MAX_VOXELS
         : is_filtered(v, row)    ? VX_FATE_BLOCK_FILTERED
                                  : VX_FATE_KEPT;
}

static __global__ void __launch_bounds__(BLOCK)
    section_points_kernel(const __grid_constant__ struct voxel_view v,
                          const __grid_constant__ struct cuda_sections sections) {
  __shared__ uint32_t fates[CUDA_SECTION_WORDS];
  cuda_wait();
  uint32_t used = v.section_words;
  for (uint32_t i = threadIdx.x; i < used; i += BLOCK) fates[i] = 0;
  __syncthreads();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    bool here = first + threadIdx.x < v.clouds.num_points;
    uint32_t point = (uint32_t)first + threadIdx.x, mask = __ballot_sync(~0u, here);
    if (here) {
      uint32_t counter = cuda_section_of(sections, point) * CUDA_SECTION_FATES + (uint32_t)fate_of(v, point);
      cuda_add_together(mask, fates, counter);
    }
    __syncwarp();
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < used; i += BLOCK)
    if (fates[i] != 0) atomicAdd(&v.control->section_fates[i], fates[i]);
}

// ---- rows over the cap ----------------------------------------------------------------------------------------------

struct rows_shared {
  uint32_t points[WARPS][VX_MAX_SECTIONS];  // of the current row; for a long row, points[0] has all
  uint32_t dropped[VX_MAX_SECTIONS];        // of all rows of the block
  uint32_t queue[BLOCK];                    // rows over the cap: for a warp from the front, for the block from the end
  uint32_t num_short, num_long;
};

// Called by a whole warp. Counts listed points by section.
static __device__ void count_points(const struct cuda_sections &sections, const uint32_t *list, uint32_t hits,
                                    uint64_t begin, uint32_t step, uint32_t *points) {
  for (uint64_t at = begin; at < hits; at += step) {
    bool here = at + threadIdx.x % 32 < hits;
    uint32_t mask = __ballot_sync(~0u, here);
    if (here) cuda_add_together(mask, points, cuda_section_of(sections, list[at + threadIdx.x % 32]));
    __syncwarp();
  }
}

// Called by a whole warp.
static __device__ void clear_points(uint32_t *points) {
  for (uint32_t i = threadIdx.x % 32; i < VX_MAX_SECTIONS; i += 32) points[i] = 0;
  __syncwarp();
}

// Called by a whole warp. Adds to `dropped` the dropped points of a row by section: of `points`, all but the first
// v.cap, or all if v.picked.
static __device__ void drop_points(const struct voxel_view &v, const uint32_t *points, uint32_t *dropped) {
  uint32_t before = 0;
  for (uint32_t i = threadIdx.x % 32; i < VX_MAX_SECTIONS; i += 32) {
    uint32_t mine = points[i], upto = before + cuda_warp_upto(mine);
    uint32_t kept = v.picked ? 0 : min(mine, v.cap - min(v.cap, upto - mine));
    if (kept < mine) atomicAdd(&dropped[i], mine - kept);
    before = __shfl_sync(~0u, upto, 31);
  }
  __syncwarp();
}

// Called by a whole block.
static __device__ void queue_rows(const struct voxel_view &v, uint64_t first, uint32_t num_rows,
                                  struct rows_shared *shared) {
  uint64_t row = first + threadIdx.x;
  uint32_t hits = row < num_rows && !is_filtered(v, (uint32_t)row) ? v.records[row].hits : 0;
  if (threadIdx.x == 0) shared->num_short = shared->num_long = 0;
  __syncthreads();
  if (hits > v.cap) {
    bool is_long = hits > CUDA_SHARED_LIST;
    uint32_t at = atomicAdd(is_long ? &shared->num_long : &shared->num_short, 1);
    shared->queue[is_long ? BLOCK - 1 - at : at] = (uint32_t)row;
  }
  __syncthreads();
}

static __device__ void drop_of_rows(const struct voxel_view &v, const struct cuda_sections &sections,
                                    struct rows_shared *shared) {
  uint32_t warp = threadIdx.x / 32, begin = v.picked ? v.cap : 0;
  for (uint32_t i = warp; i < shared->num_short; i += WARPS) {
    struct cuda_record record = v.records[shared->queue[i]];
    clear_points(shared->points[warp]);
    count_points(sections, v.lists + record.begin, record.hits, begin, 32, shared->points[warp]);
    drop_points(v, shared->points[warp], shared->dropped);
  }
  for (uint32_t i = 0; i < shared->num_long; i++) {
    struct cuda_record record = v.records[shared->queue[BLOCK - 1 - i]];
    __syncthreads();
    if (warp == 0) clear_points(shared->points[0]);
    __syncthreads();
    count_points(sections, v.lists + record.begin, record.hits, begin + warp * 32, BLOCK, shared->points[0]);
    __syncthreads();
    if (warp == 0) drop_points(v, shared->points[0], shared->dropped);
  }
  __syncthreads();
}

static __global__ void __launch_bounds__(BLOCK)
    section_rows_kernel(const __grid_constant__ struct voxel_view v,
                        const __grid_constant__ struct cuda_sections sections) {
  __shared__ struct rows_shared shared;
  cuda_wait();
  for (uint32_t i = threadIdx.x; i < VX_MAX_SECTIONS; i += BLOCK) shared.dropped[i] = 0;
  __syncthreads();
  uint32_t num_rows = v.counters->num_rows;
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < num_rows; first += (uint64_t)gridDim.x * BLOCK) {
    queue_rows(v, first, num_rows, &shared);
    drop_of_rows(v, sections, &shared);
  }
  for (uint32_t i = threadIdx.x; i < (uint32_t)sections.count; i += BLOCK) {
    if (shared.dropped[i] != 0) {
      atomicSub(&v.control->section_fates[i * CUDA_SECTION_FATES + VX_FATE_KEPT], shared.dropped[i]);
      atomicAdd(&v.control->section_fates[i * CUDA_SECTION_FATES + VX_FATE_OVER_VOXEL_CAP], shared.dropped[i]);
    }
  }
}

enum vx_status cuda_count_sections(const struct cuda_run *run, struct error *error) {
  if (run->sections.count == 0) return VX_OK;
  unsigned point_blocks = cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4);
  CUDA_TRY(cuda_launch("section_points_kernel", section_points_kernel, point_blocks, BLOCK, 0, run, error, *run,
                       run->sections));
  if (run->cap == CUDA_NO_CAP) return VX_OK;
  unsigned row_blocks = cuda_looping_blocks(run, run->row_capacity, BLOCK, 4);
  return cuda_launch("section_rows_kernel", section_rows_kernel, row_blocks, BLOCK, 0, run, error, *run, run->sections);
}

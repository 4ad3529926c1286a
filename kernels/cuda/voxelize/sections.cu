// See sections.cuh.
//
// First each point is counted; if it is in a row, as kept. Then the rows of more points than the cap take back what
// they do not keep. Which points these are need not be known: sections follow each other, and a row keeps its first
// points. So how many points of each section are in a row says how many of them it keeps, whatever the order of its
// list.
#include "kernels/cuda/voxelize/sections.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/finite.h"

enum { BLOCK = 256, WARPS = BLOCK / 32 };
static_assert(VX_MAX_SECTIONS % 32 == 0, "a warp's threads have equally many sections");

struct section_params {
  struct cuda_sections sections;
  struct cuda_clouds clouds;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  const uint32_t *slots;  // [num_points]
  const struct cuda_cell *cells;
  const struct cuda_record *records;
  const uint32_t *lists;        // [num_points]; NULL if there is no cap
  const uint32_t *output_rows;  // [row_capacity]; NULL without a block filter
  uint32_t cap;
  const struct cuda_tally *tally;
};

// --- points ---

static __device__ bool is_filtered(const struct section_params &p, uint32_t row) {
  return p.output_rows != NULL && p.output_rows[row] == CUDA_NO_ROW;
}

static __device__ enum vx_fate fate_of(const struct section_params &p, uint32_t point) {
  if (p.slots[point] == CUDA_NO_SLOT) {
    const float *at = p.points + (uint64_t)point * p.columns;
    bool finite = vx_are_finite(at[0], at[1], at[2]);
    return finite ? VX_FATE_OUT_OF_RANGE : VX_FATE_NOT_FINITE;
  }
  uint32_t row = p.cells[p.slots[point]].first;  // its cell's number
  return row >= p.clouds.max_rows ? VX_FATE_OVER_MAX_VOXELS
         : is_filtered(p, row)    ? VX_FATE_BLOCK_FILTERED
                                  : VX_FATE_KEPT;
}

static __global__ void __launch_bounds__(BLOCK) section_points_kernel(const __grid_constant__ struct section_params p) {
  __shared__ uint32_t fates[CUDA_SECTION_WORDS];
  cuda_wait();
  uint32_t used = (uint32_t)p.sections.count * CUDA_SECTION_FATES;
  for (uint32_t i = threadIdx.x; i < used; i += BLOCK) {
    fates[i] = 0;
  }
  __syncthreads();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < p.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    bool here = first + threadIdx.x < p.clouds.num_points;
    uint32_t point = (uint32_t)first + threadIdx.x, mask = __ballot_sync(~0u, here);
    if (here) {
      uint32_t counter = cuda_section_of(p.sections, point) * CUDA_SECTION_FATES + (uint32_t)fate_of(p, point);
      cuda_add_together(mask, fates, counter);
    }
    __syncwarp();
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < used; i += BLOCK) {
    if (fates[i] != 0) {
      atomicAdd(&p.sections.fates[i], fates[i]);
    }
  }
}

// --- rows over the cap ---

struct rows_shared {
  uint32_t points[WARPS][VX_MAX_SECTIONS];  // of the row in hand; of a long one, points[0] has all
  uint32_t dropped[VX_MAX_SECTIONS];        // of all rows of the block
  uint32_t queue[BLOCK];                    // rows over the cap: from the front for a warp, from the end for the block
  uint32_t num_short, num_long;
};

// As a warp: counts the points of a part of a list by section.
static __device__ void count_points(const struct section_params &p, const uint32_t *list, uint32_t hits, uint64_t begin,
                                    uint32_t step, uint32_t *points) {
  for (uint64_t at = begin; at < hits; at += step) {
    bool here = at + threadIdx.x % 32 < hits;
    uint32_t mask = __ballot_sync(~0u, here);
    if (here) {
      cuda_add_together(mask, points, cuda_section_of(p.sections, list[at + threadIdx.x % 32]));
    }
    __syncwarp();
  }
}

// As a warp: clears the counts of a row.
static __device__ void clear_points(uint32_t *points) {
  for (uint32_t i = threadIdx.x % 32; i < VX_MAX_SECTIONS; i += 32) {
    points[i] = 0;
  }
  __syncwarp();
}

// As a warp: the row keeps `cap` points, those of the first sections before others.
static __device__ void drop_points(const struct section_params &p, const uint32_t *points, uint32_t *dropped) {
  uint32_t before = 0;
  for (uint32_t i = threadIdx.x % 32; i < VX_MAX_SECTIONS; i += 32) {
    uint32_t mine = points[i], upto = before + cuda_warp_upto(mine);
    uint32_t kept = min(mine, p.cap - min(p.cap, upto - mine));
    if (kept < mine) {
      atomicAdd(&dropped[i], mine - kept);
    }
    before = __shfl_sync(~0u, upto, 31);
  }
  __syncwarp();
}

// As a block: queues those of a block's rows that have more points than the cap.
static __device__ void queue_rows(const struct section_params &p, uint64_t first, uint32_t num_rows,
                                  struct rows_shared *shared) {
  uint64_t row = first + threadIdx.x;
  uint32_t hits = row < num_rows && !is_filtered(p, (uint32_t)row) ? p.records[row].hits : 0;
  if (threadIdx.x == 0) {
    shared->num_short = shared->num_long = 0;
  }
  __syncthreads();
  if (hits > p.cap) {
    bool is_long = hits > CUDA_SHARED_LIST;
    uint32_t at = atomicAdd(is_long ? &shared->num_long : &shared->num_short, 1);
    shared->queue[is_long ? BLOCK - 1 - at : at] = (uint32_t)row;
  }
  __syncthreads();
}

static __device__ void drop_of_rows(const struct section_params &p, struct rows_shared *shared) {
  uint32_t warp = threadIdx.x / 32;
  for (uint32_t i = warp; i < shared->num_short; i += WARPS) {
    struct cuda_record record = p.records[shared->queue[i]];
    clear_points(shared->points[warp]);
    count_points(p, p.lists + record.begin, record.hits, 0, 32, shared->points[warp]);
    drop_points(p, shared->points[warp], shared->dropped);
  }
  for (uint32_t i = 0; i < shared->num_long; i++) {
    struct cuda_record record = p.records[shared->queue[BLOCK - 1 - i]];
    __syncthreads();
    if (warp == 0) {
      clear_points(shared->points[0]);
    }
    __syncthreads();
    count_points(p, p.lists + record.begin, record.hits, warp * 32, BLOCK, shared->points[0]);
    __syncthreads();
    if (warp == 0) {
      drop_points(p, shared->points[0], shared->dropped);
    }
  }
  __syncthreads();
}

static __global__ void __launch_bounds__(BLOCK) section_rows_kernel(const __grid_constant__ struct section_params p) {
  __shared__ struct rows_shared shared;
  cuda_wait();
  for (uint32_t i = threadIdx.x; i < VX_MAX_SECTIONS; i += BLOCK) {
    shared.dropped[i] = 0;
  }
  __syncthreads();
  uint32_t num_rows = p.tally->num_rows;
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < num_rows; first += (uint64_t)gridDim.x * BLOCK) {
    queue_rows(p, first, num_rows, &shared);
    drop_of_rows(p, &shared);
  }
  for (uint32_t i = threadIdx.x; i < (uint32_t)p.sections.count; i += BLOCK) {
    if (shared.dropped[i] != 0) {
      atomicSub(&p.sections.fates[i * CUDA_SECTION_FATES + VX_FATE_KEPT], shared.dropped[i]);
      atomicAdd(&p.sections.fates[i * CUDA_SECTION_FATES + VX_FATE_OVER_VOXEL_CAP], shared.dropped[i]);
    }
  }
}

enum vx_status cuda_count_sections(const struct cuda_run *run, struct error *error) {
  if (run->job->sections.count == 0) {
    return VX_OK;
  }
  struct section_params p = {};
  p.sections = cuda_sections_of(run);
  p.clouds = run->clouds;
  p.points = run->points;
  p.columns = run->columns;
  p.slots = run->slots;
  p.cells = run->cells;
  p.records = run->records;
  p.lists = run->lists;
  p.output_rows = run->params->block_filter.enabled ? run->output_rows : NULL;
  p.cap = run->cap;
  p.tally = run->tally;
  CUDA_TRY(cuda_launch("section_points_kernel", section_points_kernel,
                       cuda_looping_blocks(run, run->num_points, BLOCK, 4), BLOCK, 0, run, p, error));
  if (run->cap == UINT32_MAX) {
    return VX_OK;
  }
  return cuda_launch("section_rows_kernel", section_rows_kernel, cuda_looping_blocks(run, run->row_capacity, BLOCK, 4),
                     BLOCK, 0, run, p, error);
}

// For rows that keep few points: sorts the first points of their lists into shared memory.
//
// If a list has at most one point per thread of its row, these threads sort it. A warp handles a longer list: it keeps
// the lowest points and merges the others into them. The whole block handles a list of more than WARP_LIST points.
#ifndef VOXELD_CUDA_SHORT_LISTS_CUH
#define VOXELD_CUDA_SHORT_LISTS_CUH

#include "kernels/cuda/voxelize/rows.cuh"
#include "kernels/cuda/voxelize/sort.cuh"

enum { LIST_BLOCK = 256, LIST_WARPS = LIST_BLOCK / WARP, WARP_LIST = 256 };

// For the rows of a block, with `width` threads per row.
template <int width> struct short_lists {
  enum { ROWS = LIST_BLOCK / width };
  uint32_t lists[ROWS][WARP];  // the first points of each row, sorted
  uint32_t values[LIST_BLOCK];
  uint32_t short_rows[ROWS], long_rows[ROWS], num_short, num_long;
  struct {
    uint32_t begin, hits;
  } parts[ROWS];  // of v.lists: the lists of short_rows and long_rows
};

// Called by a whole block, for one row. Each warp finds the lowest points of its part, then the first warp finds the
// lowest of these.
static __device__ void order_long_list(const uint32_t *list, uint32_t count, uint32_t *values, uint32_t *ordered) {
  values[threadIdx.x] = lowest_of(list, count, threadIdx.x / WARP * WARP, LIST_BLOCK);
  __syncthreads();
  if (threadIdx.x < WARP) {
    uint32_t lowest = values[threadIdx.x];
    for (int warp = 1; warp < LIST_WARPS; warp++) lowest = merge_values(lowest, values[WARP * warp + threadIdx.x]);
    ordered[threadIdx.x] = lowest;
  }
  __syncthreads();
}

// Called by a whole warp, with `width` threads per row. Sorts lists of at most `width` points, one per thread.
template <int width> static __device__ uint32_t tiny_list(const uint32_t *list, const struct cuda_record &record) {
  uint32_t lane = threadIdx.x % width, hits = record.hits, value = CUDA_NO_POINT;
  if (lane < hits && hits <= width) value = hits == 1 ? record.first_point : list[lane];
  return in_order<width>(~0u, value) ? value : sort_values<width>(~0u, value);
}

// Called by a whole block. Sorts the first points of each of its rows into shared->lists. Threads without a row have no
// hits.
template <int width>
static __device__ void order_short_lists(const struct voxel_view &v, const struct cuda_record &record,
                                         struct short_lists<width> *shared) {
  uint32_t lane = threadIdx.x % width, row = threadIdx.x / width, hits = record.hits;
  const uint32_t *list = v.lists + record.begin;
  if (threadIdx.x == 0) shared->num_short = shared->num_long = 0;
  __syncthreads();
  if (width < WARP)
    shared->lists[row][lane] = tiny_list<width>(list, record);
  else if (hits <= WARP_LIST)
    shared->lists[row][lane] = hits <= 1 ? record.first_point : lowest_of(list, hits, 0, WARP);
  if (lane == 0 && hits > (width == WARP ? WARP_LIST : width)) {
    bool is_long = hits > WARP_LIST;
    (is_long ? shared->long_rows : shared->short_rows)[atomicAdd(is_long ? &shared->num_long : &shared->num_short, 1)] =
        row;
    shared->parts[row] = {record.begin, hits};
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x / WARP; i < shared->num_short; i += LIST_WARPS) {
    uint32_t at = shared->short_rows[i];
    shared->lists[at][threadIdx.x % WARP] =
        lowest_of(v.lists + shared->parts[at].begin, shared->parts[at].hits, 0, WARP);
  }
  for (uint32_t i = 0; i < shared->num_long; i++) {
    uint32_t at = shared->long_rows[i];
    order_long_list(v.lists + shared->parts[at].begin, shared->parts[at].hits, shared->values, shared->lists[at]);
  }
  __syncthreads();
}

#endif

// Numbers the rows that are left, by a scan.
#ifndef VOXELD_CUDA_RANKS_CUH
#define VOXELD_CUDA_RANKS_CUH

#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/steps.cuh"

struct cuda_ranks {
  struct cuda_scan scan;
  uint32_t *before;  // [num_points]: how many of the rows before each row are left
};

static __global__ void __launch_bounds__(SCAN_BLOCK)
    rank_rows_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct cuda_ranks own) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile(own.scan.ticket, &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    items[k] = begin + k < r.clouds.num_points && cuda_is_left(r.points[(begin + k) * r.columns]) ? 1 : 0;
  (void)scan_items(own.scan.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    if (begin + k < r.clouds.num_points) own.before[begin + k] = (uint32_t)before[k];
}

// Fills ranks->before, which has room.
static inline enum vx_status cuda_rank_rows(struct cuda_chain *chain, struct cuda_ranks *ranks, struct error *error) {
  CUDA_TRY(cuda_settle_rows(chain, error));
  ranks->scan = cuda_take_scan(chain);
  return cuda_launch("rank_rows_kernel", rank_rows_kernel, ranks->scan.num_tiles, SCAN_BLOCK, 0, &chain->run, error,
                     chain->rows, *ranks);
}

#endif

// Numbers the rows that are left, by a scan.
#ifndef VOXELD_CUDA_RANKS_CUH
#define VOXELD_CUDA_RANKS_CUH

#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/fill.cuh"

struct cuda_ranks {
  uint64_t *tiles;   // [num_tiles + 1]: states of the scan, then its ticket; clear before the scan
  uint32_t *before;  // [num_points]: rows that are left before each row
  uint32_t num_tiles;
};

static __global__ void __launch_bounds__(SCAN_BLOCK)
    rank_rows_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct cuda_ranks own) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile((uint32_t *)(own.tiles + own.num_tiles), &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    items[k] = begin + k < r.clouds.num_points && cuda_is_left(r.points[(begin + k) * r.columns]) ? 1 : 0;
  (void)scan_items(own.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    if (begin + k < r.clouds.num_points) own.before[begin + k] = (uint32_t)before[k];
}

static inline void cuda_take_ranks(struct cuda_ranks *ranks, uint32_t rows, struct cuda_arena *arena) {
  ranks->num_tiles = cuda_blocks(rows, CUDA_TILE);
  take(arena, &ranks->tiles, (uint64_t)ranks->num_tiles + 1);
  take(arena, &ranks->before, rows);
}

// Call it once the tiles are clear.
static inline enum vx_status cuda_rank_rows(const struct cuda_chain *chain, const struct cuda_ranks &ranks,
                                            struct error *error) {
  return cuda_launch("rank_rows_kernel", rank_rows_kernel, ranks.num_tiles, SCAN_BLOCK, 0, &chain->run, error,
                     chain->rows, ranks);
}

#endif

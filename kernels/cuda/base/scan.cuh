// One pass of a scan over tiles of CUDA_TILE items, one block each, with decoupled look-back (Merrill and Garland, here
// with windows as wide as the block).
//
// An item is two numbers, in the upper and lower 32 bits. Neither sum reaches 2^31, which leaves two bits for the state
// of a tile: nothing known (0), its own sum, or the sum up to its end.
#ifndef VOXELD_CUDA_SCAN_CUH
#define VOXELD_CUDA_SCAN_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/run.cuh"

enum { SCAN_BLOCK = 256, SCAN_ITEMS = CUDA_TILE / SCAN_BLOCK, SCAN_WARPS = SCAN_BLOCK / 32 };
enum : uint64_t { TILE_SUM = UINT64_C(1) << 31, TILE_PREFIX = UINT64_C(1) << 63 };
enum : uint64_t { TILE_FLAGS = TILE_SUM | TILE_PREFIX };

struct scan_shared {
  uint64_t sums[SCAN_WARPS];  // of each warp's items
  uint64_t parts[SCAN_WARPS];
  int complete[SCAN_WARPS];
  uint32_t tile;
};

// The block's tile. Tickets rise in order, so a block waits only for blocks that already run.
static __device__ uint32_t scan_next_tile(uint32_t *ticket, struct scan_shared *shared) {
  if (threadIdx.x == 0) shared->tile = atomicAdd(ticket, 1);
  __syncthreads();
  return shared->tile;
}

static __device__ uint64_t warp_add_pair(uint64_t pair) {
  return (uint64_t)cuda_warp_add((uint32_t)(pair >> 32)) << 32 | cuda_warp_add((uint32_t)pair);
}

// Adds up the states of a window of tiles, the nearest first, up to the first state with TILE_PREFIX, which includes
// all tiles before it.
static __device__ uint64_t add_window(uint64_t state, struct scan_shared *shared, bool *complete) {
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t prefixes = __ballot_sync(~0u, (state & TILE_PREFIX) != 0);
  uint32_t last = prefixes == 0 ? 31 : __ffs(prefixes) - 1;
  uint64_t part = warp_add_pair(lane <= last ? state & ~TILE_FLAGS : 0), sum = 0;
  if (lane == 0) {
    shared->parts[warp] = part;
    shared->complete[warp] = prefixes != 0;
  }
  __syncthreads();
  *complete = false;
#pragma unroll
  for (int i = 0; i < SCAN_WARPS; i++) {
    sum += *complete ? 0 : shared->parts[i];
    *complete = *complete || shared->complete[i] != 0;
  }
  __syncthreads();
  return sum;
}

// Returns the sum over all tiles before this one, and publishes the sum up to this tile's end. The caller has already
// published the tile's own sum.
static __device__ uint64_t look_back(volatile unsigned long long *tiles, uint32_t tile, uint64_t sum,
                                     struct scan_shared *shared) {
  uint64_t before = 0;
  bool complete = tile == 0;
  for (int64_t end = tile; !complete; end -= SCAN_BLOCK) {
    int64_t at = end - 1 - threadIdx.x;
    uint64_t state = at < 0 ? (uint64_t)TILE_PREFIX : 0;
    while ((state & TILE_FLAGS) == 0) state = tiles[at];
    before += add_window(state, shared, &complete);
  }
  if (threadIdx.x == 0 && tile > 0) tiles[tile] = TILE_PREFIX | (before + sum);
  return before;
}

// Called by a whole block, once. Returns the sum over all tiles before this one. `sum`: over the tile.
static __device__ uint64_t scan_sums(uint64_t *tile_states, uint32_t tile, uint64_t sum, struct scan_shared *shared) {
  volatile unsigned long long *tiles = (volatile unsigned long long *)tile_states;
  if (threadIdx.x == 0) tiles[tile] = (tile == 0 ? TILE_PREFIX : TILE_SUM) | sum;
  return look_back(tiles, tile, sum, shared);
}

// Called by a whole block, once. Fills `before` with the sum of all items before each item of the thread. Returns the
// sum up to the tile's end. Publishes the tile's own sum first, since other tiles wait for it.
static __device__ uint64_t scan_items(uint64_t *tile_states, uint32_t tile, uint64_t (&items)[SCAN_ITEMS],
                                      uint64_t (&before)[SCAN_ITEMS], struct scan_shared *shared) {
  volatile unsigned long long *tiles = (volatile unsigned long long *)tile_states;
  uint32_t warp = threadIdx.x / 32;
  uint64_t own = 0, sum = 0, ahead = 0;
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    before[k] = own;
    own += items[k];
  }
  uint64_t of_warp = warp_add_pair(own);
  if (threadIdx.x % 32 == 0) shared->sums[warp] = of_warp;
  __syncthreads();
#pragma unroll
  for (uint32_t i = 0; i < SCAN_WARPS; i++) {
    ahead += i < warp ? shared->sums[i] : 0;
    sum += shared->sums[i];
  }
  if (threadIdx.x == 0) tiles[tile] = (tile == 0 ? TILE_PREFIX : TILE_SUM) | sum;
  ahead += cuda_warp_upto((unsigned long long)own) - own;
  uint64_t all = look_back(tiles, tile, sum, shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) before[k] += all + ahead;
  return all + sum;
}

#endif

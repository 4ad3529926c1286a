// Ranks the keys of each segment: see boxes.cuh.
//
//   select  In a segment with very many keys, finds the keys that get a rank, digit by digit.
//   rank    Counts the lesser keys of each key. That is quadratic, but all counts run in parallel.
#include "kernels/cuda/boxes/boxes.cuh"

#include "kernels/cuda/base/device.cuh"

enum { WARP = 32, BLOCK = 512, WARPS = BLOCK / WARP, TILE = 2048, SELECT_BLOCK = 1024, DIGIT = 8, BINS = 1 << DIGIT };

// A segment with at most this many keys is ranked without selection.
static __host__ __device__ uint32_t most_listed(uint32_t most) {
  return most > CUDA_QUICK_KEYS ? most : (uint32_t)CUDA_QUICK_KEYS;
}

// ---- select ---------------------------------------------------------------------------------------------------------

struct selection {
  uint32_t bins[BINS], wanted, kept;
  uint64_t prefix;
  bool done;
};

// Called by a whole warp. Counts a digit of each lane. Digits are usually equal.
static __device__ void count_digit(uint32_t *bins, bool here, uint32_t digit) {
  uint32_t all = __ballot_sync(~0u, here);
  if (all == 0) return;
  uint32_t leader = __ffs(all) - 1, first = __shfl_sync(~0u, digit, leader);
  uint32_t same = __ballot_sync(~0u, here && digit == first);
  if (threadIdx.x % WARP == leader) atomicAdd(&bins[first], __popc(same));
  if (here && digit != first) atomicAdd(&bins[digit], 1);
}

// Called by one thread. Finds the digit of the last wanted key, and how many keys with that digit are wanted.
static __device__ void choose_digit(struct selection *s) {
  uint32_t digit = 0;
  while (s->bins[digit] < s->wanted) s->wanted -= s->bins[digit++];
  s->prefix = s->prefix << DIGIT | digit;
  s->done = s->bins[digit] == s->wanted;
}

// Called by a whole block. Returns a bound: exactly `wanted` keys are <= it. The keys are distinct.
static __device__ uint64_t last_wanted(const uint64_t *keys, uint32_t count, struct selection *s) {
  int shift = 64;
  do {
    shift -= DIGIT;
    for (uint32_t i = threadIdx.x; i < BINS; i += SELECT_BLOCK) s->bins[i] = 0;
    __syncthreads();
    for (uint64_t begin = 0; begin < count; begin += SELECT_BLOCK) {
      uint64_t key = begin + threadIdx.x < count ? keys[begin + threadIdx.x] : 0;
      bool here = begin + threadIdx.x < count && key >> shift >> DIGIT == s->prefix;
      count_digit(s->bins, here, (uint32_t)(key >> shift) % BINS);
    }
    __syncthreads();
    if (threadIdx.x == 0) choose_digit(s);
    __syncthreads();
  } while (!s->done);
  return s->prefix << shift | ((UINT64_C(1) << shift) - 1);
}

// Called by a whole block. Moves the keys up to `last` to the front. Every key is read before its place is overwritten.
static __device__ void gather_front(uint64_t *keys, uint32_t count, uint64_t last, struct selection *s) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint64_t begin = 0; begin < count; begin += SELECT_BLOCK) {
    uint64_t key = begin + threadIdx.x < count ? keys[begin + threadIdx.x] : UINT64_MAX;
    bool stays = begin + threadIdx.x < count && key <= last;
    uint32_t all = __ballot_sync(~0u, stays), place = 0;
    if (lane == 0) place = atomicAdd(&s->kept, __popc(all));
    place = __shfl_sync(~0u, place, 0) + __popc(all & ((1u << lane) - 1));
    __syncthreads();
    if (stays) keys[place] = key;
  }
}

static __global__ void __launch_bounds__(SELECT_BLOCK)
    select_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_ranking r) {
  __shared__ struct selection selection;
  cuda_wait();
  uint32_t count = r.counts[blockIdx.x];
  if (count <= most_listed(r.most) || cuda_is_stopped(v.stop, true)) return;
  if (threadIdx.x == 0) {
    selection.wanted = r.most;
    selection.kept = 0;
    selection.prefix = 0;
  }
  __syncthreads();
  uint64_t *keys = r.keys + cuda_segment_begin(r.segments, blockIdx.x);
  gather_front(keys, count, last_wanted(keys, count, &selection), &selection);
}

// ---- rank -----------------------------------------------------------------------------------------------------------

// Called by a whole block. Returns how many keys in this warp's share of the tile are less than the lane's key.
static __device__ uint32_t count_less(const uint64_t *tile, uint32_t count, uint64_t mine) {
  const ulonglong2 *pairs = (const ulonglong2 *)tile;
  uint32_t less = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x / WARP; 2 * i < count; i += WARPS) {
    ulonglong2 pair = pairs[i];
    less += (pair.x < mine) + (pair.y < mine);
  }
  return less;
}

// Called by a whole block. Returns the rank of the lane's key. All warps hold the same 32 keys.
static __device__ uint32_t rank_of(const uint64_t *keys, uint32_t count, uint64_t mine) {
  __shared__ __align__(16) uint64_t tile[TILE];
  __shared__ uint32_t ranks[WARP];
  uint32_t less = 0;
  if (threadIdx.x < WARP) ranks[threadIdx.x] = 0;
  for (uint32_t begin = 0; begin < count; begin += TILE) {
    for (uint32_t i = threadIdx.x; i < TILE; i += BLOCK) tile[i] = begin + i < count ? keys[begin + i] : UINT64_MAX;
    __syncthreads();
    less += count_less(tile, min(count - begin, (uint32_t)TILE), mine);
    __syncthreads();
  }
  atomicAdd(&ranks[threadIdx.x % WARP], less);
  __syncthreads();
  uint32_t rank = ranks[threadIdx.x % WARP];
  __syncthreads();  // before the next keys' ranks
  return rank;
}

static __global__ void __launch_bounds__(BLOCK)
    rank_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_ranking r,
                uint32_t slices) {
  cuda_wait();
  uint32_t segment = blockIdx.x / slices, count = r.counts[segment];
  count = count > most_listed(r.most) ? r.most : count;
  const uint64_t *keys = r.keys + cuda_segment_begin(r.segments, segment);
  uint64_t *ranked = r.ranked + cuda_ranked_begin(r.segments, r.most, segment);
  for (uint32_t first = blockIdx.x % slices * WARP; first < count; first += slices * WARP) {
    if (count > CUDA_QUICK_KEYS && cuda_is_stopped(v.stop, blockIdx.x % slices == 0)) return;
    uint32_t own = first + threadIdx.x % WARP;
    uint64_t mine = own < count ? keys[own] : 0;
    uint32_t rank = rank_of(keys, count, mine);
    if (threadIdx.x < WARP && own < count && rank < r.most) ranked[rank] = mine;
  }
}

// ---- all together ---------------------------------------------------------------------------------------------------

void cuda_take_ranking(struct cuda_ranking *ranking, struct cuda_arena *arena) {
  take(arena, &ranking->ranked, cuda_ranked_room(ranking->segments, ranking->most));
}

enum vx_status cuda_rank(const struct cuda_run *run, const struct cuda_ranking *ranking, struct error *error) {
  const struct cuda_segments *segments = &ranking->segments;
  uint32_t listed = min(segments->largest, most_listed(ranking->most));
  uint32_t slices = cuda_slices(run, *segments, listed, WARP, 4);
  if (segments->largest > listed)
    CUDA_TRY(cuda_launch("select_kernel", select_kernel, segments->count, SELECT_BLOCK, 0, run, error, *run, *ranking));
  return cuda_launch("rank_kernel", rank_kernel, (uint64_t)segments->count * slices, BLOCK, 0, run, error, *run,
                     *ranking, slices);
}

// The choice of points, if a row keeps random points (struct vx_choice). In each list that is longer than the cap, the
// points that stay move to the front. The others follow, in any order.
//
// A warp, or for a long list a block, finds the highest rank that stays, digit by digit. Ranks are random, so two
// digits are usually enough.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/sort.cuh"
#include "kernels/random.h"

// ROWS: rows that a block handles at a time. Rows with long lists are near each other; a small ROWS spreads them over
// more blocks.
enum { BLOCK = 256, WARPS = BLOCK / 32, ROWS = 64, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, RANK_BITS = 64 };
static_assert(WARPS * CUDA_WARP_LIST >= VX_MAX_POINTS_PER_VOXEL, "a block has room for the points that stay");

struct pick_shared {
  uint32_t digits[WARPS][DIGITS];         // how many ranks have each digit; a long list uses [0]
  uint32_t stay[WARPS * CUDA_WARP_LIST];  // the points that stay: of each warp's list, or of a long list
  struct {
    uint32_t digit, left, here;
  } found[WARPS];
  uint32_t queue[BLOCK];  // rows over the cap: for a warp from the front, for the block from the end
  uint32_t num_short, num_long;
};

// Which points of a list stay: those whose ranks, without the lowest `shift` bits, are at most `upto`.
struct limit {
  uint64_t upto;
  int shift;
};

struct random_list {
  uint32_t *points;
  uint32_t hits, cap;
  uint64_t seed;
};

static __device__ uint64_t rank_of(const struct random_list &list, uint32_t point) {
  return vx_random_of_row(list.seed, point);
}

// Called by a whole warp. The lowest `left` of the counted ranks stay. Finds the digit of the highest of these; `here`
// counted ranks have this digit, and `left_here` of them stay.
static __device__ void find_digit(const uint32_t *digits, uint32_t left, uint32_t *digit, uint32_t *left_here,
                                  uint32_t *here) {
  enum { EACH = DIGITS / 32 };
  uint32_t lane = threadIdx.x % 32, sum = 0;
#pragma unroll
  for (int i = 0; i < EACH; i++) sum += digits[lane * EACH + i];
  uint32_t upto = cuda_warp_upto(sum), before = upto - sum;
  if (before < left && left <= upto) {
    uint32_t at = lane * EACH;
    while (left > before + digits[at]) before += digits[at++];
    *digit = at;
    *left_here = left - before;
    *here = digits[at];
  }
}

// Called by a warp or a block.
template <int threads>
static __device__ struct limit find_limit(const struct random_list &list, struct pick_shared *shared) {
  uint32_t thread = threadIdx.x % threads, of = threads == BLOCK ? 0 : threadIdx.x / 32, left = list.cap;
  uint32_t *digits = shared->digits[of];
  struct limit limit = {0, RANK_BITS};
  do {
    limit.shift -= DIGIT_BITS;
    for (uint32_t i = thread; i < DIGITS; i += threads) digits[i] = 0;
    sync_threads<threads>();
    for (uint64_t i = thread; i < list.hits; i += threads) {
      uint64_t rank = rank_of(list, list.points[i]) >> limit.shift;
      if (rank >> DIGIT_BITS == limit.upto) atomicAdd(&digits[rank % DIGITS], 1);
    }
    sync_threads<threads>();
    auto *found = &shared->found[of];
    if (thread < 32) find_digit(digits, left, &found->digit, &found->left, &found->here);
    sync_threads<threads>();
    limit.upto = limit.upto << DIGIT_BITS | found->digit;
    left = found->left;
    if (left == found->here) break;
  } while (limit.shift > 0);
  return limit;
}

// Called by a warp or a block. How many threads before this one have a true `is`.
template <int threads> static __device__ uint32_t before_this(bool is, uint32_t *total) {
  if (threads == BLOCK) return cuda_block_before(is, total);
  uint32_t all = __ballot_sync(~0u, is);
  *total = __popc(all);
  return __popc(all & ((1u << threadIdx.x % 32) - 1));
}

// Called by a warp or a block. Goes from the end to the front: moves dropped points towards the end, over entries that
// have been read, and writes the other points to `stay`. Then copies `stay` to the front.
template <int threads>
static __device__ void move_points(const struct random_list &list, const struct limit &limit, uint32_t *stay) {
  uint32_t thread = threadIdx.x % threads, stay_from = list.cap, go_from = list.hits;
  for (uint32_t end = list.hits; end > 0;) {
    uint32_t count = min(end, (uint32_t)threads), staying;
    uint32_t point = thread < count ? list.points[end - count + thread] : 0;
    bool stays = thread < count && rank_of(list, point) >> limit.shift <= limit.upto;
    sync_threads<threads>();
    uint32_t before = before_this<threads>(stays, &staying);
    stay_from -= staying;
    go_from -= count - staying;
    if (stays)
      stay[stay_from + before] = point;
    else if (thread < count)
      list.points[go_from + thread - before] = point;
    end -= count;
  }
  sync_threads<threads>();
  for (uint32_t i = thread; i < list.cap; i += threads) list.points[i] = stay[i];
  sync_threads<threads>();
}

template <int threads>
static __device__ void pick_points(const struct voxel_view &v, uint64_t seed, uint32_t row,
                                   struct pick_shared *shared) {
  struct cuda_record record = cuda_record_of(v, row);
  struct random_list list = {v.lists + record.begin, record.hits, v.cap, seed};
  struct limit limit = find_limit<threads>(list, shared);
  move_points<threads>(list, limit, shared->stay + (threads == BLOCK ? 0 : threadIdx.x / 32 * CUDA_WARP_LIST));
}

// Called by a whole block.
static __device__ void queue_rows(const struct voxel_view &v, uint64_t first, uint32_t num_rows,
                                  struct pick_shared *shared) {
  uint64_t row = first + threadIdx.x;
  uint32_t hits = row < num_rows ? cuda_record_of(v, (uint32_t)row).hits : 0;
  if (threadIdx.x == 0) shared->num_short = shared->num_long = 0;
  __syncthreads();
  if (hits > v.cap) {
    bool is_long = hits > CUDA_WARP_LIST;
    uint32_t at = atomicAdd(is_long ? &shared->num_long : &shared->num_short, 1);
    shared->queue[is_long ? BLOCK - 1 - at : at] = (uint32_t)row;
  }
  __syncthreads();
}

static __global__ void __launch_bounds__(BLOCK)
    pick_kernel(const __grid_constant__ struct voxel_view v, uint64_t seed) {
  __shared__ struct pick_shared shared;
  cuda_wait();
  uint32_t num_rows = v.counters->num_rows;
  for (uint64_t first = (uint64_t)blockIdx.x * ROWS; first < num_rows; first += (uint64_t)gridDim.x * ROWS) {
    queue_rows(v, first, (uint32_t)min(first + ROWS, (uint64_t)num_rows), &shared);
    for (uint32_t i = threadIdx.x / 32; i < shared.num_short; i += WARPS)
      pick_points<32>(v, seed, shared.queue[i], &shared);
    __syncthreads();
    for (uint32_t i = 0; i < shared.num_long; i++) pick_points<BLOCK>(v, seed, shared.queue[BLOCK - 1 - i], &shared);
    __syncthreads();
  }
}

enum vx_status cuda_pick(const struct cuda_run *run, struct error *error) {
  uint64_t seed = (uint64_t)run->params->choice.seed;
  unsigned blocks = cuda_looping_blocks(run, run->row_capacity, ROWS, 8);
  return cuda_launch("pick_kernel", pick_kernel, blocks, BLOCK, 0, run, error, *run, seed);
}

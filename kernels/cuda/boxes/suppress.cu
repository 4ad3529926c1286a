// Suppression: see boxes.cuh. A segment's ranked boxes are settled chunk by chunk, so memory grows with the boxes, not
// with their pairs.
//
//   compare  Blocks share the pairs of a chunk, a tile at a time, with one bit per pair. Near pairs are listed first;
//            then the threads of a block clip polygons together.
//   settle   One block goes through the chunk's bits. It takes the next boxes that are not suppressed, up to 64: a
//            window. It keeps those that no better kept box of the window suppresses, then marks what the kept ones
//            suppress in the rest of the chunk.
//   strike   The kept boxes of the chunk suppress boxes in all later chunks, tile by tile.
#include "kernels/cuda/boxes/boxes.cuh"

#include "kernels/cuda/boxes/tiles.cuh"

enum { BLOCK = 512, WINDOW = 64, SHARES = BLOCK / WINDOW, TURNS_PER_LOOK = 16 };

typedef unsigned long long bits64;  // of the boxes of a window

// ---- compare --------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(TILE_BLOCK)
    compare_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_suppression s) {
  __shared__ struct tile tile;
  cuda_wait();
  const struct chunk chunk = chunk_of(s, blockIdx.x / s.slices);
  uint32_t slice = blockIdx.x % s.slices;
  if (chunk.left == 0 || is_full(s, chunk.segment) || (chunk.long_job && cuda_is_stopped(v.stop, slice == 0))) return;
  const struct vx_nms nms = nms_of(s, chunk.segment);
  uint32_t *overlaps = overlaps_of(s, chunk.segment), lane = threadIdx.x % TILE;
  // Tiles on and above the diagonal, column by column.
  uint32_t row = slice, column = 0;
  for (;; row += s.slices) {
    for (; row > column; column++) row -= column + 1;
    if (column * TILE >= chunk.end) return;
    uint32_t word = threadIdx.x < TILE ? row : column;
    fill_tile(s, chunk.segment, ~closed_of(s, chunk, word), chunk.begin + word * TILE + lane, &tile);
    list_pairs(nms, row == column, &tile);
    compare_pairs(nms, &tile);
    uint32_t place = row * TILE + lane;
    if (threadIdx.x < TILE && place < chunk.end) overlaps[place * WORDS + column] = tile.bits[lane];
  }
}

// ---- settle ---------------------------------------------------------------------------------------------------------

// A block's chunk. Places are numbers of boxes in the chunk.
struct settling {
  uint32_t struck[WORDS];   // suppressed boxes, and the places after the end
  uint32_t places[WINDOW];  // places of the window's boxes
  bits64 by[WINDOW];        // which boxes of the window suppress this one
  uint32_t count;           // of the window
  uint32_t next;            // all earlier places are settled
  bits64 best;              // which boxes of the window are kept
  uint32_t num_kept, last;  // boxes of the segment kept so far; the place of the last one
};

// Called by a whole warp. Lists the next places that are not suppressed.
static __device__ void list_window(uint32_t end, struct settling *own) {
  uint32_t lane = threadIdx.x, begin = own->next, first = begin / WARP;
  uint32_t open = lane < first ? 0 : ~own->struck[lane] & (lane == first ? ~0u << (begin % WARP) : ~0u);
  uint32_t upto = cuda_warp_upto(__popc(open));
  uint32_t count = __shfl_sync(~0u, upto, WARP - 1), number = upto - __popc(open);
  for (; open != 0 && number < WINDOW; open &= open - 1) own->places[number++] = lane * WARP + __ffs(open) - 1;
  __syncwarp();
  if (lane == 0) {
    own->count = min(count, (uint32_t)WINDOW);
    own->next = count < WINDOW ? end : own->places[WINDOW - 1] + 1;
  }
}

// Called by a whole block. Finds which boxes of the window suppress each other.
static __device__ void compare_window(const uint32_t *overlaps, struct settling *own) {
  uint32_t number = threadIdx.x % WINDOW;
  bits64 found = 0;
  if (number < own->count) {
    uint32_t place = own->places[number];
    for (uint32_t i = threadIdx.x / WINDOW; i < number; i += SHARES)
      found |= (bits64)(overlaps[own->places[i] * WORDS + place / WARP] >> place % WARP & 1) << i;
  }
  if (found != 0) atomicOr(&own->by[number], found);
  __syncthreads();
}

// Called by a whole warp, with two boxes per lane. Finds the boxes of a window that no other best box suppresses. A
// turn decides the boxes whose earlier suppressors are all decided; a few turns decide all boxes.
static __device__ bits64 best_of(const struct settling *own) {
  uint32_t lane = threadIdx.x;
  const bits64 by[2] = {own->by[lane], own->by[lane + WARP]},
               all = own->count == 0 ? 0 : ~(bits64)0 >> (WINDOW - own->count);
  bits64 best = 0, gone = 0;
  while ((best | gone) != all) {
    best = ((bits64)__ballot_sync(~0u, (by[1] & ~gone) == 0) << WARP | __ballot_sync(~0u, (by[0] & ~gone) == 0)) & all;
    gone = (bits64)__ballot_sync(~0u, (by[1] & best) != 0) << WARP | __ballot_sync(~0u, (by[0] & best) != 0);
  }
  return best;
}

// Called by a whole warp. Keeps the best boxes, up to `most` of the segment. Writes their ranks to `kept`.
static __device__ void keep_best(uint32_t begin, uint32_t most, uint32_t *kept, struct settling *own) {
  uint32_t room = most - own->num_kept;
  bits64 best = best_of(own), stay = 0;
  for (uint32_t half = 0; half < WINDOW; half += WARP) {
    uint32_t number = half + threadIdx.x, before = __popcll(best & (((bits64)1 << number) - 1));
    bool stays = (best >> number & 1) != 0 && before < room;
    if (stays) kept[own->num_kept + before] = begin + own->places[number];
    stay |= (bits64)__ballot_sync(~0u, stays) << half;
  }
  __syncwarp();
  if (threadIdx.x == 0 && stay != 0) {
    own->last = own->places[WINDOW - 1 - __clzll((long long)stay)];
    own->num_kept += __popcll(stay);
  }
  if (threadIdx.x == 0) own->best = stay;
}

// Called by a whole block. Marks the later places that the best of the window suppress. Each thread handles one word.
static __device__ void strike_rest(const uint32_t *overlaps, uint32_t end, struct settling *own) {
  uint32_t word = threadIdx.x % WORDS, struck = 0;
  for (uint32_t i = threadIdx.x / WORDS; i < own->count; i += BLOCK / WORDS) {
    uint32_t place = own->places[i];
    if ((own->best >> i & 1) != 0 && word >= place / WARP && word * WARP < end)
      struck |= overlaps[place * WORDS + word];
  }
  if (struck != 0) atomicOr(&own->struck[word], struck);
}

// Called by a whole block.
static __device__ void settle(const struct cuda_view &v, const struct cuda_suppression &s, const struct chunk &chunk,
                              struct settling *own) {
  const uint32_t *overlaps = overlaps_of(s, chunk.segment);
  uint32_t most = (uint32_t)s.nms.post_max, next = 0, num_kept = 0;
  uint32_t *kept = s.kept + cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, chunk.segment);
  for (uint32_t round = 1; next < chunk.end && num_kept < most; round++) {
    if (round % TURNS_PER_LOOK == 0 && chunk.long_job && cuda_is_stopped(v.stop, true)) return;
    if (threadIdx.x < WINDOW) own->by[threadIdx.x] = 0;
    if (threadIdx.x < WARP) list_window(chunk.end, own);
    __syncthreads();
    compare_window(overlaps, own);
    if (threadIdx.x < WARP) keep_best(chunk.begin, most, kept, own);
    __syncthreads();
    next = own->next;
    num_kept = own->num_kept;
    strike_rest(overlaps, chunk.end, own);
    __syncthreads();
  }
}

// Called by one thread. Counts the fates of the chunk and, if post_max boxes are kept, of all later boxes.
static __device__ void count_fates(const struct cuda_view &v, const struct cuda_suppression &s,
                                   const struct chunk &chunk, uint32_t kept_before, const struct settling *own) {
  bool full = own->num_kept == (uint32_t)s.nms.post_max;
  uint32_t settled = full ? own->last + 1 : chunk.end, kept = own->num_kept - kept_before;
  s.num_kept[chunk.segment] = own->num_kept;
  atomicAdd(&v.counters->kept, kept);
  atomicAdd(&v.counters->suppressed, settled - kept);
  atomicAdd(&v.counters->over_post_max, full ? chunk.left - settled : 0);
}

// Called by a whole block. Clears the state that the segment's chunks share.
static __device__ void begin_segment(const struct cuda_view &v, const struct cuda_suppression &s,
                                     const struct chunk &chunk) {
  for (uint32_t i = WORDS + threadIdx.x; i * WARP < chunk.ranked; i += BLOCK) struck_of(s, chunk.segment)[i] = 0;
  if (threadIdx.x == 0) {
    s.num_kept[chunk.segment] = 0;
    atomicAdd(&v.counters->over_pre_max, chunk.valid - chunk.ranked);
  }
}

static __global__ void __launch_bounds__(BLOCK)
    settle_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_suppression s) {
  __shared__ struct settling own;
  cuda_wait();
  const struct chunk chunk = chunk_of(s, blockIdx.x);
  uint32_t kept_before = s.number == 0 ? 0 : s.num_kept[chunk.segment];
  bool full = is_full(s, chunk.segment);
  if (s.number == 0) begin_segment(v, s, chunk);
  if (chunk.left == 0 || full || (chunk.long_job && cuda_is_stopped(v.stop, true))) return;
  if (threadIdx.x == 0) s.kept_before[chunk.segment] = kept_before;
  if (threadIdx.x < WORDS) own.struck[threadIdx.x] = closed_of(s, chunk, threadIdx.x);
  if (threadIdx.x == 0) {
    own.next = own.last = 0;
    own.num_kept = kept_before;
  }
  __syncthreads();
  settle(v, s, chunk, &own);
  if (threadIdx.x == 0) count_fates(v, s, chunk, kept_before, &own);
}

// ---- strike ---------------------------------------------------------------------------------------------------------

static __device__ uint32_t low_bits(uint32_t count) { return count >= WARP ? ~0u : ~(~0u << count); }

// Called by a whole block. Marks what `rows` kept boxes suppress among the 32 ranked boxes from `first` on.
static __device__ void strike_tile(const struct cuda_suppression &s, uint32_t segment, const struct vx_nms &nms,
                                   const uint32_t *kept, uint32_t rows, uint32_t first, uint32_t ranked,
                                   struct tile *tile) {
  uint32_t lane = threadIdx.x % TILE, *struck = struck_of(s, segment) + first / WARP, open = 0, rank = first + lane;
  if (threadIdx.x < TILE) {
    open = low_bits(rows);
    rank = lane < rows ? kept[lane] : 0;
  } else if (threadIdx.x < 2 * TILE) {
    // Other blocks mark boxes in this word meanwhile; all lanes must see the same value.
    open = low_bits(ranked - first) & ~__shfl_sync(~0u, *(volatile uint32_t *)struck, 0);
  }
  fill_tile(s, segment, open, rank, tile);
  list_pairs(nms, false, tile);
  compare_pairs(nms, tile);
  if (threadIdx.x < TILE && tile->bits[lane] != 0) atomicOr(struck, tile->bits[lane]);
}

static __global__ void __launch_bounds__(TILE_BLOCK)
    strike_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_suppression s) {
  __shared__ struct tile tile;
  cuda_wait();
  uint32_t segment = blockIdx.x / s.slices, slice = blockIdx.x % s.slices, later = (s.number + 1) * CHUNK;
  uint32_t ranked = min(s.counts[segment], (uint32_t)s.nms.pre_max), num_kept = s.num_kept[segment];
  if (later >= ranked || num_kept == (uint32_t)s.nms.post_max) return;
  uint32_t kept_here = num_kept - s.kept_before[segment], rows = (kept_here + TILE - 1) / TILE;
  const uint32_t *kept =
      s.kept + cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, segment) + num_kept - kept_here;
  const struct vx_nms nms = nms_of(s, segment);
  uint32_t turn = 0;
  for (uint64_t i = slice; i < (uint64_t)rows * ((ranked - later + TILE - 1) / TILE); i += s.slices, turn++) {
    if (turn % TURNS_PER_LOOK == 0 && cuda_is_stopped(v.stop, slice == 0)) return;
    uint32_t row = (uint32_t)(i % rows) * TILE, column = (uint32_t)(i / rows) * TILE;
    strike_tile(s, segment, nms, kept + row, min(kept_here - row, (uint32_t)TILE), later + column, ranked, &tile);
  }
}

// ---- all together ---------------------------------------------------------------------------------------------------

// The largest number of ranked boxes of a segment.
static uint32_t longest_of(const struct cuda_suppression *s) {
  return min(s->segments.largest, (uint32_t)s->nms.pre_max);
}

void cuda_take_suppression(struct cuda_suppression *suppression, struct cuda_arena *arena) {
  uint64_t ranked = cuda_ranked_room(suppression->segments, (uint32_t)suppression->nms.pre_max);
  take(arena, &suppression->kept, ranked);
  take(arena, &suppression->overlaps, cuda_ranked_room(suppression->segments, chunk_room(*suppression)) * WORDS);
  take(arena, &suppression->kept_before, suppression->segments.count);
  if (longest_of(suppression) > CHUNK)
    take(arena, &suppression->struck, ranked / WARP + suppression->segments.count + 1);
}

enum vx_status cuda_suppress(const struct cuda_run *run, struct cuda_suppression *s, struct error *error) {
  uint32_t longest = longest_of(s), segments = s->segments.count;
  uint32_t side = cuda_blocks(min(longest, (uint32_t)CHUNK), TILE);
  uint32_t tile_slices = cuda_slices(run, s->segments, side * (side + 1) / 2, 1, 6);
  for (s->number = 0; s->number == 0 || s->number * CHUNK < longest; s->number++) {
    s->slices = tile_slices;
    uint64_t blocks = (uint64_t)segments * s->slices;
    CUDA_TRY(cuda_launch("compare_kernel", compare_kernel, blocks, TILE_BLOCK, 0, run, error, *run, *s));
    CUDA_TRY(cuda_launch("settle_kernel", settle_kernel, segments, BLOCK, 0, run, error, *run, *s));
    uint32_t later = (s->number + 1) * CHUNK;
    if (later < longest) {
      s->slices = cuda_slices(run, s->segments, longest - later, TILE, 6);
      blocks = (uint64_t)segments * s->slices;
      CUDA_TRY(cuda_launch("strike_kernel", strike_kernel, blocks, TILE_BLOCK, 0, run, error, *run, *s));
    }
  }
  return VX_OK;
}

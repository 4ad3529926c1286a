// See suppress.cuh. A segment's ranked boxes are settled chunk by chunk, so memory grows with the boxes, not with their
// pairs.
//
//   compare  Many blocks share the pairs of a chunk: each has tiles of 32 boxes by 32. Of a pair that suppression
//            concerns there is a bit. Boxes are mostly far apart, so the pairs that are near are listed first, and then
//            the threads of a block cut polygons together.
//   settle   One block goes through the chunk's bits. It takes the next boxes that are not struck out, a window, keeps
//            the best of them, and strikes out what these suppress in the rest of the chunk. Most boxes of a crowd are
//            struck out at once, and cost nothing more.
//   strike   The boxes that the chunk has kept strike out others in all later chunks. Many blocks share these.
#include "kernels/cuda/boxes/suppress.cuh"

#include "kernels/cuda/boxes/compare.cuh"

enum { BLOCK = 512, WINDOW = 64, SHARES = BLOCK / WINDOW, STRIKE_BLOCK = 256, ROUNDS_PER_LOOK = 16 };

// --- settle ---

typedef unsigned long long bits64;  // of the boxes of a window

// A block's chunk. Places count the boxes of the chunk.
struct settling {
  uint32_t struck[WORDS];   // places behind the end too
  uint32_t places[WINDOW];  // of the window's boxes
  bits64 by[WINDOW];        // which of the window suppress this one
  uint32_t count;           // of the window
  uint32_t next;            // the places before it are settled
  bits64 best;              // which of the window are kept
  uint32_t num_kept, last;  // of the segment; the place of the last of them
};

// As a warp: lists the next places that are not struck out.
static __device__ void list_window(uint32_t end, struct settling *own) {
  uint32_t lane = threadIdx.x, begin = own->next, first = begin / WARP;
  uint32_t open = lane < first ? 0 : ~own->struck[lane] & (lane == first ? ~0u << (begin % WARP) : ~0u);
  uint32_t upto = cuda_warp_upto(__popc(open));
  uint32_t count = __shfl_sync(~0u, upto, WARP - 1), number = upto - __popc(open);
  for (; open != 0 && number < WINDOW; open &= open - 1) {
    own->places[number++] = lane * WARP + __ffs(open) - 1;
  }
  __syncwarp();
  if (lane == 0) {
    own->count = min(count, (uint32_t)WINDOW);
    own->next = count < WINDOW ? end : own->places[WINDOW - 1] + 1;
  }
}

// As a block: which of the window suppress each other, a few pairs to each thread.
static __device__ void compare_window(const uint32_t *overlaps, struct settling *own) {
  uint32_t number = threadIdx.x % WINDOW;
  bits64 found = 0;
  if (number < own->count) {
    uint32_t place = own->places[number];
    for (uint32_t i = threadIdx.x / WINDOW; i < number; i += SHARES) {
      found |= (bits64)(overlaps[own->places[i] * WORDS + place / WARP] >> place % WARP & 1) << i;
    }
  }
  if (found != 0) {
    atomicOr(&own->by[number], found);
  }
  __syncthreads();
}

// One thread: keeps those that no kept one suppresses, up to `most` of the segment. `kept`: ranks of these.
static __device__ void keep_best(uint32_t begin, uint32_t most, uint32_t *kept, struct settling *own) {
  uint32_t num_kept = own->num_kept;
  bits64 best = 0;
  for (uint32_t i = 0; i < own->count && num_kept < most; i++) {
    if ((own->by[i] & best) == 0) {
      best |= (bits64)1 << i;
      own->last = own->places[i];
      kept[num_kept++] = begin + own->places[i];
    }
  }
  own->best = best;
  own->num_kept = num_kept;
}

// As a block: strikes out what the best of the window suppress among the places behind it. A thread has a word of some
// of the best.
static __device__ void strike_rest(const uint32_t *overlaps, uint32_t end, struct settling *own) {
  uint32_t word = threadIdx.x % WORDS, struck = 0;
  for (uint32_t i = threadIdx.x / WORDS; i < own->count; i += BLOCK / WORDS) {
    uint32_t place = own->places[i];
    if ((own->best >> i & 1) != 0 && word >= place / WARP && word * WARP < end) {
      struck |= overlaps[place * WORDS + word];
    }
  }
  if (struck != 0) {
    atomicOr(&own->struck[word], struck);
  }
}

// As a block: settles window after window.
static __device__ void settle(const struct suppress_params &p, const struct chunk &chunk, struct settling *own) {
  const uint32_t *overlaps = overlaps_of(p.s, chunk.segment);
  uint32_t most = (uint32_t)p.s.nms.post_max, next = 0, num_kept = 0;
  uint32_t *kept = p.s.kept + cuda_ranked_begin(p.s.segments, (uint32_t)p.s.nms.pre_max, chunk.segment);
  for (uint32_t round = 1; next < chunk.end && num_kept < most; round++) {
    if (round % ROUNDS_PER_LOOK == 0 && chunk.long_job && cuda_is_stopped(p.stop)) {
      return;
    }
    if (threadIdx.x < WINDOW) {
      own->by[threadIdx.x] = 0;
    }
    if (threadIdx.x < WARP) {
      list_window(chunk.end, own);
    }
    __syncthreads();
    compare_window(overlaps, own);
    if (threadIdx.x == 0) {
      keep_best(chunk.begin, most, kept, own);
    }
    __syncthreads();
    next = own->next;
    num_kept = own->num_kept;
    strike_rest(overlaps, chunk.end, own);
    __syncthreads();
  }
}

// One thread: counts the fates of the chunk and, if enough boxes are kept, of all that follow.
static __device__ void count_fates(const struct suppress_params &p, const struct chunk &chunk, uint32_t kept_before,
                                   const struct settling *own) {
  bool full = own->num_kept == (uint32_t)p.s.nms.post_max;
  uint32_t settled = full ? own->last + 1 : chunk.end, kept = own->num_kept - kept_before;
  p.s.num_kept[chunk.segment] = own->num_kept;
  atomicAdd(&p.tally->kept, kept);
  atomicAdd(&p.tally->suppressed, settled - kept);
  atomicAdd(&p.tally->over_post_max, full ? chunk.left - settled : 0);
}

static __global__ void __launch_bounds__(BLOCK) settle_kernel(const __grid_constant__ struct suppress_params p) {
  __shared__ struct settling own;
  cuda_wait();
  const struct chunk chunk = chunk_of(p, blockIdx.x);
  uint32_t kept_before = p.number == 0 ? 0 : p.s.num_kept[chunk.segment];
  bool full = is_full(p, chunk.segment);
  if (p.number == 0 && threadIdx.x == 0) {
    p.s.num_kept[chunk.segment] = 0;
    atomicAdd(&p.tally->over_pre_max, chunk.valid - chunk.ranked);
  }
  if (chunk.left == 0 || full || (chunk.long_job && cuda_is_stopped(p.stop))) {
    return;
  }
  if (threadIdx.x < WORDS) {
    own.struck[threadIdx.x] = closed_of(p, chunk, threadIdx.x);
  }
  if (threadIdx.x == 0) {
    own.next = own.last = 0;
    own.num_kept = kept_before;
  }
  __syncthreads();
  settle(p, chunk, &own);
  if (threadIdx.x == 0) {
    count_fates(p, chunk, kept_before, &own);
  }
}

// --- strike ---

// Whether one of a window's boxes whose bits are in `among` suppresses `box`. Each thread looks for the next near one
// first, so that the threads of a warp cut polygons together.
static __device__ bool is_suppressed(const struct cuda_ranked_box *window, bits64 among,
                                     const struct cuda_ranked_box &box, const struct vx_nms &nms) {
  bool found = false;
  while (among != 0 && !found) {
    while (among != 0 && !may_suppress(window[__ffsll(among) - 1], box, nms)) {
      among &= among - 1;
    }
    if (among != 0) {
      found = vx_suppresses(&window[__ffsll(among) - 1].rectangle, &box.rectangle, &nms);
      among &= among - 1;
    }
  }
  return found;
}

// As a block: which of the window's boxes are a chunk's kept ones, those before number `until` of the segment's. Fills
// the window with them.
static __device__ bits64 fill_window(const struct suppress_params &p, uint32_t segment, const uint32_t *kept,
                                     uint32_t until, struct cuda_ranked_box *window) {
  __shared__ bits64 here;
  uint32_t from = until > WINDOW ? until - WINDOW : 0, begin = p.number * CHUNK;
  __syncthreads();  // the last window has been used
  if (threadIdx.x == 0) {
    here = 0;
  }
  __syncthreads();
  if (threadIdx.x < until - from && kept[from + threadIdx.x] >= begin) {
    window[threadIdx.x] = box_of(p.s, segment, kept[from + threadIdx.x]);
    atomicOr(&here, (bits64)1 << threadIdx.x);
  }
  __syncthreads();
  return here;
}

// As a block: whether a box that the chunk has kept suppresses the thread's, unless that is `struck` already.
static __device__ bool is_struck(const struct suppress_params &p, uint32_t segment, const struct vx_nms &nms,
                                 const struct cuda_ranked_box &box, bool struck) {
  __shared__ struct cuda_ranked_box window[WINDOW];
  const uint32_t *kept = p.s.kept + cuda_ranked_begin(p.s.segments, (uint32_t)p.s.nms.pre_max, segment);
  bits64 here = ~(bits64)0;
  for (uint32_t until = p.s.num_kept[segment]; until > 0 && here == ~(bits64)0;
       until = until > WINDOW ? until - WINDOW : 0) {
    here = fill_window(p, segment, kept, until, window);
    struck = struck || is_suppressed(window, here, box, nms);
  }
  return struck;
}

static __global__ void __launch_bounds__(STRIKE_BLOCK) strike_kernel(const __grid_constant__ struct suppress_params p) {
  cuda_wait();
  uint32_t segment = blockIdx.x / p.slices, ranked = min(p.s.counts[segment], (uint32_t)p.s.nms.pre_max);
  uint32_t begin = (p.number + 1) * CHUNK + blockIdx.x % p.slices * STRIKE_BLOCK;
  if (begin >= ranked || p.s.num_kept[segment] == (uint32_t)p.s.nms.post_max) {
    return;
  }
  const struct vx_nms nms = nms_of(p.s, segment);
  for (; begin < ranked; begin += p.slices * STRIKE_BLOCK) {
    if (cuda_is_stopped(p.stop)) {
      return;
    }
    uint32_t rank = begin + threadIdx.x, *word = struck_of(p.s, segment) + rank / WARP;
    uint32_t before = p.number == 0 || rank >= ranked ? 0 : *word;
    bool struck = rank >= ranked || (before >> rank % WARP & 1) != 0;
    struct cuda_ranked_box box = {};
    if (!struck) {
      box = box_of(p.s, segment, rank);
    }
    uint32_t bits = __ballot_sync(~0u, is_struck(p, segment, nms, box, struck));
    if (rank < ranked && rank % WARP == 0) {
      *word = bits;
    }
  }
}

// --- all together ---

// Ranked boxes of the largest segment.
static uint32_t longest_of(const struct cuda_suppression *s) {
  return min(s->segments.largest, (uint32_t)s->nms.pre_max);
}

void cuda_take_suppression(struct cuda_suppression *suppression, struct cuda_arena *arena) {
  uint64_t ranked = cuda_ranked_room(suppression->segments, (uint32_t)suppression->nms.pre_max);
  take(arena, &suppression->kept, ranked);
  take(arena, &suppression->overlaps, cuda_ranked_room(suppression->segments, chunk_room(*suppression)) * WORDS);
  if (longest_of(suppression) > CHUNK) {
    take(arena, &suppression->struck, ranked / WARP + suppression->segments.count + 1);
  }
}

enum vx_status cuda_suppress(const struct cuda_run *run, const struct cuda_suppression *suppression,
                             struct vx_error *error) {
  uint32_t longest = longest_of(suppression), segments = suppression->segments.count;
  struct suppress_params p = {*suppression, 0, 0, cuda_stop_of(run), run->tally};
  uint32_t side = cuda_blocks(min(longest, (uint32_t)CHUNK), TILE);
  uint32_t tile_slices = cuda_slices(run, suppression->segments, side * (side + 1) / 2, 1, 6);
  for (; p.number == 0 || p.number * CHUNK < longest; p.number++) {
    p.slices = tile_slices;
    CUDA_TRY(
        cuda_launch("compare_kernel", compare_kernel, (uint64_t)segments * p.slices, COMPARE_BLOCK, 0, run, p, error));
    CUDA_TRY(cuda_launch("settle_kernel", settle_kernel, segments, BLOCK, 0, run, p, error));
    uint32_t later = (p.number + 1) * CHUNK;
    if (later < longest) {
      p.slices = cuda_slices(run, suppression->segments, longest - later, STRIKE_BLOCK, 4);
      CUDA_TRY(
          cuda_launch("strike_kernel", strike_kernel, (uint64_t)segments * p.slices, STRIKE_BLOCK, 0, run, p, error));
    }
  }
  return VX_OK;
}

// See suppress.cuh. A segment's ranked boxes are settled chunk by chunk, so no pair needs memory.
//
//   settle  One block goes through a chunk. It takes the next boxes that are not struck out, a window, compares these
//           with each other, keeps the best, and strikes out what they suppress in the rest of the chunk. Most boxes of
//           a crowd are struck out at once, and cost nothing more.
//   strike  The boxes that the chunk has kept strike out others in all later chunks. Many blocks share these.
//
// Boxes are mostly far apart: each thread looks for the next near one first, so that the threads of a warp then cut
// polygons together.
#include "kernels/cuda/boxes/suppress.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/boxes/rank.cuh"

enum { WARP = 32, BLOCK = 1024, WINDOW = 64, SHARES = BLOCK / WINDOW };
enum { CHUNK = 4096, WORDS = CHUNK / WARP, STRIKE_BLOCK = 256, ROUNDS_PER_LOOK = 16 };
static_assert((int)CHUNK <= (int)CUDA_QUICK_KEYS, "what is stopped while it is ranked is never settled");

typedef unsigned long long bits64;  // of the boxes of a window

struct suppress_params {
  struct cuda_suppression s;
  uint32_t number;  // of the chunk
  uint32_t slices;
  struct cuda_stop stop;
  struct cuda_tally *tally;
};

// --- boxes ---

static __device__ struct cuda_ranked_box box_of(const struct cuda_suppression &s, uint32_t segment, uint32_t rank) {
  uint64_t at = cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, segment) + rank;
  if (s.ranked != NULL) {
    at = cuda_segment_begin(s.segments, segment) + (uint32_t)s.ranked[at];
  }
  return {vx_rectangle_of(s.boxes + at * s.values), s.labels == NULL ? 0 : s.labels[at]};
}

static __device__ struct vx_nms nms_of(const struct cuda_suppression &s, uint32_t segment) {
  struct vx_nms nms = s.nms;
  nms.radius = s.radii == NULL ? nms.radius : s.radii[segment % s.num_radii];
  return nms;
}

static __host__ __device__ uint32_t chunk_room(const struct cuda_suppression &s) {
  return (uint32_t)s.nms.pre_max < CHUNK ? (uint32_t)s.nms.pre_max : (uint32_t)CHUNK;
}

static __device__ struct cuda_ranked_box *chunk_of(const struct cuda_suppression &s, uint32_t segment) {
  return s.chunk + cuda_ranked_begin(s.segments, chunk_room(s), segment);
}

// A segment's words hold its bits, as each has a word more than it fills.
static __device__ uint32_t *struck_of(const struct cuda_suppression &s, uint32_t segment) {
  return s.struck + cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, segment) / WARP + segment;
}

static __device__ bool may_suppress(const struct cuda_ranked_box &a, const struct cuda_ranked_box &b,
                                    const struct vx_nms &nms) {
  bool near =
      nms.circle ? vx_are_near(&a.rectangle, &b.rectangle, nms.radius) : !vx_are_apart(&a.rectangle, &b.rectangle);
  return near && a.label == b.label;
}

// Which of a window's boxes suppress `box`: `all` of those whose bits are in `among`, or only the first.
static __device__ bits64 suppressors(const struct cuda_ranked_box *window, bits64 among,
                                     const struct cuda_ranked_box &box, const struct vx_nms &nms, bool all) {
  bits64 found = 0;
  while (among != 0 && (all || found == 0)) {
    while (among != 0 && !may_suppress(window[__ffsll(among) - 1], box, nms)) {
      among &= among - 1;
    }
    if (among != 0) {
      int i = __ffsll(among) - 1;
      among &= among - 1;
      found |= vx_suppresses(&window[i].rectangle, &box.rectangle, &nms) ? (bits64)1 << i : 0;
    }
  }
  return found;
}

// --- settle ---

// A block's chunk. Places count the boxes of the chunk.
struct settling {
  uint32_t struck[WORDS];  // places behind the end too
  struct cuda_ranked_box window[WINDOW];
  uint32_t places[WINDOW];  // of the window's boxes
  bits64 by[WINDOW];        // which of the window suppress this one
  uint32_t count;           // of the window
  uint32_t next;            // the places before it are settled
  bits64 best;              // which of the window are kept
  uint32_t num_kept, last;  // of the segment; the place of the last of them
};

// As a block.
static __device__ void begin_chunk(const struct suppress_params &p, uint32_t segment, uint32_t begin, uint32_t end,
                                   uint32_t num_kept, struct settling *own) {
  struct cuda_ranked_box *boxes = chunk_of(p.s, segment);
  for (uint32_t i = threadIdx.x; i < end; i += BLOCK) {
    boxes[i] = box_of(p.s, segment, begin + i);
  }
  for (uint32_t i = threadIdx.x; i < WORDS; i += BLOCK) {
    uint32_t left = end > i * WARP ? end - i * WARP : 0, behind = left >= WARP ? 0 : ~0u << left;
    own->struck[i] = behind | (p.number == 0 || left == 0 ? 0 : struck_of(p.s, segment)[begin / WARP + i]);
  }
  if (threadIdx.x == 0) {
    own->next = own->last = 0;
    own->num_kept = num_kept;
  }
  __syncthreads();
}

// As a warp: lists the next places that are not struck out, 32 words at a time.
static __device__ void list_window(uint32_t end, struct settling *own) {
  uint32_t lane = threadIdx.x % WARP, count = 0, begin = own->next;
  for (uint32_t word = begin / WARP; count < WINDOW && word * WARP < end; word += WARP) {
    uint32_t open = word + lane < WORDS ? ~own->struck[word + lane] : 0;
    open &= word + lane == begin / WARP ? ~0u << (begin % WARP) : ~0u;
    uint32_t before = __popc(open);
    for (int offset = 1; offset < WARP; offset *= 2) {
      uint32_t other = __shfl_up_sync(~0u, before, offset);
      before += lane >= (uint32_t)offset ? other : 0;
    }
    uint32_t total = __shfl_sync(~0u, before, WARP - 1);
    uint32_t number = count + before - __popc(open);
    for (; open != 0 && number < WINDOW; open &= open - 1) {
      own->places[number++] = (word + lane) * WARP + __ffs(open) - 1;
    }
    count += total;
  }
  __syncwarp();
  if (lane == 0) {
    own->count = min(count, (uint32_t)WINDOW);
    own->next = count < WINDOW ? end : own->places[WINDOW - 1] + 1;
  }
}

// As a block: the pairs of the window, a few of them to each thread.
static __device__ void compare_window(const struct cuda_ranked_box *boxes, const struct vx_nms &nms,
                                      struct settling *own) {
  uint32_t number = threadIdx.x % WINDOW, share = threadIdx.x / WINDOW;
  if (threadIdx.x < own->count) {
    own->window[threadIdx.x] = boxes[own->places[threadIdx.x]];
    own->by[threadIdx.x] = 0;
  }
  __syncthreads();
  bits64 mine = 0;
  for (uint32_t i = share; i < number; i += SHARES) {
    mine |= (bits64)1 << i;
  }
  if (number < own->count) {
    bits64 found = suppressors(own->window, mine, own->window[number], nms, true);
    if (found != 0) {
      atomicOr(&own->by[number], found);
    }
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

// As a block: strikes out what the best of the window suppress among the places from `next` on, a word to each warp.
static __device__ void strike_rest(const struct cuda_ranked_box *boxes, uint32_t next, uint32_t end,
                                   const struct vx_nms &nms, struct settling *own) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint32_t i = next / WARP * WARP + threadIdx.x; i - lane < end; i += BLOCK) {
    uint32_t word = own->struck[i / WARP];
    bool open = i >= next && i < end && (word >> lane & 1) == 0;
    uint32_t bits = __ballot_sync(~0u, open && suppressors(own->window, own->best, boxes[i], nms, false) != 0);
    if (lane == 0) {
      own->struck[i / WARP] = word | bits;
    }
  }
  __syncthreads();
}

// As a block: settles window after window.
static __device__ void settle(const struct suppress_params &p, uint32_t segment, uint32_t begin, uint32_t end,
                              struct settling *own) {
  struct cuda_ranked_box *boxes = chunk_of(p.s, segment);
  uint32_t most = (uint32_t)p.s.nms.post_max, next = 0, num_kept = 0;
  uint32_t *kept = p.s.kept + cuda_ranked_begin(p.s.segments, (uint32_t)p.s.nms.pre_max, segment);
  const struct vx_nms nms = nms_of(p.s, segment);
  for (uint32_t round = 1; next < end && num_kept < most; round++) {
    if (round % ROUNDS_PER_LOOK == 0 && cuda_is_stopped(p.stop)) {
      return;
    }
    if (threadIdx.x < WARP) {
      list_window(end, own);
    }
    __syncthreads();
    compare_window(boxes, nms, own);
    if (threadIdx.x == 0) {
      keep_best(begin, most, kept, own);
    }
    __syncthreads();
    next = own->next;
    num_kept = own->num_kept;
    strike_rest(boxes, next, num_kept < most ? end : 0, nms, own);
  }
}

// One thread: counts the fates of the chunk and, if enough boxes are kept, of all that follow.
static __device__ void count_fates(const struct suppress_params &p, uint32_t segment, uint32_t kept_before,
                                   uint32_t end, uint32_t left, const struct settling *own) {
  bool full = own->num_kept == (uint32_t)p.s.nms.post_max;
  uint32_t settled = full ? own->last + 1 : end, kept = own->num_kept - kept_before;
  p.s.num_kept[segment] = own->num_kept;
  atomicAdd(&p.tally->kept, kept);
  atomicAdd(&p.tally->suppressed, settled - kept);
  atomicAdd(&p.tally->over_post_max, full ? left - settled : 0);
}

static __global__ void __launch_bounds__(BLOCK) settle_kernel(const __grid_constant__ struct suppress_params p) {
  __shared__ struct settling own;
  cuda_wait();
  uint32_t segment = blockIdx.x, valid = p.s.counts[segment], begin = p.number * CHUNK;
  uint32_t ranked = min(valid, (uint32_t)p.s.nms.pre_max), left = ranked > begin ? ranked - begin : 0;
  uint32_t kept_before = p.number == 0 ? 0 : p.s.num_kept[segment], end = min(left, (uint32_t)CHUNK);
  if (p.number == 0 && threadIdx.x == 0) {
    p.s.num_kept[segment] = 0;
    atomicAdd(&p.tally->over_pre_max, valid - ranked);
  }
  bool long_job = p.number > 0 || valid > CUDA_QUICK_KEYS;
  if (left == 0 || kept_before == (uint32_t)p.s.nms.post_max || (long_job && cuda_is_stopped(p.stop))) {
    return;
  }
  begin_chunk(p, segment, begin, end, kept_before, &own);
  settle(p, segment, begin, end, &own);
  if (threadIdx.x == 0) {
    count_fates(p, segment, kept_before, end, left, &own);
  }
}

// --- strike ---

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
    window[threadIdx.x] = chunk_of(p.s, segment)[kept[from + threadIdx.x] - begin];
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
    struck = struck || suppressors(window, here, box, nms, false) != 0;
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
  take(arena, &suppression->chunk, cuda_ranked_room(suppression->segments, chunk_room(*suppression)));
  if (longest_of(suppression) > CHUNK) {
    take(arena, &suppression->struck, ranked / WARP + suppression->segments.count + 1);
  }
}

enum vx_status cuda_suppress(const struct cuda_run *run, const struct cuda_suppression *suppression,
                             struct vx_error *error) {
  uint32_t longest = longest_of(suppression), segments = suppression->segments.count;
  struct suppress_params p = {*suppression, 0, 0, cuda_stop_of(run), run->tally};
  for (; p.number == 0 || p.number * CHUNK < longest; p.number++) {
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

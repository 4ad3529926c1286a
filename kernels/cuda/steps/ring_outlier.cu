// Ring outlier on a GPU (kernels/step_ring_outlier.h), all clouds and rings at once.
//
// The first stage lines up the rows that are left, ring by ring: each gets a place. It is one of two:
//
//   line up  For KITTI's rings: the rows already lie ring by ring, so a prefix sum gives the places. The sum also
//            counts the turns, which begin rings (rings.h).
//   sort     For other rings: each row gets a key, its cloud and its ring, and cub sorts the rows by key. The sort is
//            stable. Rows that were dropped come last. Then each place gets a copy of its row's point.
//
// Then:
//
//   drop     Drops the walks that fall. A block decides the walks that end in its tile of places, and drops all their
//            rows. The block of the tile before tells it where the walk that crosses into its tile begins. If a ring's
//            last point is linked to its first, its last and first walk are one. So the block with the ring's end
//            decides both.
#include "kernels/cuda/base/radix_sort.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/arrival.cuh"
#include "kernels/number.h"

enum { BLOCK = 256, RINGS = VX_NO_RING + 1, WORDS = CUDA_TILE / 32 };
static_assert((int)SCAN_BLOCK == (int)BRING_BLOCK, "a block brings the rows of its tile");
static_assert(WORDS == 32, "a lane reads one word of a tile");

struct ring_outlier {
  struct vx_ring_outlier params;
  struct cuda_scan lining, dropping;
  bool counted;             // the turns give the rings
  uint32_t *keys, *rows;    // [num_points]: of each row, to be sorted
  uint32_t *sorted_keys;    // [num_points]: the ring at each place; no_key where no row is
  uint32_t *sorted_rows;    // [num_points]: of each place
  uint32_t *begins, *ends;  // places of each ring that has any
  uint32_t *first_rings;    // [num_clouds]: with turns, the first ring of each cloud that has rows
  float4 *points;           // [num_points]: x, y, z and d at each place
  uint32_t no_key;          // of rows that were dropped
};

// ---- rings from turns -----------------------------------------------------------------------------------------------

// Each turn and the first row of each cloud begin a ring. The rings of all clouds are numbered from 1. A sum counts
// rings in its upper half, rows that are left in its lower.
template <typename arrival>
static __global__ void __launch_bounds__(SCAN_BLOCK, 3)
    line_up_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own,
                   const __grid_constant__ arrival arriving) {
  __shared__ struct scan_shared shared;
  __shared__ uint64_t sums[WORDS];  // of each warp's rows
  cuda_begin_rows(r, arriving);
  uint32_t tile = scan_next_tile(own.lining.ticket, &shared), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  struct location at[SCAN_ITEMS] = {};
  uint32_t begun[SCAN_ITEMS];
  cuda_take_rows(r, arriving, (uint64_t)tile * CUDA_TILE, at, begun);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint64_t row = (uint64_t)tile * CUDA_TILE + k * SCAN_BLOCK + threadIdx.x;
    begun[k] |= __ballot_sync(~0u, row < r.clouds.num_points && cuda_begins_cloud(r.clouds, (uint32_t)row));
    uint32_t left = __ballot_sync(~0u, cuda_is_left(at[k].x));
    if (lane == 0) sums[k * SCAN_WARPS + warp] = (uint64_t)__popc(begun[k]) << 32 | (uint32_t)__popc(left);
  }
  __syncthreads();
  uint64_t own_sum = sums[lane], upto = cuda_warp_upto((unsigned long long)own_sum);
  uint64_t all = scan_sums(own.lining.tiles, tile, __shfl_sync(~0u, upto, WORDS - 1), &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint64_t before = all + __shfl_sync(~0u, upto - own_sum, k * SCAN_WARPS + warp);
    uint32_t row = tile * CUDA_TILE + k * SCAN_BLOCK + threadIdx.x, lower = (1u << lane) - 1;
    uint32_t left = __ballot_sync(~0u, cuda_is_left(at[k].x));
    if (row >= r.clouds.num_points) continue;
    bool is_left = cuda_is_left(at[k].x);
    uint32_t ring = (uint32_t)(before >> 32) + __popc(begun[k] & (lower << 1 | 1));
    uint32_t place = (uint32_t)before + __popc(left & lower);
    if ((begun[k] >> lane & 1) != 0) {
      own.begins[ring] = place;
      if (cuda_begins_cloud(r.clouds, row)) own.first_rings[cuda_cloud_of_point(r.clouds, row)] = ring;
    }
    if (row == r.clouds.num_points - 1) own.begins[ring + 1] = place + is_left;
    uint32_t to = is_left ? place : r.clouds.num_points - 1 - (row - place);  // dropped rows: from the end
    struct vx_ringed point = vx_ringed_of(at[k].x, at[k].y, at[k].z);
    own.points[to] = make_float4(point.x, point.y, point.z, point.d);
    own.sorted_rows[to] = row;
    own.sorted_keys[to] = is_left ? ring : own.no_key;
  }
  cuda_end_rows(r, arriving);
}

// ---- rings from a column --------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    keys_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (at >= r.clouds.num_points) return;
  const float *point = r.points + at * r.columns;
  uint32_t ring = (uint32_t)vx_ring_of(point[own.params.column]);
  uint32_t key = (uint32_t)cuda_cloud_of_point(r.clouds, (uint32_t)at) * RINGS + ring;
  own.keys[at] = cuda_is_left(point[0]) ? key : own.no_key;
  own.rows[at] = (uint32_t)at;
}

static enum vx_status sort_rows(const struct cuda_run *run, const struct ring_outlier *own, void *cub, size_t *bytes,
                                struct error *error) {
  int bits = vx_bits_for((int32_t)own->no_key + 1);
  struct cuda_pairs<uint32_t> pairs = {
    own->keys, own->sorted_keys, own->rows, own->sorted_rows, run->clouds.num_points, 0, bits
  };
  return cuda_sort_pairs(run, pairs, cub, bytes, error);
}

static __global__ void __launch_bounds__(BLOCK)
    place_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_wait();
  uint32_t place = blockIdx.x * BLOCK + threadIdx.x, points = r.clouds.num_points;
  if (place >= points) return;
  uint32_t key = own.sorted_keys[place], before = place > 0 ? own.sorted_keys[place - 1] : own.no_key;
  const float *from = r.points + (uint64_t)own.sorted_rows[place] * r.columns;
  struct vx_ringed point = vx_ringed_of(from[0], from[1], from[2]);
  own.points[place] = make_float4(point.x, point.y, point.z, point.d);
  if (before != key && before != own.no_key) own.ends[before] = place;
  if (before != key && key != own.no_key) own.begins[key] = place;
  if (place + 1 == points && key != own.no_key) own.ends[key] = points;
}

// ---- walks ----------------------------------------------------------------------------------------------------------

// A walk or a ring: the places first .. end - 1.
struct stretch {
  uint32_t first, end;
};

// What is open after a tile: the walk that begins at `walk`, and a ring, whose first walk has ended at `end`, or is
// open too if `end` is 0.
struct open {
  uint32_t walk, end;
};

struct tile {
  uint32_t begin;             // its first place
  bool has_ring;              // whether the first place has a ring
  struct stretch ring;        // of the first place
  uint32_t ends[WORDS];       // one bit for each place: whether a walk ends there
  uint32_t ring_ends[WORDS];  // and whether a ring does
  struct open before;         // what is open after the tile before
};

static __device__ struct vx_ringed point_at(const struct ring_outlier &own, uint32_t place) {
  float4 point = own.points[place];
  return {point.x, point.y, point.z, point.w};
}

// Called by whole warps. Returns a bit for each word that is not 0.
static __device__ uint32_t words_used(const uint32_t (&words)[WORDS]) {
  return __ballot_sync(~0u, words[threadIdx.x % 32] != 0);
}

// Returns the number of bits up to the last bit that is set before bit `at`; 0 without one.
static __device__ uint32_t upto_last(const uint32_t (&words)[WORDS], uint32_t used, uint32_t at) {
  uint32_t word = at / 32, bits = at % 32 == 0 ? 0 : words[word] & ((1u << at % 32) - 1);
  if (bits == 0) {
    used &= (uint32_t)((UINT64_C(1) << word) - 1);
    if (used == 0) return 0;
    word = 31 - __clz(used);
    bits = words[word];
  }
  return word * 32 + 32 - __clz(bits);
}

// The same for the first bit that is set from bit `at` on.
static __device__ uint32_t upto_next(const uint32_t (&words)[WORDS], uint32_t used, uint32_t at) {
  if (at == CUDA_TILE) return 0;
  uint32_t word = at / 32, bits = words[word] & (~0u << at % 32);
  if (bits == 0) {
    used &= ~1u << word;
    if (used == 0) return 0;
    word = __ffs(used) - 1;
    bits = words[word];
  }
  return word * 32 + __ffs(bits);
}

static __device__ uint32_t first_of(const struct tile &t, uint32_t used, uint32_t place) {
  uint32_t ahead = upto_last(t.ends, used, place - t.begin);
  return ahead == 0 ? t.before.walk : t.begin + ahead;
}

// The end of a walk; 0 if it is not in the tile.
static __device__ uint32_t end_of(const struct tile &t, uint32_t used, uint32_t place) {
  uint32_t upto = upto_next(t.ends, used, place - t.begin);
  return upto == 0 ? 0 : t.begin + upto;
}

// The end of a ring's first walk. The ring ends in the tile.
static __device__ uint32_t first_end_of(const struct tile &t, uint32_t used, uint32_t ring_first) {
  if (ring_first >= t.begin) return end_of(t, used, ring_first);
  return t.before.end != 0 ? t.before.end : end_of(t, used, t.begin);
}

// What is open after the tile. `rings`: the places of the tile up to the last end of a ring.
static __device__ struct open open_after(const struct tile &t, uint32_t used, uint32_t rings) {
  uint32_t walk = first_of(t, used, t.begin + CUDA_TILE);
  return {walk, rings == 0 && t.before.end != 0 ? t.before.end : end_of(t, used, t.begin + rings)};
}

static __device__ uint64_t state_of(const struct open &open) {
  return TILE_PREFIX | (uint64_t)open.end << 32 | open.walk;
}

// Called by the first warp. Finds what is open before the tile, and publishes what is open after it. If a ring ends in
// the tile, publishes first: what is open before the tile does not matter.
static __device__ void exchange(uint64_t *tiles, uint32_t number, struct tile *t) {
  volatile unsigned long long *states = (volatile unsigned long long *)tiles;
  uint32_t used = words_used(t->ends), rings = upto_last(t->ring_ends, words_used(t->ring_ends), CUDA_TILE);
  if (threadIdx.x != 0) return;
  t->before = {};
  if (rings > 0) states[number] = state_of(open_after(*t, used, rings));
  uint64_t state = number == 0 ? (uint64_t)TILE_PREFIX : 0;
  while (state == 0) state = states[number - 1];
  t->before = {(uint32_t)state, (uint32_t)((state & ~TILE_PREFIX) >> 32)};
  if (rings == 0) states[number] = state_of(open_after(*t, used, rings));
}

// False as well if a later tile decides.
static __device__ bool falls(const struct ring_outlier &own, const struct tile &t, uint32_t used, struct stretch walk,
                             struct stretch ring) {
  bool begins = walk.first == ring.first, ends = walk.end == ring.end;
  if (walk.end == 0 || (begins && ring.end > t.begin + CUDA_TILE)) return false;
  uint32_t points = walk.end - walk.first;
  struct vx_ringed from = point_at(own, walk.first), to = point_at(own, walk.end - 1);
  if (ring.end - ring.first >= 3 && (begins || ends)) {
    struct vx_ringed at_first = point_at(own, ring.first), at_last = point_at(own, ring.end - 1);
    bool linked = vx_are_linked(&own.params, &at_last, &at_first);
    if (linked && begins && ends) return false;
    if (linked && begins) {
      uint32_t first = first_of(t, used, ring.end - 1);
      points += ring.end - first;
      from = point_at(own, first);
    } else if (linked) {
      uint32_t end = first_end_of(t, used, ring.first);
      points += end - ring.first;
      to = point_at(own, end - 1);
    }
  }
  return !vx_walk_stays(&own.params, &from, &to, points);
}

static __device__ bool has_ring(const struct cuda_chain_rows &r, const struct ring_outlier &own, uint32_t row,
                                uint32_t key) {
  if (!own.counted) return key % RINGS != VX_NO_RING;
  return key - (r.clouds.count == 1 ? 1 : own.first_rings[cuda_cloud_of_point(r.clouds, row)]) < VX_NO_RING;
}

static __device__ void drop_stretch(const struct cuda_chain_rows &r, const struct ring_outlier &own,
                                    struct stretch places) {
  for (uint32_t place = places.first + threadIdx.x; place < places.end; place += CUDA_TILE)
    cuda_drop(r, own.sorted_rows[place], VX_FATE_RING_OUTLIER);
}

// Called by a whole block. Drops places before the tile, of two walks if they fall: the walk that crosses into the
// tile, if it ends there; and the first walk of the ring that crosses into the tile, if the ring ends there.
static __device__ void drop_before(const struct cuda_chain_rows &r, const struct ring_outlier &own,
                                   const struct tile &t, uint32_t used) {
  struct stretch walk = {t.before.walk, end_of(t, used, t.begin)}, first = {t.ring.first, t.before.end};
  if (walk.first < t.begin && falls(own, t, used, walk, t.ring)) drop_stretch(r, own, {walk.first, t.begin});
  if (first.first < t.begin && falls(own, t, used, first, t.ring)) drop_stretch(r, own, first);
}

// A thread has one place of the block's tile.
static __global__ void __launch_bounds__(CUDA_TILE)
    drop_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  __shared__ struct scan_shared shared;
  __shared__ struct tile t;
  cuda_begin_step();
  cuda_let_next();
  uint32_t number = scan_next_tile(own.dropping.ticket, &shared), points = r.clouds.num_points;
  cuda_wait_alone();  // the ticket has been clear since before the first kernel of the chain
  uint32_t place = number * CUDA_TILE + threadIdx.x, key = place < points ? own.sorted_keys[place] : own.no_key;
  uint32_t row = place < points ? own.sorted_rows[place] : 0;
  bool ring_ends = place < points && (place + 1 == points || own.sorted_keys[place + 1] != key), linked = false;
  if (place + 1 < points) {
    struct vx_ringed here = point_at(own, place), next = point_at(own, place + 1);
    linked = vx_are_linked(&own.params, &here, &next);
  }
  uint32_t walks_end = __ballot_sync(~0u, ring_ends || (place < points && !linked));
  uint32_t rings_end = __ballot_sync(~0u, ring_ends);
  if (threadIdx.x % 32 == 0) t.ends[threadIdx.x / 32] = walks_end, t.ring_ends[threadIdx.x / 32] = rings_end;
  struct stretch ring = {};
  if (key != own.no_key) ring = {own.begins[key], own.ends[key]};
  bool ringed = key != own.no_key && has_ring(r, own, row, key);
  if (threadIdx.x == 0) t.begin = place;
  __syncthreads();
  if (threadIdx.x < 32) exchange(own.dropping.tiles, number, &t);
  if (threadIdx.x == 0) t.ring = ring, t.has_ring = ringed;
  __syncthreads();
  uint32_t used = words_used(t.ends);
  if (key != own.no_key && !ringed) cuda_drop(r, row, VX_FATE_NO_RING);
  if (ringed && falls(own, t, used, {first_of(t, used, place), end_of(t, used, place)}, ring))
    cuda_drop(r, row, VX_FATE_RING_OUTLIER);
  if (t.has_ring) drop_before(r, own, t, used);
  cuda_end_step(r);
}

// ---- all together ---------------------------------------------------------------------------------------------------

struct arrays {
  struct ring_outlier own;
  unsigned char *cub;
  size_t cub_bytes;
};

static void lay_out(struct arrays *arrays, const struct cuda_clouds *clouds, struct cuda_arena *arena) {
  struct ring_outlier *own = &arrays->own;
  uint64_t rows = clouds->num_points, rings = (uint64_t)clouds->count * RINGS;
  if (own->counted) {
    take(arena, &own->first_rings, (uint64_t)clouds->count);
    take(arena, &own->begins, rows + 2);  // each row may begin a ring
    own->ends = own->begins + 1;
  } else {
    take(arena, &own->keys, rows);
    take(arena, &own->rows, rows);
    take(arena, &arrays->cub, arrays->cub_bytes);
    take(arena, &own->begins, rings);
    take(arena, &own->ends, rings);
  }
  take(arena, &own->sorted_keys, rows);
  take(arena, &own->sorted_rows, rows);
  take(arena, &own->points, rows);
}

static enum vx_status sort_by_ring(struct cuda_chain *chain, struct arrays *arrays, struct error *error) {
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  CUDA_TRY(cuda_settle_rows(chain, error));
  CUDA_TRY(cuda_launch("keys_kernel", keys_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, arrays->own));
  CUDA_TRY(sort_rows(&chain->run, &arrays->own, arrays->cub, &arrays->cub_bytes, error));
  return cuda_launch("place_kernel", place_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, arrays->own);
}

enum vx_status cuda_step_ring_outlier(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  struct arrays arrays = {};
  struct ring_outlier &own = arrays.own;
  const struct cuda_run *run = &chain->run;
  const struct cuda_clouds *clouds = &chain->rows.clouds;
  own.params = step->params.ring_outlier;
  own.counted = own.params.column == VX_KITTI_RINGS;
  own.no_key = own.counted ? 0 : (uint32_t)clouds->count * RINGS;
  if (!own.counted) CUDA_TRY(sort_rows(run, &own, NULL, &arrays.cub_bytes, error));
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(&arrays, clouds, arena); }));
  own.dropping = cuda_take_scan(chain);
  if (own.counted) {
    own.lining = cuda_take_scan(chain);
    CUDA_TRY(cuda_launch_first(chain, "line_up_kernel", line_up_kernel<struct cuda_arrival>,
                               line_up_kernel<struct cuda_in_place>, own.lining.num_tiles, error, own));
  } else {
    CUDA_TRY(sort_by_ring(chain, &arrays, error));
  }
  return cuda_launch("drop_kernel", drop_kernel, own.dropping.num_tiles, CUDA_TILE, 0, run, error, chain->rows, own);
}

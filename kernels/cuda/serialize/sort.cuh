// A stable radix sort of several segments of equal length at once, such as the codes of all curves.
//
// A pass, which is one kernel, sorts by one digit. A block has one tile of a segment. A key's new place is the sum of:
//   the number of keys with lower digits: the digits of all passes are counted before the first pass;
//   the number of keys with its digit in earlier tiles: by decoupled look-back (scan.cuh), for each digit;
//   the number of keys with its digit in earlier warps of the tile;
//   its rank among the keys of its warp with its digit.
//
// The first pass takes the rows as they are; the last writes their order and its inverse. Between them, rows are in the
// keys, in place of sorted digits, if there is room. The host may enqueue the first pass before it knows the numbers of
// rows and bits.
#ifndef VOXELD_CUDA_SERIALIZE_SORT_CUH
#define VOXELD_CUDA_SERIALIZE_SORT_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"

enum {
  SORT_BITS = 9,  // of a digit
  SORT_DIGITS = 1 << SORT_BITS,
  SORT_BLOCK = SORT_DIGITS,  // a thread for each digit
  SORT_WARPS = SORT_BLOCK / 32,
  SORT_ITEMS = 5,  // keys of a thread
  SORT_TILE = SORT_BLOCK * SORT_ITEMS,
  SORT_AHEAD = 16,                                // states that a thread reads together as it looks back
  SORT_PASSES = (64 + SORT_BITS - 1) / SORT_BITS  // at most
};
enum : uint32_t { SORT_PREFIX = UINT32_C(1) << 31 };  // in a state: the keys up to the tile's end

struct sort {
  uint32_t rows, segments, tiles;  // tiles: of a segment
  const uint32_t *known_rows;      // device, [1]: the rows of the first pass, at most `rows`; NULL: `rows`
  int bits;                        // of the keys
  int row_bits;                    // the lowest bits of a key after the first pass: its row; 0: rows are in `ids`
  uint32_t *counts;                // [passes, segments, digits]: keys with each digit; 0 when a job begins
  uint32_t *tickets;               // [passes]: the next tile; 0 when a job begins
  // [2 passes, segments, tiles, digits]. 0: nothing is known. 1 + n, up to SORT_TILE + 1: the tile has n keys with the
  // digit. SORT_PREFIX | n: all tiles up to the tile's end have n. A pass clears the states of the next pass.
  uint32_t *states[2];
  uint64_t *keys[2];          // [segments, rows]: what a pass writes for the next one
  uint32_t *ids[2];           // [segments, rows]: the rows of these keys
  uint32_t *order, *inverse;  // [segments, rows]; inverse: or NULL
};

// One pass: where its keys come from and go to. NULL if it does not read or write them.
struct sort_pass {
  int number, shift;  // of the digit
  const uint64_t *keys;
  const uint32_t *ids;
  uint64_t *sorted_keys;
  uint32_t *sorted_ids;
  bool last;
  unsigned long long *moment;  // becomes the moment when the last pass has ended
};

// At least two, so that the first is not the last.
static __host__ __device__ inline int sort_passes(int bits) {
  return bits <= 2 * SORT_BITS ? 2 : (bits + SORT_BITS - 1) / SORT_BITS;
}
static __host__ __device__ inline uint32_t sort_tiles(uint32_t rows) { return (rows + SORT_TILE - 1) / SORT_TILE; }

static __host__ __device__ inline void sort_set_sizes(struct sort *sort, uint32_t rows, int bits) {
  sort->rows = rows;
  sort->tiles = sort_tiles(rows);
  sort->bits = bits;
}

// Words of tickets and counts, for keys of at most that many bits.
static inline uint64_t sort_zero_words(int bits, uint64_t segments) {
  return (uint64_t)sort_passes(bits) * (segments * SORT_DIGITS + 1);
}

// Takes the words from `*words`, which then points past them.
static inline void sort_take_zeros(struct sort *sort, int bits, uint32_t **words) {
  sort->tickets = *words;
  sort->counts = *words + sort_passes(bits);
  *words += sort_zero_words(bits, sort->segments);
}

static __device__ inline uint32_t sort_digit(uint64_t key, int shift) {
  return (uint32_t)(key >> shift) & (SORT_DIGITS - 1);
}

// The lanes of the warp with the same digit, by a vote for each bit.
static __device__ inline uint32_t sort_peers(uint32_t digit) {
  uint32_t peers = ~0u;
#pragma unroll
  for (int bit = 0; bit <= SORT_BITS; bit++) {  // one bit more, since a lane without a key has the digit SORT_DIGITS
    bool set = (digit >> bit & 1) != 0;
    uint32_t votes = __ballot_sync(~0u, set);
    peers &= set ? votes : ~votes;
  }
  return peers;
}

// The blocks that count a segment's digits, a key for each thread.
static __host__ __device__ inline uint32_t sort_parts(uint32_t rows) { return (rows + SORT_BLOCK - 1) / SORT_BLOCK; }

// Called by a whole block for one part of a segment, with a key for each thread. Counts the keys' digits for all
// passes, and clears the states of the first pass. `digits`: [passes, digits], in shared memory.
static __device__ inline void sort_count(const struct sort &s, uint32_t segment, uint32_t part, uint64_t key, bool here,
                                         uint32_t *digits) {
  int passes = sort_passes(s.bits);
  for (int pass = 0; pass < passes; pass++) digits[pass * SORT_DIGITS + threadIdx.x] = 0;
  if (part < s.tiles) s.states[0][((uint64_t)segment * s.tiles + part) * SORT_DIGITS + threadIdx.x] = 0;
  __syncthreads();
  for (int pass = 0; pass < passes; pass++) {
    uint32_t digit = here ? sort_digit(key, SORT_BITS * pass) : SORT_DIGITS, peers = sort_peers(digit);
    if (here && threadIdx.x % 32 == __ffs(peers) - 1) atomicAdd(&digits[pass * SORT_DIGITS + digit], __popc(peers));
  }
  __syncthreads();
  for (int pass = 0; pass < passes; pass++) {
    uint32_t keys_with_digit = digits[pass * SORT_DIGITS + threadIdx.x];
    uint32_t *counts = s.counts + ((uint64_t)pass * s.segments + segment) * SORT_DIGITS;
    if (keys_with_digit != 0) atomicAdd(&counts[threadIdx.x], keys_with_digit);
  }
}

// Counts the digits of keys that are in memory.
static __global__ void __launch_bounds__(SORT_BLOCK)
    sort_count_kernel(const __grid_constant__ struct sort s, const uint64_t *from) {
  __shared__ uint32_t digits[SORT_PASSES * SORT_DIGITS];
  cuda_wait();
  uint32_t parts = sort_parts(s.rows), segment = blockIdx.x / parts, part = blockIdx.x % parts;
  uint32_t row = part * SORT_BLOCK + threadIdx.x;
  bool here = row < s.rows;
  sort_count(s, segment, part, here ? from[(uint64_t)segment * s.rows + row] : 0, here, digits);
}

// Returns the sum over the segment's tiles before this one. `states`: of the thread's digit. Reads several states at
// once, which takes as long as reading one, and the missing ones again.
static __device__ inline uint32_t sort_look_back(const volatile uint32_t *states, uint32_t tile) {
  uint32_t before = 0;
  for (int64_t at = (int64_t)tile - 1; at >= 0;) {
    uint32_t some[SORT_AHEAD];
    int known = 0;
#pragma unroll
    for (int i = 0; i < SORT_AHEAD; i++) some[i] = at - i >= 0 ? states[(at - i) * SORT_DIGITS] : SORT_PREFIX;
#pragma unroll
    for (int i = 0; i < SORT_AHEAD; i++) {
      if (known < i || some[i] == 0) continue;
      if (some[i] >= SORT_PREFIX) return before + (some[i] - SORT_PREFIX);
      before += some[i] - 1;
      known++;
    }
    at -= known;
  }
  return before;
}

struct sort_shared {
  uint16_t counts[SORT_WARPS][SORT_DIGITS];  // of each warp; then of the warps before it
  uint32_t begins[SORT_DIGITS];              // where the tile's keys with each digit begin
  uint32_t ticket;
};

// Ranks the keys of a thread among those of its warp. Items are in the order of k, then of the lanes.
static __device__ inline void sort_rank(uint16_t *counts, const uint32_t (&digits)[SORT_ITEMS],
                                        uint32_t (&ranks)[SORT_ITEMS]) {
  uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < SORT_ITEMS; k++) {
    uint32_t peers = sort_peers(digits[k]), leader = __ffs(peers) - 1, before = 0;
    if (lane == leader && digits[k] < SORT_DIGITS) {
      before = counts[digits[k]];
      counts[digits[k]] = (uint16_t)(before + __popc(peers));
    }
    ranks[k] = __shfl_sync(~0u, before, leader) + __popc(peers & ((1u << lane) - 1));
    __syncwarp();
  }
}

// Called by a whole block, a thread for each digit. Replaces the count of each warp by the sum over the warps before
// it. Returns the number of the tile's keys with the digit.
static __device__ inline uint32_t sort_add_warps(struct sort_shared *shared) {
  uint32_t sum = 0;
#pragma unroll
  for (int warp = 0; warp < SORT_WARPS; warp++) {
    uint32_t own = shared->counts[warp][threadIdx.x];
    shared->counts[warp][threadIdx.x] = (uint16_t)sum;
    sum += own;
  }
  return sum;
}

// Each pass waits in turn, since the passes after the first read the counts before their own wait. `beside`: what the
// threads of the second pass do first, maybe while the first pass still runs. So `beside` must bypass the first-level
// cache, and may read only what kernels before the first pass wrote.
template <typename function>
static __global__ void __launch_bounds__(SORT_BLOCK)
    sort_kernel(const __grid_constant__ struct sort s, const __grid_constant__ struct sort_pass p,
                const __grid_constant__ function beside) {
  __shared__ struct sort_shared shared;
  uint32_t warp = threadIdx.x / 32, rows = s.rows, unused;
  if (threadIdx.x == 0) shared.ticket = atomicAdd(&s.tickets[p.number], 1);
#pragma unroll
  for (int i = 0; i < SORT_WARPS; i++) shared.counts[i][threadIdx.x] = 0;
  if (p.number == 1) beside((uint64_t)blockIdx.x * SORT_BLOCK + threadIdx.x, (uint64_t)gridDim.x * SORT_BLOCK);
  __syncthreads();
  if (p.number == 0) cuda_wait_in_turn();
  if (p.number == 0 && s.known_rows) rows = *s.known_rows;
  uint32_t tiles = sort_tiles(rows), segment = tiles > 0 ? shared.ticket / tiles : s.segments;
  if (segment >= s.segments) return;
  uint32_t tile = shared.ticket - segment * tiles;
  const uint32_t *counts = s.counts + ((uint64_t)p.number * s.segments + segment) * SORT_DIGITS;
  uint32_t lower = cuda_block_before(__ldcg(&counts[threadIdx.x]), &unused);
  if (p.number > 0) cuda_wait_in_turn();
  uint64_t first = (uint64_t)segment * rows, at = (uint64_t)shared.ticket * SORT_DIGITS + threadIdx.x;
  uint32_t begin = tile * SORT_TILE + warp * SORT_ITEMS * 32 + threadIdx.x % 32;
  s.states[(p.number + 1) % 2][at] = 0;
  uint64_t keys[SORT_ITEMS];
  uint32_t ids[SORT_ITEMS], digits[SORT_ITEMS], ranks[SORT_ITEMS];
#pragma unroll
  for (int k = 0; k < SORT_ITEMS; k++) {
    uint32_t row = begin + k * 32;
    bool here = row < rows;
    keys[k] = here ? p.keys[first + row] : 0;
    ids[k] = here && p.ids ? p.ids[first + row] : row;
    digits[k] = here ? sort_digit(keys[k], p.shift) : SORT_DIGITS;
    if (s.row_bits > 0 && p.number == 0) keys[k] = keys[k] >> SORT_BITS << s.row_bits | row;
    if (s.row_bits > 0 && p.last) ids[k] = (uint32_t)keys[k] & ((1u << s.row_bits) - 1);
  }
  sort_rank(shared.counts[warp], digits, ranks);
  __syncthreads();
  uint32_t own = sort_add_warps(&shared);
  volatile uint32_t *states = s.states[p.number % 2];
  states[at] = tile == 0 ? SORT_PREFIX | own : own + 1;
  uint32_t before = tile == 0 ? 0 : sort_look_back(states + at - (uint64_t)tile * SORT_DIGITS, tile);
  if (tile > 0) states[at] = SORT_PREFIX | (before + own);
  shared.begins[threadIdx.x] = lower + before;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < SORT_ITEMS; k++) {
    if (digits[k] == SORT_DIGITS) continue;
    uint32_t to = shared.begins[digits[k]] + shared.counts[warp][digits[k]] + ranks[k];
    if (p.sorted_keys) p.sorted_keys[first + to] = keys[k];
    if (p.sorted_ids) p.sorted_ids[first + to] = ids[k];
    if (p.last) s.order[first + to] = ids[k];
    if (p.last && s.inverse) s.inverse[first + ids[k]] = to;
  }
  __syncthreads();
  if (threadIdx.x == 0 && p.moment) atomicMax(p.moment, cuda_now());
}

// Enqueues one pass of a sort whose digits are counted. `keys`: of the first pass. `keys_wanted`: the last pass also
// writes the sorted keys, where sort_sorted says. `moment`: as in sort_pass, or NULL.
template <typename function>
VX_WARN_UNUSED static inline enum vx_status sort_enqueue(const struct cuda_run *run, const struct sort &s, int number,
                                                         const uint64_t *keys, bool keys_wanted, const function &beside,
                                                         unsigned long long *moment, struct error *error) {
  bool last = number == sort_passes(s.bits) - 1, first = number == 0, packed = s.row_bits > 0;
  const struct sort_pass pass = {number,
                                 packed && !first ? s.row_bits + SORT_BITS * (number - 1) : SORT_BITS * number,
                                 first ? keys : s.keys[(number + 1) % 2],
                                 packed || first ? NULL : s.ids[(number + 1) % 2],
                                 last && !keys_wanted ? NULL : s.keys[number % 2],
                                 packed || last ? NULL : s.ids[number % 2],
                                 last,
                                 last ? moment : NULL};
  return cuda_launch("sort_kernel", sort_kernel<function>, (uint64_t)s.tiles * s.segments, SORT_BLOCK, 0, run, error, s,
                     pass, beside);
}

// Enqueues all passes but the first.
template <typename function>
VX_WARN_UNUSED static inline enum vx_status sort_rest(const struct cuda_run *run, const struct sort &s,
                                                      bool keys_wanted, const function &beside,
                                                      unsigned long long *moment, struct error *error) {
  for (int number = 1; number < sort_passes(s.bits); number++)
    CUDA_TRY(sort_enqueue(run, s, number, NULL, keys_wanted, beside, moment, error));
  return VX_OK;
}

// The sorted keys, if they are wanted.
static inline const uint64_t *sort_sorted(const struct sort &s) { return s.keys[(sort_passes(s.bits) + 1) % 2]; }

#endif

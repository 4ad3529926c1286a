// The kernel that takes sample after sample: a cluster of a few blocks a cloud (one block where there are no clusters).
//
// Each warp owns buckets, neighbours belonging to different warps. Each lane holds, in registers, the boxes of `rounds` of
// its warp's buckets and of each the row that is farthest from all samples. A step: every lane holds its boxes against the
// new sample. By float32's monotonic rounding the distance to a box, computed as those of points are, is at most that of
// any point in it; where it is not below the bucket's largest distance, nothing in the bucket changes. The other buckets,
// a few, are gone through by their warp.
//
// Then each warp tells all others its farthest row, through the shared memory of its block and of the others of the
// cluster, and all know the next sample. Mostly they know a few more: the next farthest row that was told is the sample
// after that if it is as far from the new one as from those before, and if the warps whose rows were taken have, by the
// bounds that they told too, nothing that is as far. So one exchange serves for several samples.
//
// A step is a chain of operations that wait for each other, and takes as long as they do; what is not in the chain is
// almost free. So the code that each step runs has no branch that it can do without, and ties, which are rare, a path of
// their own.
//
// Every order of rows gives the same samples: equal distances are decided by the rows' numbers. (The idea of pruning
// buckets: Han et al., QuickFPS, 2023.)
#include "kernels/cuda/fps/cluster.cuh"
#include "kernels/cuda/fps/fps.cuh"

enum {
  MAX_CLUSTER = 4,
  SENDERS = 32,      // most warps of a cluster: a lane each
  STOP_TURNS = 128,  // the host is asked so often whether to stop: each time costs more than an exchange
};
#define NO_KEY 0u            // of nothing
#define STOP_KEY UINT32_MAX  // above all others
#define NOT_A_ROW                                                                                                      \
  0xFFFFFFFFu  // bits of the distance of what is beyond the cloud's rows: no number is less, its key is 0

struct sample_params {
  const struct cuda_fps_cloud *clouds;
  const struct cuda_fps_box *boxes;
  const uint32_t *candidates;  // [num_clouds]
  const float *rows;
  uint32_t columns, num_clouds;
  const float4 *places;           // [num_rows]: x, y, z, number in the cloud
  float *far_distances;           // [num_rows]: squared, to the samples; where they do not fit in shared memory
  uint32_t bucket;                // rows, a multiple of 32
  uint32_t near_rows;             // that shared memory has room for
  int32_t *indices;               // [num_samples]
  float *distances;               // [num_samples]
  const volatile uint32_t *stop;  // host: the sequence number of a job that is to stop
  uint32_t sequence;
};

// A row and the key of its squared distance to the samples. Keys are ordered as distances are: the float's bits, and one.
struct candidate {
  uint32_t key;
  uint32_t bound;  // key that no other row of the same warp is above once this one is a sample
  float4 row;      // x, y, z, number in the cloud
};

// What warps tell each other. Two of each take turns: when one exchange is over, all have read what came in the one before.
struct exchange {
  uint2 keys[2][SENDERS];  // key and bound
  float4 rows[2][SENDERS];
  uint64_t barriers[2];
};

// Where a thread is, and the cloud in hand.
struct station {
  uint32_t rank, size;   // in the cluster
  uint32_t warp, warps;  // in the block
  uint32_t turn;         // of the exchanges
  uint32_t exchange;     // address in shared memory; finding it anew would cost as much as a load
  uint32_t num_rows;     // candidates of the cloud
  uint32_t first, step;  // this lane's row of its warp's first bucket, and how far it is to the next bucket's
  const float4 *places;
  float *far_distances;
};

template <int rounds> struct buckets {
  float low[rounds][3], high[rounds][3];
  uint32_t key[rounds], place[rounds];  // of the farthest row
};

static __device__ uint32_t warp_min(uint32_t value) { return ~cuda_warp_max(~value); }

static __device__ uint32_t key_of(float distance) { return __float_as_uint(distance) + 1; }

static __device__ float distance_of_key(uint32_t key) { return __uint_as_float(key - 1); }

static __device__ uint32_t number_of(const float4 &row) { return __float_as_uint(row.w); }

static __device__ uint32_t highest_lane(uint32_t lanes) { return 31 - __clz(lanes); }

static __device__ bool is_one_lane(uint32_t lanes) { return (lanes & (lanes - 1)) == 0; }

// Of the lanes that are meant, whose rows are in `places`, the one whose row has the lowest number.
static __device__ uint32_t lowest_numbered(const float4 *places, bool meant, uint32_t place) {
  uint32_t number = meant ? number_of(places[place]) : UINT32_MAX, lowest = warp_min(number);
  return highest_lane(__ballot_sync(~0u, meant && number == lowest));
}

// --- buckets ---

static __device__ float square_distance(float dx, float dy, float dz) { return dx * dx + dy * dy + dz * dz; }

static __device__ float beyond(float low, float high, float at) { return fmaxf(fmaxf(low - at, at - high), 0.0f); }

// The distances of the block's rows, where they are near: in shared memory, bucket after bucket. Else they lie as the
// places do. (Places are only read, so that the first-level cache keeps them.)
extern __shared__ float near_distances[];

template <bool far> static __device__ float *distance_of(const struct station &here, uint32_t slot, uint32_t place) {
  return far ? here.far_distances + place : near_distances + slot * blockDim.x + threadIdx.x;
}

// One row of this lane's after the new sample: its key.
template <bool far>
static __device__ uint32_t update_row(const struct station &here, uint32_t slot, uint32_t place, const float4 &sample) {
  float *distance = distance_of<far>(here, slot, place);
  float4 row = here.places[place];
  float before = *distance, now = square_distance(row.x - sample.x, row.y - sample.y, row.z - sample.z);
  now = now < before ? now : before;
  *distance = now;
  return key_of(now);
}

// This lane's part of a bucket after the new sample: the farthest row's key, and its place.
template <bool far>
static __device__ uint32_t update_lane(const struct sample_params &p, const struct station &here, uint32_t slot,
                                       const float4 &sample, uint32_t *place) {
  *place = here.first + slot * here.step;
  if (!far) {
    return update_row<far>(here, slot, *place, sample);
  }
  uint32_t key = NO_KEY, first = *place;
  for (uint32_t at = first; at < first + p.bucket && at < here.num_rows; at += 32) {
    uint32_t other = update_row<far>(here, slot, at, sample);
    if (other > key || (other == key && number_of(here.places[at]) < number_of(here.places[*place]))) {
      key = other;
      *place = at;
    }
  }
  return key;
}

// As a warp: `count` buckets of a round after the new sample, side by side, so that one's waiting hides the other's.
template <int rounds, bool far, int count>
static __device__ void update_buckets(const struct sample_params &p, const struct station &here, int round,
                                      const uint32_t (&owners)[count], const float4 &sample,
                                      struct buckets<rounds> *buckets) {
  uint32_t keys[count], places[count], tops[count], lanes[count];
#pragma unroll
  for (int i = 0; i < count; i++) {
    keys[i] = update_lane<far>(p, here, (uint32_t)round * 32 + owners[i], sample, &places[i]);
  }
#pragma unroll
  for (int i = 0; i < count; i++) {
    tops[i] = cuda_warp_max(keys[i]);
    lanes[i] = __ballot_sync(~0u, keys[i] == tops[i]);
  }
#pragma unroll
  for (int i = 0; i < count; i++) {
    uint32_t winner = highest_lane(lanes[i]);
    if (!is_one_lane(lanes[i])) {
      winner = lowest_numbered(here.places, keys[i] == tops[i], places[i]);
    }
    uint32_t place = far ? __shfl_sync(~0u, places[i], winner) : places[i] - threadIdx.x % 32 + winner;
    if (threadIdx.x % 32 == owners[i]) {
      buckets->key[round] = tops[i];
      buckets->place[round] = place;
    }
  }
}

// Of this lane's buckets that have this key the one whose row has the lowest number.
template <int rounds>
static __device__ int lowest_round(const struct station &here, const struct buckets<rounds> &buckets, uint32_t key) {
  int lowest = 0;
  uint32_t number = UINT32_MAX;
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    uint32_t other = buckets.key[r] == key ? number_of(here.places[buckets.place[r]]) : UINT32_MAX;
    lowest = other < number ? r : lowest;
    number = min(number, other);
  }
  return lowest;
}

// The farthest of this lane's rows of a bucket, were `sample` one: its key.
template <bool far>
static __device__ uint32_t key_after(const struct sample_params &p, const struct station &here, uint32_t slot,
                                     const float4 &sample) {
  uint32_t key = NO_KEY, first = here.first + slot * here.step;
  for (uint32_t at = first; at < first + (far ? p.bucket : FPS_BUCKET) && at < here.num_rows; at += 32) {
    float4 row = here.places[at];
    float before = *distance_of<far>(here, slot, at);
    float now = square_distance(row.x - sample.x, row.y - sample.y, row.z - sample.z);
    key = max(key, key_of(now < before ? now : before));
  }
  return key;
}

// As a warp: the farthest row of its buckets.
template <int rounds, bool far>
static __device__ struct candidate find_best(const struct sample_params &p, const struct station &here,
                                             const struct buckets<rounds> &buckets) {
  uint32_t key = buckets.key[0], place = buckets.place[0];
  int round = 0;
  bool same = false;
#pragma unroll
  for (int r = 1; r < rounds; r++) {
    bool above = buckets.key[r] > key;
    same = buckets.key[r] == key || (same && !above);
    round = above ? r : round;
    place = above ? buckets.place[r] : place;
    key = above ? buckets.key[r] : key;
  }
  uint32_t top = cuda_warp_max(key), lanes = __ballot_sync(~0u, key == top), owner = highest_lane(lanes);
  uint32_t tied = rounds == 1 ? 0 : __ballot_sync(~0u, key == top && same);
  if ((!is_one_lane(lanes) || tied != 0) && top != NO_KEY) {
    round = lowest_round(here, buckets, top);
#pragma unroll
    for (int r = 0; r < rounds; r++) {
      place = r == round ? buckets.place[r] : place;
    }
    owner = lowest_numbered(here.places, key == top, place);
  }
  float4 row = here.places[__shfl_sync(~0u, place, owner)];
  if (top == NO_KEY) {
    return {NO_KEY, NO_KEY, row};  // a warp without rows
  }
  round = rounds == 1 ? 0 : __shfl_sync(~0u, round, owner);
  // Of the other buckets as they are, of its own as it would be.
  uint32_t others = key_after<far>(p, here, (uint32_t)round * 32 + owner, row);
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    bool is_own = threadIdx.x % 32 == owner && r == round;
    others = max(others, is_own ? NO_KEY : buckets.key[r]);
  }
  return {top, cuda_warp_max(others), row};
}

// As a warp: the new sample's effect on all of its buckets. Whether there was any.
template <int rounds, bool far>
static __device__ bool apply(const struct sample_params &p, const struct station &here, const float4 &sample,
                             struct buckets<rounds> *buckets) {
  uint32_t any = 0;
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    const float *low = buckets->low[r], *high = buckets->high[r];
    float distance = square_distance(beyond(low[0], high[0], sample.x), beyond(low[1], high[1], sample.y),
                                     beyond(low[2], high[2], sample.z));
    // Of an empty bucket the key is 0 and this no number.
    uint32_t close = __ballot_sync(~0u, distance < distance_of_key(buckets->key[r]));
    any |= close;
    while (close != 0) {
      uint32_t owner = highest_lane(close);
      close ^= 1u << owner;
      if (close == 0) {
        update_buckets<rounds, far>(p, here, r, {owner}, sample, buckets);
      } else {
        uint32_t other = highest_lane(close);
        close ^= 1u << other;
        update_buckets<rounds, far>(p, here, r, {owner, other}, sample, buckets);
      }
    }
  }
  return any != 0;
}

// As a warp: the box of a bucket and its first row, all rows being infinitely far from no samples.
template <int rounds, bool far>
static __device__ void measure_bucket(const struct sample_params &p, const struct station &here, int round,
                                      uint32_t owner, struct buckets<rounds> *buckets) {
  float low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
  uint32_t slot = (uint32_t)round * 32 + owner, first = here.first + slot * here.step, number = UINT32_MAX, place = 0;
  if (!far && slot * blockDim.x < p.near_rows) {
    near_distances[slot * blockDim.x + threadIdx.x] = __uint_as_float(NOT_A_ROW);
  }
  for (uint32_t at = first; at < first + p.bucket && at < here.num_rows; at += 32) {
    float4 row = here.places[at];
    const float coordinates[3] = {row.x, row.y, row.z};
    for (int axis = 0; axis < 3; axis++) {
      low[axis] = fminf(low[axis], coordinates[axis]);
      high[axis] = fmaxf(high[axis], coordinates[axis]);
    }
    *distance_of<far>(here, slot, at) = INFINITY;
    place = number_of(row) < number ? at : place;
    number = min(number, number_of(row));
  }
  for (int axis = 0; axis < 3; axis++) {
    for (int offset = 16; offset > 0; offset /= 2) {
      low[axis] = fminf(low[axis], __shfl_xor_sync(~0u, low[axis], offset));
      high[axis] = fmaxf(high[axis], __shfl_xor_sync(~0u, high[axis], offset));
    }
  }
  uint32_t lowest = warp_min(number);
  place = __shfl_sync(~0u, place, highest_lane(__ballot_sync(~0u, number == lowest)));
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    if (r == round && threadIdx.x % 32 == owner) {
      buckets->key[r] = lowest == UINT32_MAX ? NO_KEY : key_of(INFINITY);
      buckets->place[r] = place;
      for (int axis = 0; axis < 3; axis++) {
        buckets->low[r][axis] = low[axis];
        buckets->high[r][axis] = high[axis];
      }
    }
  }
}

// --- the farthest of all ---

static __device__ void put(uint32_t address, uint32_t row_address, const struct candidate &mine) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(mine.key), "r"(mine.bound) : "memory");
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "f"(mine.row.x), "f"(mine.row.y),
               "f"(mine.row.z), "f"(mine.row.w)
               : "memory");
}

static __device__ struct candidate get(uint32_t address, uint32_t row_address) {
  struct candidate told;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(told.key), "=r"(told.bound) : "r"(address) : "memory");
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(told.row.x), "=f"(told.row.y), "=f"(told.row.z), "=f"(told.row.w)
               : "r"(row_address)
               : "memory");
  return told;
}

// As all warps of the cluster: tells each its own farthest row; every lane gets that of one warp.
static __device__ struct candidate exchange_rows(struct station *here, const struct candidate &mine) {
  uint32_t parity = here->turn % 2, phase = here->turn / 2 % 2, lane = threadIdx.x % 32;
  uint32_t entry = here->rank * here->warps + here->warp, count = here->size * here->warps;
  uint32_t keys = here->exchange + (uint32_t)(offsetof(struct exchange, keys) + parity * SENDERS * sizeof(uint2));
  uint32_t rows = here->exchange + (uint32_t)(offsetof(struct exchange, rows) + parity * SENDERS * sizeof(float4));
  uint32_t key_entry = keys + entry * (uint32_t)sizeof(uint2), row_entry = rows + entry * (uint32_t)sizeof(float4);
  here->turn++;
  if (here->size == 1) {
    if (lane == 0) {
      put(key_entry, row_entry, mine);
    }
    __syncthreads();
  } else {
    uint32_t barrier = here->exchange + (uint32_t)(offsetof(struct exchange, barriers) + parity * sizeof(uint64_t));
    if (threadIdx.x == 0) {
      barrier_expect(barrier, count * (uint32_t)(sizeof(uint2) + sizeof(float4)));
    }
    if (lane < here->size) {
      uint32_t remote_barrier = address_in(barrier, lane);
      send_row(address_in(row_entry, lane), remote_barrier, mine.row);
      send_words(address_in(key_entry, lane), remote_barrier, mine.key, mine.bound);
    }
    barrier_wait(barrier, phase);
  }
  struct candidate told = {NO_KEY, NO_KEY, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
  if (lane < count) {
    told = get(keys + lane * (uint32_t)sizeof(uint2), rows + lane * (uint32_t)sizeof(float4));
  }
  return told;
}

// The rows that have been told, one a lane, and what is known of them.
struct told {
  struct candidate row;
  uint32_t key;       // of this lane's row; NO_KEY once it is taken
  uint32_t affected;  // lanes whose rows are nearer to a sample of this exchange
  uint32_t floor;     // key that nothing of the warps whose rows are taken is above
};

// As a warp: the next sample. False where it is not known before the next exchange; the first of an exchange always is.
static __device__ bool take_farthest(struct told *told, bool first, struct candidate *sample) {
  uint32_t key = cuda_warp_max(told->key), lanes = __ballot_sync(~0u, told->key == key), winner = highest_lane(lanes);
  if (!is_one_lane(lanes)) {
    uint32_t number = told->key == key ? number_of(told->row.row) : UINT32_MAX, lowest = warp_min(number);
    winner = highest_lane(__ballot_sync(~0u, told->key == key && number == lowest));
  }
  if (!first && (key <= told->floor || (told->affected >> winner & 1) != 0)) {
    return false;
  }
  const float4 &mine = told->row.row;
  sample->key = key;
  sample->row = make_float4(__shfl_sync(~0u, mine.x, winner), __shfl_sync(~0u, mine.y, winner),
                            __shfl_sync(~0u, mine.z, winner), __shfl_sync(~0u, mine.w, winner));
  told->floor = max(told->floor, __shfl_sync(~0u, told->row.bound, winner));
  float distance = square_distance(mine.x - sample->row.x, mine.y - sample->row.y, mine.z - sample->row.z);
  told->affected |= __ballot_sync(~0u, distance < distance_of_key(told->row.key));
  told->key = threadIdx.x % 32 == winner ? NO_KEY : told->key;
  return true;
}

// --- a cloud ---

static __device__ struct candidate first_sample(const struct sample_params &p, uint32_t cloud) {
  const struct cuda_fps_box &box = p.boxes[cloud];
  uint32_t number = box.first_from_start != CUDA_NO_POINT ? box.first_from_start : box.first;
  const float *row = p.rows + ((uint64_t)p.clouds[cloud].first_row + number) * p.columns;
  return {key_of(INFINITY), NO_KEY, make_float4(row[0], row[1], row[2], __uint_as_float(number))};
}

static __device__ void record(const struct sample_params &p, const struct station &here, uint32_t at,
                              const struct candidate &sample) {
  if (here.rank == 0 && threadIdx.x == 0) {
    p.indices[at] = (int32_t)number_of(sample.row);
    p.distances[at] = distance_of_key(sample.key);
  }
}

template <int rounds, bool far>
static __device__ void sample_cloud(const struct sample_params &p, uint32_t cloud, struct station *here) {
  uint32_t num_samples = p.clouds[cloud].num_samples, at = p.clouds[cloud].first_sample;
  here->num_rows = p.candidates[cloud];
  here->places = p.places + p.clouds[cloud].first_row;
  here->far_distances = p.far_distances + p.clouds[cloud].first_row;
  here->first = (here->warp * here->size + here->rank) * p.bucket + threadIdx.x % 32;
  here->step = here->warps * here->size * p.bucket;
  if (num_samples == 0 || num_samples > here->num_rows) {
    return;
  }
  struct buckets<rounds> buckets;
  for (int slot = 0; slot < rounds * 32; slot++) {
    measure_bucket<rounds, far>(p, *here, slot / 32, slot % 32, &buckets);
  }
  struct candidate sample = first_sample(p, cloud), best = {};
  record(p, *here, at, sample);
  bool changed = true;
  apply<rounds, far>(p, *here, sample.row, &buckets);
  for (uint32_t taken = 1; taken < num_samples;) {
    if (changed) {
      best = find_best<rounds, far>(p, *here, buckets);
    }
    // All of a warp, as each lane tells another block.
    if (here->rank == 0 && here->warp == 0 && here->turn % STOP_TURNS == 0 && *p.stop == p.sequence) {
      best.key = STOP_KEY;
    }
    struct candidate mine = exchange_rows(here, best);
    struct told told = {mine, mine.key, 0, NO_KEY};
    changed = false;
    for (bool first = true; taken < num_samples && take_farthest(&told, first, &sample); first = false) {
      if (sample.key == STOP_KEY) {
        return;
      }
      record(p, *here, at + taken++, sample);
      changed |= apply<rounds, far>(p, *here, sample.row, &buckets);
    }
  }
}

template <int warps, int rounds, bool far>
static __global__ void __launch_bounds__(warps * 32, 1)
    fps_sample_kernel(const __grid_constant__ struct sample_params p) {
  __shared__ struct exchange exchange;
  struct station here = {};
  here.rank = cluster_rank();
  here.size = cluster_size();
  here.warp = threadIdx.x / 32;
  here.warps = warps;
  here.exchange = shared_address(&exchange);
  if (threadIdx.x == 0 && here.size > 1) {
    barrier_init(here.exchange + (uint32_t)offsetof(struct exchange, barriers));
    barrier_init(here.exchange + (uint32_t)(offsetof(struct exchange, barriers) + sizeof(uint64_t)));
  }
  cluster_sync();
  cuda_wait_alone();
  for (uint32_t cloud = blockIdx.x / here.size; cloud < p.num_clouds; cloud += gridDim.x / here.size) {
    sample_cloud<rounds, far>(p, cloud, &here);
  }
  cluster_sync();  // no block ends while another may still write to it
}

// --- launch ---

typedef void (*sample_kernel)(const struct sample_params);

// What a cloud is sampled with: the first of these that the device can run and that holds all of its rows. (Measured on an
// H200: one block is the quickest up to as many as it holds in one round, then few warps in several blocks.)
static const struct kernel {
  uint32_t cluster, warps, rounds;
  bool far;
  sample_kernel kernel;
} kernels[] = {
    {1, 32, 1, false, fps_sample_kernel<32, 1, false>}, {4, 8, 2, false, fps_sample_kernel<8, 2, false>},
    {4, 8, 4, false, fps_sample_kernel<8, 4, false>},   {4, 8, 8, false, fps_sample_kernel<8, 8, false>},
    {4, 8, 8, true, fps_sample_kernel<8, 8, true>},     {1, 16, 8, true, fps_sample_kernel<16, 8, true>},
};
enum { NUM_KERNELS = sizeof kernels / sizeof kernels[0] };

// Bytes of shared memory for the distances of a block's rows, or SIZE_MAX where the kernel does not hold as many.
static size_t near_bytes(const struct kernel *kernel, uint64_t rows) {
  uint64_t of_slot = (uint64_t)kernel->cluster * kernel->warps * FPS_BUCKET, slots = (rows + of_slot - 1) / of_slot;
  return slots > 32 * kernel->rounds ? SIZE_MAX : slots * kernel->warps * FPS_BUCKET * sizeof(float);
}

static const struct kernel *kernel_for(uint64_t rows, const struct vx_device *device) {
  const struct kernel *kernel = kernels;
  while (kernel->cluster > device->largest_cluster ||
         (!kernel->far && near_bytes(kernel, rows) > device->shared_bytes)) {
    kernel++;
  }
  return kernel;
}

// Rows of a bucket. Only far ones may have more than 32.
static uint32_t bucket_for(const struct kernel *kernel, uint64_t rows) {
  uint64_t buckets = UINT64_C(32) * kernel->cluster * kernel->warps * kernel->rounds;
  uint32_t bucket = FPS_BUCKET;
  while (kernel->far && buckets * bucket < rows) {
    bucket *= 2;
  }
  return bucket;
}

static void set_attributes(cudaLaunchConfig_t *config, cudaLaunchAttribute attributes[2], bool overlap,
                           unsigned cluster) {
  config->attrs = attributes;
  if (overlap) {
    attributes[config->numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config->numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[config->numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config->numAttrs].val.clusterDim.x = cluster;
    attributes[config->numAttrs].val.clusterDim.y = attributes[config->numAttrs].val.clusterDim.z = 1;
    config->numAttrs++;
  }
}

// Only a part of the device, however many clouds there are: other lanes' kernels go on beside this one.
enum vx_status cuda_fps_sample(const struct cuda_run *run, struct vx_error *error) {
  const struct cuda_fps *fps = &run->fps;
  const struct vx_device *device = run->lane->device;
  const struct kernel *kernel = kernel_for(fps->largest_cloud, device);
  unsigned clusters = device->multiprocessors / 3 / kernel->cluster, num_clouds = (unsigned)run->clouds.count;
  clusters = min(max(clusters, 1u), num_clouds);
  size_t bytes = kernel->far ? 0 : near_bytes(kernel, fps->largest_cloud);
  struct sample_params p = {};
  p.clouds = fps->clouds;
  p.boxes = fps->boxes;
  p.candidates = run->control->cloud_rows;
  p.rows = fps->rows;
  p.columns = run->columns;
  p.num_clouds = num_clouds;
  p.places = fps->places;
  p.far_distances = fps->far_distances;
  p.near_rows = (uint32_t)(bytes / sizeof(float));
  p.bucket = bucket_for(kernel, fps->largest_cloud);
  p.indices = fps->indices;
  p.distances = fps->distances;
  p.stop = &run->lane->device_orders->stop;
  p.sequence = run->lane->sequence;
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(clusters * kernel->cluster);
  config.blockDim = dim3(kernel->warps * 32);
  config.dynamicSmemBytes = bytes;
  config.stream = run->stream;
  set_attributes(&config, attributes, device->overlap, kernel->cluster);
  return cuda_check(cudaLaunchKernelEx(&config, kernel->kernel, (const struct sample_params)p), "fps_sample_kernel",
                    error);
}

enum vx_status cuda_fps_prepare_device(struct vx_device *device, struct vx_error *error) {
  int shared_bytes;
  CUDA_CALL(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device->index), error);
  device->largest_cluster = 1;
  struct cudaFuncAttributes code;
  CUDA_CALL(cudaFuncGetAttributes(&code, kernels[0].kernel), error);
  device->shared_bytes = (size_t)shared_bytes - code.sharedSizeBytes - 1024;  // a little is the driver's
  for (int i = 0; i < NUM_KERNELS; i++) {
    CUDA_CALL(
        cudaFuncSetAttribute(kernels[i].kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)device->shared_bytes),
        error);
  }
  // The code that runs must know clusters, not only the device.
  if (!CUDA_CLUSTERS || device->description.compute_capability < 90 || code.ptxVersion < 90) {
    return VX_OK;
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(MAX_CLUSTER);
  config.blockDim = dim3(SENDERS / MAX_CLUSTER * 32);
  config.dynamicSmemBytes = device->shared_bytes;
  set_attributes(&config, attributes, false, MAX_CLUSTER);
  int most = 0;
  CUDA_CALL(cudaOccupancyMaxActiveClusters(&most, kernels[1].kernel, &config), error);
  device->largest_cluster = most > 0 ? MAX_CLUSTER : 1;
  return VX_OK;
}

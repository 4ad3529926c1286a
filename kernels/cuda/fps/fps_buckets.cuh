// Buckets of 32 or more neighbouring rows: how a new sample changes them, and the farthest row of a warp's buckets.
//
// Neighbouring buckets belong to different warps. Each lane holds `rounds` of its warp's buckets in registers: the box,
// and the row that is farthest from all samples. float32 rounds monotonically, so the computed distance to a box is at
// most the computed distance to any point in it. So a bucket changes only if its box is nearer to the new sample than
// its largest distance. Few are.
#ifndef VOXELD_CUDA_FPS_BUCKETS_CUH
#define VOXELD_CUDA_FPS_BUCKETS_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/fps/fps.cuh"

#define NO_KEY 0u  // no row
// Bits of the distance for places beyond the cloud's rows: a NaN, with key 0.
#define NOT_A_ROW 0xFFFFFFFFu

// A row and the key of its squared distance to the samples: the float's bits plus one, in the order of the distances.
struct candidate {
  uint32_t key;
  uint32_t bound;  // once this row is a sample, no other row of the warp has a larger key
  float4 row;      // x, y, z, number in the cloud
};

// A thread's position, and the current cloud.
struct station {
  uint32_t rank, size;   // in the cluster
  uint32_t warp, warps;  // in the block
  uint32_t turn;         // number of the exchange
  uint32_t exchange;     // address in shared memory; computing it again would cost as much as a load
  uint32_t num_rows;     // candidates of the cloud
  uint32_t first, step;  // this lane's row in its warp's first bucket, and the distance to its row in the next bucket
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

// Among the lanes with `meant` set, the lane whose row in `places` has the lowest number.
static __device__ uint32_t lowest_numbered(const float4 *places, bool meant, uint32_t place) {
  uint32_t number = meant ? number_of(places[place]) : UINT32_MAX, lowest = warp_min(number);
  return highest_lane(__ballot_sync(~0u, meant && number == lowest));
}

static __device__ float square_distance(float dx, float dy, float dz) { return dx * dx + dy * dy + dz * dz; }

static __device__ float beyond(float low, float high, float at) { return fmaxf(fmaxf(low - at, at - high), 0.0f); }

// The distances of the block's rows, bucket after bucket, if they fit in shared memory. Otherwise they are in
// far_distances, in the order of the places.
extern __shared__ float near_distances[];

template <bool far> static __device__ float *distance_of(const struct station &here, uint32_t slot, uint32_t place) {
  return far ? here.far_distances + place : near_distances + slot * blockDim.x + threadIdx.x;
}

// Returns the row's key.
template <bool far>
static __device__ uint32_t update_row(const struct station &here, uint32_t slot, uint32_t place, const float4 &sample) {
  float *distance = distance_of<far>(here, slot, place);
  float4 row = here.places[place];
  float before = *distance, now = square_distance(row.x - sample.x, row.y - sample.y, row.z - sample.z);
  now = now < before ? now : before;
  *distance = now;
  return key_of(now);
}

// Returns the key and the place of the farthest row of this lane's part.
template <bool far>
static __device__ uint32_t update_lane(const struct cuda_fps &fps, const struct station &here, uint32_t slot,
                                       const float4 &sample, uint32_t *place) {
  *place = here.first + slot * here.step;
  if (!far) return update_row<far>(here, slot, *place, sample);
  uint32_t key = NO_KEY, first = *place;
  for (uint32_t at = first; at < first + fps.bucket && at < here.num_rows; at += 32) {
    uint32_t other = update_row<far>(here, slot, at, sample);
    if (other > key || (other == key && number_of(here.places[at]) < number_of(here.places[*place]))) {
      key = other;
      *place = at;
    }
  }
  return key;
}

// Called by a whole warp. Applies the new sample to `count` buckets of a round at once; their latencies overlap.
template <int rounds, bool far, int count>
static __device__ void update_buckets(const struct cuda_fps &fps, const struct station &here, int round,
                                      const uint32_t (&owners)[count], const float4 &sample,
                                      struct buckets<rounds> *buckets) {
  uint32_t keys[count], places[count], tops[count], lanes[count];
#pragma unroll
  for (int i = 0; i < count; i++)
    keys[i] = update_lane<far>(fps, here, (uint32_t)round * 32 + owners[i], sample, &places[i]);
#pragma unroll
  for (int i = 0; i < count; i++) {
    tops[i] = cuda_warp_max(keys[i]);
    lanes[i] = __ballot_sync(~0u, keys[i] == tops[i]);
  }
#pragma unroll
  for (int i = 0; i < count; i++) {
    uint32_t winner = highest_lane(lanes[i]);
    if (!is_one_lane(lanes[i])) winner = lowest_numbered(here.places, keys[i] == tops[i], places[i]);
    uint32_t place = far ? __shfl_sync(~0u, places[i], winner) : places[i] - threadIdx.x % 32 + winner;
    if (threadIdx.x % 32 == owners[i]) {
      buckets->key[round] = tops[i];
      buckets->place[round] = place;
    }
  }
}

// Among this lane's buckets with this key, the bucket whose row has the lowest number.
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

// The largest key that this lane's rows in a bucket would have if `sample` were added to the samples.
template <bool far>
static __device__ uint32_t key_after(const struct cuda_fps &fps, const struct station &here, uint32_t slot,
                                     const float4 &sample) {
  uint32_t key = NO_KEY, first = here.first + slot * here.step;
  for (uint32_t at = first; at < first + (far ? fps.bucket : FPS_BUCKET) && at < here.num_rows; at += 32) {
    float4 row = here.places[at];
    float before = *distance_of<far>(here, slot, at);
    float now = square_distance(row.x - sample.x, row.y - sample.y, row.z - sample.z);
    key = max(key, key_of(now < before ? now : before));
  }
  return key;
}

// Called by a whole warp. Finds the farthest row of its buckets.
template <int rounds, bool far>
static __device__ struct candidate find_best(const struct cuda_fps &fps, const struct station &here,
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
    for (int r = 0; r < rounds; r++) place = r == round ? buckets.place[r] : place;
    owner = lowest_numbered(here.places, key == top, place);
  }
  float4 row = here.places[__shfl_sync(~0u, place, owner)];
  if (top == NO_KEY) return {NO_KEY, NO_KEY, row};  // a warp without rows
  round = rounds == 1 ? 0 : __shfl_sync(~0u, round, owner);
  // The keys of the other buckets now, and the key of the row's own bucket once the row is a sample.
  uint32_t others = key_after<far>(fps, here, (uint32_t)round * 32 + owner, row);
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    bool is_own = threadIdx.x % 32 == owner && r == round;
    others = max(others, is_own ? NO_KEY : buckets.key[r]);
  }
  return {top, cuda_warp_max(others), row};
}

// Called by a whole warp. Applies the new sample to all of its buckets. Returns true if anything changed.
template <int rounds, bool far>
static __device__ bool apply(const struct cuda_fps &fps, const struct station &here, const float4 &sample,
                             struct buckets<rounds> *buckets) {
  uint32_t any = 0;
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    const float *low = buckets->low[r], *high = buckets->high[r];
    float distance = square_distance(beyond(low[0], high[0], sample.x), beyond(low[1], high[1], sample.y),
                                     beyond(low[2], high[2], sample.z));
    // The key of an empty bucket is 0, and the distance for that key is NaN.
    uint32_t close = __ballot_sync(~0u, distance < distance_of_key(buckets->key[r]));
    any |= close;
    while (close != 0) {
      uint32_t owner = highest_lane(close);
      close ^= 1u << owner;
      if (close == 0) {
        update_buckets<rounds, far>(fps, here, r, {owner}, sample, buckets);
      } else {
        uint32_t other = highest_lane(close);
        close ^= 1u << other;
        update_buckets<rounds, far>(fps, here, r, {owner, other}, sample, buckets);
      }
    }
  }
  return any != 0;
}

// Called by a whole warp. Finds the box of a bucket and its row with the lowest number. All rows are infinitely far.
template <int rounds, bool far>
static __device__ void measure_bucket(const struct cuda_fps &fps, const struct station &here, int round, uint32_t owner,
                                      struct buckets<rounds> *buckets) {
  float low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
  uint32_t slot = (uint32_t)round * 32 + owner, first = here.first + slot * here.step, number = UINT32_MAX, place = 0;
  if (!far && slot * blockDim.x < fps.near_rows)
    near_distances[slot * blockDim.x + threadIdx.x] = __uint_as_float(NOT_A_ROW);
  for (uint32_t at = first; at < first + fps.bucket && at < here.num_rows; at += 32) {
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

#endif

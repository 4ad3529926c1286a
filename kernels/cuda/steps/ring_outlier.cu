// Ring outlier on a GPU (kernels/step_ring_outlier.h): cuda_step_ring_outlier, at the end of this file. All clouds and
// rings at once.
//
//   line up  Lines up the rows that are left, ring by ring; a row now has a place. The rows of KITTI's rings already
//            have this order, so a scan is enough. It also counts the turns.
//   keys     Otherwise each row gets a key, its cloud and its ring, and cub sorts the rows by key. The sort is stable.
//            Rows that were dropped come last.
//   walks    Numbers the walks, by a scan over the places. A circle is cut at its first point.
//   drop     Decides for each row whether its walk stays. The two walks of a circle's ends are one if their ends are
//            linked. It reads copies of the points.
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/arrival.cuh"
#include "kernels/number.h"

enum { BLOCK = 256, RINGS = VX_NO_RING + 1 };
static_assert((int)SCAN_BLOCK == (int)BRING_BLOCK, "a block brings the rows of its tile");

// The step as its kernels see it.
struct ring_outlier {
  struct vx_ring_outlier params;
  struct cuda_scan lining, walking;
  uint32_t *turns;          // [num_points]: turns of all clouds up to each row; NULL without turns
  uint32_t *keys, *rows;    // [num_points]: of each row; NULL with turns
  uint32_t *sorted_keys;    // [num_points]: of each place; with turns and several clouds only whether it has a row
  uint32_t *sorted_rows;    // [num_points]: of each place
  uint32_t *begins, *ends;  // [num_clouds, RINGS]: places of each ring that has any
  uint32_t *place_keys;     // [num_points]: sorted_keys for all clouds; no_key where no row is
  uint32_t *walk_of;        // [num_points]: of each place
  uint32_t *firsts;         // [num_points + 1]: first place of each walk, then num_points
  float4 *points;           // [num_points]: x, y, z and d at each place
  uint32_t no_key;          // of rows that were dropped
};

// ---- rings ----------------------------------------------------------------------------------------------------------

// A sum counts turns in its upper half and rows that are left in its lower.
template <typename arrival>
static __global__ void __launch_bounds__(SCAN_BLOCK)
    line_up_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own,
                   const __grid_constant__ arrival arriving) {
  __shared__ struct scan_shared shared;
  __shared__ float3 taken[CUDA_TILE];
  cuda_begin_rows(r, arriving);
  uint32_t tile = scan_next_tile(own.lining.ticket, &shared);
  struct location at[SCAN_ITEMS] = {};
  cuda_take_rows(r, arriving, (uint64_t)tile * CUDA_TILE, at);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) taken[k * SCAN_BLOCK + threadIdx.x] = make_float3(at[k].x, at[k].y, at[k].z);
  __syncthreads();
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
  static_assert(32 % SCAN_ITEMS == 0, "the turns of a thread's rows are in one word");
  uint32_t turns = begin < r.clouds.num_points ? r.turns[begin / 32] >> begin % 32 : 0;
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    float3 own_at = taken[threadIdx.x * SCAN_ITEMS + k];
    at[k] = {own_at.x, own_at.y, own_at.z};
    items[k] = (uint64_t)(turns >> k & 1) << 32 | cuda_is_left(at[k].x);
  }
  (void)scan_items(own.lining.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (begin + k >= r.clouds.num_points) continue;
    uint32_t turns_upto = (uint32_t)((before[k] + items[k]) >> 32), place = (uint32_t)before[k];
    own.turns[begin + k] = turns_upto;
    if ((uint32_t)items[k] == 0) {  // dropped rows take the last places, from the end
      uint32_t empty = r.clouds.num_points - 1 - ((uint32_t)begin + k - place);
      own.points[empty] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      own.sorted_keys[empty] = own.no_key;
      continue;
    }
    struct vx_ringed point = vx_ringed_of(at[k].x, at[k].y, at[k].z);
    own.points[place] = make_float4(point.x, point.y, point.z, point.d);
    own.sorted_rows[place] = (uint32_t)(begin + k);
    own.sorted_keys[place] = min(turns_upto, (uint32_t)VX_NO_RING);  // of a lone cloud
  }
  cuda_end_rows(r, arriving);
}

static __device__ uint32_t key_of(const struct cuda_chain_rows &r, const struct ring_outlier &own, uint32_t row) {
  int32_t cloud = cuda_cloud_of_point(r.clouds, row);
  uint32_t first = r.clouds.count == 1 ? 0 : r.clouds.first_point[cloud];
  uint32_t ring = own.turns ? min(own.turns[row] - own.turns[first], (uint32_t)VX_NO_RING)
                            : (uint32_t)vx_ring_of(r.points[(uint64_t)row * r.columns + (uint32_t)own.params.column]);
  return (uint32_t)cloud * RINGS + ring;
}

static __global__ void __launch_bounds__(BLOCK)
    keys_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (at >= r.clouds.num_points) return;
  own.keys[at] = cuda_is_left(r.points[at * r.columns]) ? key_of(r, own, (uint32_t)at) : own.no_key;
  own.rows[at] = (uint32_t)at;
}

static cudaError_t sort_rows(const struct cuda_run *run, const struct ring_outlier *own, void *cub, size_t *bytes) {
  int bits = vx_bits_for((int32_t)own->no_key + 1);
  return cub::DeviceRadixSort::SortPairs(cub, *bytes, (const uint32_t *)own->keys, own->sorted_keys,
                                         (const uint32_t *)own->rows, own->sorted_rows, (int64_t)run->clouds.num_points,
                                         0, bits, run->stream);
}

// ---- walks ----------------------------------------------------------------------------------------------------------

// What is at a place.
struct placed {
  uint32_t key;
  struct vx_ringed at;
};

static __device__ struct vx_ringed point_at(const struct ring_outlier &own, uint32_t place) {
  float4 point = own.points[place];
  return {point.x, point.y, point.z, point.w};
}

static __device__ struct placed find_place(const struct cuda_chain_rows &r, const struct ring_outlier &own,
                                           uint64_t place) {
  struct placed found = {own.no_key, {}};
  if (place >= r.clouds.num_points) return found;
  found.key = own.sorted_keys[place];
  if (own.turns) {
    found.at = point_at(own, (uint32_t)place);
    if (r.clouds.count > 1 && found.key != own.no_key) found.key = key_of(r, own, own.sorted_rows[place]);
  } else {
    uint32_t row = own.sorted_rows[place];
    const float *point = r.points + (uint64_t)row * r.columns;
    found.at = vx_ringed_of(point[0], point[1], point[2]);
  }
  return found;
}

// Notes the place where the ring before this place ends, and where the ring at this place begins, if they differ.
static __device__ void note_ends(const struct ring_outlier &own, uint32_t place, uint32_t before, uint32_t key) {
  if (before == key) return;
  if (before != own.no_key) own.ends[before] = place;
  if (key != own.no_key) own.begins[key] = place;
}

// If every ring is cut before its first point, a walk begins at each place that is not linked to the place before it.
static __global__ void __launch_bounds__(SCAN_BLOCK)
    walks_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile(own.walking.ticket, &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS, points = r.clouds.num_points;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
  struct placed places[SCAN_ITEMS + 1] = {{own.no_key, {}}};
  if (begin > 0) places[0] = find_place(r, own, begin - 1);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) places[k + 1] = find_place(r, own, begin + k);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    bool linked = begin + k > 0 && places[k + 1].key == places[k].key &&
                  vx_are_linked(&own.params, &places[k].at, &places[k + 1].at);
    items[k] = begin + k < points && !linked;
  }
  uint64_t total = scan_items(own.walking.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint64_t place = begin + k;
    if (place >= points) continue;
    uint32_t walk = (uint32_t)(before[k] + items[k]) - 1;
    const struct placed &here = places[k + 1];
    own.walk_of[place] = walk;
    own.place_keys[place] = here.key;
    if (!own.turns) own.points[place] = make_float4(here.at.x, here.at.y, here.at.z, here.at.d);
    if (items[k] != 0) own.firsts[walk] = (uint32_t)place;
    note_ends(own, (uint32_t)place, places[k].key, here.key);
    if (place + 1 == points) note_ends(own, (uint32_t)points, here.key, own.no_key);
  }
  if (tile == own.walking.num_tiles - 1 && threadIdx.x == 0) own.firsts[total] = (uint32_t)points;
}

static __device__ bool stays(const struct ring_outlier &own, uint32_t walk, uint32_t key) {
  uint32_t first = own.firsts[walk], last = own.firsts[walk + 1] - 1;
  uint32_t begin = own.begins[key], end = own.ends[key], points = last - first + 1;
  struct vx_ringed from = point_at(own, first), to = point_at(own, last);
  if (end - begin >= 3 && (first == begin || last == end - 1)) {
    struct vx_ringed at_begin = point_at(own, begin), at_end = point_at(own, end - 1);
    bool linked = vx_are_linked(&own.params, &at_end, &at_begin);
    if (linked && first == begin && last == end - 1) return true;
    if (linked && first == begin) {
      first = own.firsts[own.walk_of[end - 1]];
      points += end - first;
      from = point_at(own, first);
    } else if (linked) {
      last = own.firsts[own.walk_of[begin] + 1] - 1;
      points += last - begin + 1;
      to = point_at(own, last);
    }
  }
  return vx_walk_stays(&own.params, &from, &to, points);
}

static __global__ void __launch_bounds__(BLOCK)
    drop_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_begin_step();
  cuda_wait();
  uint64_t place = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  bool here = place < r.clouds.num_points;
  uint32_t key = here ? own.place_keys[place] : own.no_key, walk = here ? own.walk_of[place] : 0;
  if (key != own.no_key) {
    if (key % RINGS == VX_NO_RING)
      cuda_drop(r, own.sorted_rows[place], VX_FATE_NO_RING);
    else if (!stays(own, walk, key))
      cuda_drop(r, own.sorted_rows[place], VX_FATE_RING_OUTLIER);
  }
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
  if (own->params.column == VX_KITTI_RINGS) {
    take(arena, &own->turns, rows);
  } else {
    take(arena, &own->keys, rows);
    take(arena, &own->rows, rows);
    take(arena, &arrays->cub, arrays->cub_bytes);
  }
  take(arena, &own->sorted_keys, rows);
  take(arena, &own->sorted_rows, rows);
  take(arena, &own->begins, rings);
  take(arena, &own->ends, rings);
  take(arena, &own->place_keys, rows);
  take(arena, &own->walk_of, rows);
  take(arena, &own->firsts, rows + 1);
  take(arena, &own->points, rows);
}

// Lines up the rows of rings that a column names.
static enum vx_status sort_by_ring(struct cuda_chain *chain, struct arrays *arrays, struct error *error) {
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  CUDA_TRY(cuda_settle_rows(chain, error));
  CUDA_TRY(cuda_launch("keys_kernel", keys_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, arrays->own));
  return cuda_check(sort_rows(&chain->run, &arrays->own, arrays->cub, &arrays->cub_bytes), "cub::DeviceRadixSort",
                    error);
}

enum vx_status cuda_step_ring_outlier(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  struct arrays arrays = {};
  struct ring_outlier &own = arrays.own;
  const struct cuda_run *run = &chain->run;
  const struct cuda_clouds *clouds = &chain->rows.clouds;
  own.params = step->params.ring_outlier;
  own.no_key = (uint32_t)clouds->count * RINGS;
  bool counted = own.params.column == VX_KITTI_RINGS;
  if (!counted) CUDA_TRY(cuda_check(sort_rows(run, &own, NULL, &arrays.cub_bytes), "cub::DeviceRadixSort", error));
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(&arrays, clouds, arena); }));
  own.walking = cuda_take_scan(chain);
  if (counted) {
    own.lining = cuda_take_scan(chain);
    CUDA_TRY(cuda_launch_first(chain, "line_up_kernel", line_up_kernel<struct cuda_arrival>,
                               line_up_kernel<struct cuda_in_place>, own.lining.num_tiles, error, own));
  } else {
    CUDA_TRY(sort_by_ring(chain, &arrays, error));
  }
  CUDA_TRY(
      cuda_launch("walks_kernel", walks_kernel, own.walking.num_tiles, SCAN_BLOCK, 0, run, error, chain->rows, own));
  return cuda_launch("drop_kernel", drop_kernel, cuda_blocks(clouds->num_points, BLOCK), BLOCK, 0, run, error,
                     chain->rows, own);
}

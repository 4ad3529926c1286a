// Ring outlier on a GPU (kernels/step_ring_outlier.h): cuda_step_ring_outlier, at the end of this file. All clouds and
// rings at once.
//
//   turns  Counts the turns in the body, by a scan, if the rings are those of KITTI.
//   keys   Each row gets a key: its cloud and its ring.
//   sort   cub sorts the rows by key. The sort is stable. Rows that were dropped come last. A row now has a place.
//   walks  Numbers the walks, by a scan over the places. A circle is cut at its first point.
//   judge  Decides for each walk whether it stays. The two walks of a circle's ends are one if their ends are linked.
//   drop   Drops the rows of the other walks. This is a kernel of its own, since judge reads the ends of walks.
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/fill.cuh"
#include "kernels/number.h"

enum { BLOCK = 256, RINGS = VX_NO_RING + 1 };

// The step as its kernels see it.
struct ring_outlier {
  struct vx_ring_outlier params;
  uint32_t num_tiles;
  uint64_t *turn_tiles, *walk_tiles;  // [num_tiles]: states of the scans, then the ticket
  uint32_t *turns;                    // [num_points]: turns of all clouds up to each row; NULL without turns
  uint32_t *keys, *sorted_keys;       // [num_points]
  uint32_t *rows, *sorted_rows;       // [num_points]
  uint32_t *begins, *ends;            // [num_clouds, RINGS]: places of each ring that has any
  uint32_t *walk_of;                  // [num_points]: of each place
  uint32_t *firsts;                   // [num_points + 1]: first place of each walk, then num_points
  uint8_t *stays;                     // [num_points]: of each walk
  uint32_t no_key;                    // of rows that were dropped
};

// ---- rings ----------------------------------------------------------------------------------------------------------

static __device__ bool is_turn(const struct cuda_chain_rows &r, uint64_t row) {
  if (row >= r.clouds.num_points) return false;
  uint32_t first = r.clouds.count == 1 ? 0 : r.clouds.first_point[cuda_cloud_of_point(r.clouds, (uint32_t)row)];
  uint64_t at = row * r.columns;
  return row != first && vx_is_turn(vx_load(r.dtype, r.source, at - r.columns + 1), vx_load(r.dtype, r.source, at),
                                    vx_load(r.dtype, r.source, at + 1));
}

static __global__ void __launch_bounds__(SCAN_BLOCK)
    turns_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile((uint32_t *)(own.turn_tiles + own.num_tiles), &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = is_turn(r, begin + k);
  (void)scan_items(own.turn_tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    if (begin + k < r.clouds.num_points) own.turns[begin + k] = (uint32_t)(before[k] + items[k]);
}

static __device__ uint32_t ring_of(const struct cuda_chain_rows &r, const struct ring_outlier &own, uint32_t row,
                                   int32_t cloud) {
  if (!own.turns) return (uint32_t)vx_ring_of(r.points[(uint64_t)row * r.columns + (uint32_t)own.params.column]);
  uint32_t first = r.clouds.count == 1 ? 0 : r.clouds.first_point[cloud];
  return min(own.turns[row] - own.turns[first], (uint32_t)VX_NO_RING);
}

static __global__ void __launch_bounds__(BLOCK)
    keys_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (at >= r.clouds.num_points) return;
  uint32_t row = (uint32_t)at;
  int32_t cloud = cuda_cloud_of_point(r.clouds, row);
  bool left = cuda_is_left(r.points[at * r.columns]);
  own.keys[row] = left ? (uint32_t)cloud * RINGS + ring_of(r, own, row, cloud) : own.no_key;
  own.rows[row] = row;
}

static cudaError_t sort_rows(const struct cuda_run *run, const struct ring_outlier *own, void *cub, size_t *bytes) {
  int bits = vx_bits_for((int32_t)own->no_key + 1);
  return cub::DeviceRadixSort::SortPairs(cub, *bytes, (const uint32_t *)own->keys, own->sorted_keys,
                                         (const uint32_t *)own->rows, own->sorted_rows, (int64_t)run->clouds.num_points,
                                         0, bits, run->stream);
}

// ---- walks ----------------------------------------------------------------------------------------------------------

static __device__ struct vx_ringed point_at(const struct cuda_chain_rows &r, const struct ring_outlier &own,
                                            uint64_t place) {
  const float *row = r.points + (uint64_t)own.sorted_rows[place] * r.columns;
  return vx_ringed_of(row[0], row[1], row[2]);
}

// Whether a walk begins at this place, if every ring is cut before its first point.
static __device__ bool begins_walk(const struct cuda_chain_rows &r, const struct ring_outlier &own, uint64_t place) {
  if (place == 0 || own.sorted_keys[place] != own.sorted_keys[place - 1]) return true;
  struct vx_ringed before = point_at(r, own, place - 1), here = point_at(r, own, place);
  return !vx_are_linked(&own.params, &before, &here);
}

static __global__ void __launch_bounds__(SCAN_BLOCK)
    walks_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile((uint32_t *)(own.walk_tiles + own.num_tiles), &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS, points = r.clouds.num_points;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = begin + k < points && begins_walk(r, own, begin + k);
  uint64_t total = scan_items(own.walk_tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint64_t place = begin + k;
    if (place >= points) continue;
    uint32_t walk = (uint32_t)(before[k] + items[k]) - 1, key = own.sorted_keys[place];
    own.walk_of[place] = walk;
    if (items[k] != 0) own.firsts[walk] = (uint32_t)place;
    if (key == own.no_key) continue;
    if (place == 0 || own.sorted_keys[place - 1] != key) own.begins[key] = (uint32_t)place;
    if (place + 1 == points || own.sorted_keys[place + 1] != key) own.ends[key] = (uint32_t)place + 1;
  }
  if (tile == own.num_tiles - 1 && threadIdx.x == 0) own.firsts[total] = (uint32_t)points;
}

static __device__ bool stays(const struct cuda_chain_rows &r, const struct ring_outlier &own, uint32_t walk) {
  uint32_t first = own.firsts[walk], last = own.firsts[walk + 1] - 1, key = own.sorted_keys[first];
  if (key == own.no_key) return true;
  uint32_t begin = own.begins[key], end = own.ends[key], points = last - first + 1;
  struct vx_ringed at_begin = point_at(r, own, begin), at_end = point_at(r, own, end - 1);
  if (end - begin >= 3 && (first == begin || last == end - 1) && vx_are_linked(&own.params, &at_end, &at_begin)) {
    if (first == begin && last == end - 1) return true;
    if (first == begin) {
      first = own.firsts[own.walk_of[end - 1]];
      points += end - first;
    } else {
      last = own.firsts[own.walk_of[begin] + 1] - 1;
      points += last - begin + 1;
    }
  }
  struct vx_ringed from = point_at(r, own, first), to = point_at(r, own, last);
  return vx_walk_stays(&own.params, &from, &to, points);
}

static __global__ void __launch_bounds__(BLOCK)
    judge_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_wait();
  uint64_t place = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (place >= r.clouds.num_points) return;
  uint32_t walk = own.walk_of[place];
  if (own.firsts[walk] == place) own.stays[walk] = stays(r, own, walk);
}

static __global__ void __launch_bounds__(BLOCK)
    drop_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct ring_outlier own) {
  cuda_wait();
  uint64_t place = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  uint32_t key = place < r.clouds.num_points ? own.sorted_keys[place] : own.no_key;
  if (key != own.no_key) {
    if (key % RINGS == VX_NO_RING)
      cuda_drop(r, own.sorted_rows[place], VX_FATE_NO_RING);
    else if (!own.stays[own.walk_of[place]])
      cuda_drop(r, own.sorted_rows[place], VX_FATE_RING_OUTLIER);
  }
  cuda_end_step(r);
}

// ---- all together ---------------------------------------------------------------------------------------------------

static void lay_out(struct ring_outlier *own, const struct cuda_clouds *clouds, struct cuda_arena *arena) {
  uint64_t rows = clouds->num_points, rings = (uint64_t)clouds->count * RINGS;
  take(arena, &own->turn_tiles, 2 * ((uint64_t)own->num_tiles + 1));  // of both scans, which are cleared together
  own->walk_tiles = own->turn_tiles + own->num_tiles + 1;
  if (own->params.column == VX_KITTI_RINGS) take(arena, &own->turns, rows);
  take(arena, &own->keys, rows);
  take(arena, &own->sorted_keys, rows);
  take(arena, &own->rows, rows);
  take(arena, &own->sorted_rows, rows);
  take(arena, &own->begins, rings);
  take(arena, &own->ends, rings);
  take(arena, &own->walk_of, rows);
  take(arena, &own->firsts, rows + 1);
  take(arena, &own->stays, rows);
}

static enum vx_status find_walks(const struct cuda_chain *chain, const struct ring_outlier *own, void *cub,
                                 size_t cub_bytes, struct error *error) {
  const struct cuda_run *run = &chain->run;
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  if (own->turns)
    CUDA_TRY(cuda_launch("turns_kernel", turns_kernel, own->num_tiles, SCAN_BLOCK, 0, run, error, chain->rows, *own));
  CUDA_TRY(cuda_launch("keys_kernel", keys_kernel, blocks, BLOCK, 0, run, error, chain->rows, *own));
  CUDA_TRY(cuda_check(sort_rows(run, own, cub, &cub_bytes), "cub::DeviceRadixSort", error));
  return cuda_launch("walks_kernel", walks_kernel, own->num_tiles, SCAN_BLOCK, 0, run, error, chain->rows, *own);
}

enum vx_status cuda_step_ring_outlier(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  struct ring_outlier own = {};
  const struct cuda_clouds *clouds = &chain->rows.clouds;
  unsigned blocks = cuda_blocks(clouds->num_points, BLOCK);
  unsigned char *cub = NULL;
  size_t cub_bytes = 0;
  own.params = step->params.ring_outlier;
  own.num_tiles = cuda_blocks(clouds->num_points, CUDA_TILE);
  own.no_key = (uint32_t)clouds->count * RINGS;
  CUDA_TRY(cuda_check(sort_rows(&chain->run, &own, NULL, &cub_bytes), "cub::DeviceRadixSort", error));
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) {
    lay_out(&own, clouds, arena);
    take(arena, &cub, cub_bytes);
  }));
  CUDA_TRY(cuda_fill(chain, NULL, 0, own.turn_tiles, 2 * ((uint64_t)own.num_tiles + 1), error));
  CUDA_TRY(find_walks(chain, &own, cub, cub_bytes, error));
  CUDA_TRY(cuda_launch("judge_kernel", judge_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, own));
  return cuda_launch("drop_kernel", drop_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, own);
}

// From points to cells: the hash table and the numbering of cells by first appearance.
//
// The table's slots begin with 64 bits {epoch, tag, point index}. A slot of another epoch than the job's is free;
// since epochs go down, it also is greater than anything that this job writes. A slot's cell is that of its point,
// computed again from the coordinates (if the tag, a part of the hash, does not already say that it is another): so a
// slot is claimed by one compare-and-swap, and atomicMin leaves the first point of the cell in it. What a slot says
// about cells never changes while its point does, so the order of the threads does not matter. Beside them a slot
// counts the cell's points; each point takes the count that it finds as its place, in whatever order they come.
//
// The numbering is a scan over "I am the first point of my cell", and over the points of those cells, in one pass
// with decoupled look-back (Merrill and Garland). It replaces the point in each slot by the cell's number. That
// number is at most the index of the cell's first point, so no later point of the cell can take it for its own index
// and think that it is the first.
#include <cub/block/block_scan.cuh>

#include "kernels/cuda/run.cuh"
#include "kernels/half.h"

enum { BLOCK = 256, TILE_ITEMS = CUDA_TILE / BLOCK };

// --- float16 input ---

struct widen_params {
  const uint16_t *halves;
  float *floats;
  uint64_t count;
};

static __global__ void __launch_bounds__(BLOCK) widen_kernel(struct widen_params p) {
  uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.count) {
    p.floats[i] = vx_half_to_float(p.halves[i]);
  }
}

enum vx_status cuda_widen(const struct cuda_run *run, struct vx_error *error) {
  struct widen_params p = {(const uint16_t *)run->input, run->points, (uint64_t)run->num_points * run->columns};
  widen_kernel<<<cuda_blocks(p.count, BLOCK), BLOCK, 0, run->stream>>>(p);
  return cuda_launched("widen_kernel", error);
}

// --- insert ---

struct insert_params {
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  struct cuda_clouds clouds;
  struct cuda_slot *table;  // [table_slots]
  uint64_t table_slots;
  uint32_t epoch;
  uint64_t seed[2];
  uint2 *places;  // [num_points]
  struct cuda_tally *tally;
};

struct cell {
  int32_t x, y, z;
};

static __device__ bool locate(const struct insert_params &p, uint32_t point, struct cell *cell, bool *finite) {
  const float *row = p.points + (uint64_t)point * p.columns;
  float x, y, z;
  if (p.columns == 4) {
    float4 all = *(const float4 *)row;
    x = all.x, y = all.y, z = all.z;
  } else {
    x = row[0], y = row[1], z = row[2];
  }
  int32_t at[3];
  bool inside = vx_cell_of_point(&p.map, x, y, z, at);
  *cell = {at[0], at[1], at[2]};
  *finite = (fabsf(x) < INFINITY) & (fabsf(y) < INFINITY) & (fabsf(z) < INFINITY);
  return inside;
}

static __device__ uint64_t hash_of(const struct insert_params &p, uint64_t key, int32_t cloud) {
  uint64_t a = (key + (uint64_t)cloud * 0x9E3779B97F4A7C15u) ^ p.seed[0], b = p.seed[1] | 1;
  return (a * b) ^ __umul64hi(a, b);
}

// The slot of the point's cell. At most as many steps as there are slots; some slot is always free.
static __device__ uint32_t place(const struct insert_params &p, uint32_t point, const struct cell &cell, uint64_t key,
                                 int32_t cloud) {
  uint32_t begin = p.clouds.count == 1 ? 0 : p.clouds.first_point[cloud];
  uint32_t end = p.clouds.count == 1 ? p.clouds.num_points : p.clouds.first_point[cloud + 1];
  uint64_t hash = hash_of(p, key, cloud), slot = hash & (p.table_slots - 1);
  uint64_t stamp = (uint64_t)p.epoch << CUDA_TAG_BITS | hash >> (64 - CUDA_TAG_BITS);
  uint64_t mine = stamp << CUDA_INDEX_BITS | point;
  for (uint64_t step = 0; step < p.table_slots; step++, slot = (slot + 1) & (p.table_slots - 1)) {
    unsigned long long *place = (unsigned long long *)&p.table[slot].first;
    uint64_t value = *(volatile unsigned long long *)place;
    if (value >> (CUDA_TAG_BITS + CUDA_INDEX_BITS) != p.epoch) {
      uint64_t before = atomicCAS(place, value, mine);
      if (before == value) {
        return (uint32_t)slot;
      }
      value = before;  // somebody else of this job was first
    }
    if (value >> CUDA_INDEX_BITS != stamp) {
      continue;
    }
    uint32_t other = (uint32_t)value & CUDA_INDEX_MASK;
    struct cell others;
    bool finite;
    if (other >= begin && other < end && locate(p, other, &others, &finite) && others.x == cell.x &&
        others.y == cell.y && others.z == cell.z) {
      if (point < other) {
        atomicMin(place, mine);
      }
      return (uint32_t)slot;
    }
  }
  atomicAdd(&p.tally->unplaced, 1);
  return CUDA_NO_SLOT;
}

// Finds the slot of the point's cell, and how many points of the cell came before this one. Threads of the warp whose
// points share a cell (`inside` names those whose points have one) let the first of them do it.
static __device__ uint2 place_together(const struct insert_params &p, uint32_t inside, uint32_t point,
                                       const struct cell &cell) {
  uint64_t key = vx_key(p.map.key, cell.x, cell.y, cell.z);
  int32_t cloud = cuda_cloud_of_point(p.clouds, point);
  uint32_t lane = threadIdx.x % 32, peers = __match_any_sync(inside, (unsigned long long)key);
  if (p.clouds.count > 1) {
    peers &= __match_any_sync(inside, cloud);
  }
  uint32_t leader = __ffs(peers) - 1, slot = CUDA_NO_SLOT, before = 0;
  if (lane == leader) {
    slot = place(p, point, cell, key, cloud);
    before = slot == CUDA_NO_SLOT ? 0 : atomicAdd(&p.table[slot].hits, __popc(peers)) + 1;
  }
  slot = __shfl_sync(inside, slot, leader);
  before = __shfl_sync(inside, before, leader);
  return make_uint2(slot, before + __popc(peers & ((1u << lane) - 1)));
}

static __global__ void __launch_bounds__(BLOCK) insert_kernel(const __grid_constant__ struct insert_params p) {
  cuda_wait();
  uint32_t point = blockIdx.x * BLOCK + threadIdx.x;
  bool here = point < p.clouds.num_points, finite = true;
  struct cell cell;
  bool inside = here && locate(p, point, &cell, &finite);
  uint32_t all_inside = __ballot_sync(~0u, inside);
  uint2 place = make_uint2(CUDA_NO_SLOT, 0);
  if (inside) {
    place = place_together(p, all_inside, point, cell);
  }
  if (here) {
    p.places[point] = place;
  }
  __syncwarp();
  uint32_t outside = __ballot_sync(~0u, here && !inside && finite), strange = __ballot_sync(~0u, here && !finite);
  if (threadIdx.x % 32 == 0 && outside != 0) {
    atomicAdd(&p.tally->out_of_range, __popc(outside));
  }
  if (threadIdx.x % 32 == 0 && strange != 0) {
    atomicAdd(&p.tally->not_finite, __popc(strange));
  }
}

enum vx_status cuda_insert(const struct cuda_run *run, struct vx_error *error) {
  struct insert_params p = {};
  p.map = run->map;
  p.points = run->points;
  p.columns = run->columns;
  p.clouds = run->clouds;
  p.table = run->table;
  p.table_slots = run->table_slots;
  p.epoch = run->lane->epoch;
  p.seed[0] = run->lane->seed[0];
  p.seed[1] = run->lane->seed[1];
  p.places = run->places;
  p.tally = run->tally;
  return cuda_launch("insert_kernel", insert_kernel, cuda_blocks(run->num_points, BLOCK), BLOCK, 0, run, p, error);
}

// --- number ---

struct number_params {
  struct cuda_clouds clouds;
  const uint2 *places;  // [num_points]
  struct cuda_slot *table;
  uint64_t *tiles;  // [num_tiles], zeroed
  uint32_t num_tiles;
  uint32_t *first_points;  // [num_points]
  uint32_t *cell_hits;     // [num_points]
  uint32_t *begins;        // [row_capacity]: of a single cloud's lists, or NULL
  struct cuda_tally *tally;
  uint32_t max_rows;  // let in of one cloud
  uint32_t row_capacity;
};

// What is scanned: cells in the upper, their points in the lower 32 bits. Neither reaches 2^31, which leaves room for
// what is known of a tile: nothing (0), its own sum, or the sum up to its end.
enum : uint64_t { TILE_SUM = UINT64_C(1) << 31, TILE_PREFIX = UINT64_C(1) << 63 };
enum : uint64_t { TILE_FLAGS = TILE_SUM | TILE_PREFIX };

// Sum over all tiles before this one. Runs in the block's first warp; publishes what later tiles wait for.
static __device__ uint64_t look_back(const struct number_params &p, uint32_t tile, uint64_t sum) {
  volatile unsigned long long *tiles = (volatile unsigned long long *)p.tiles;
  uint32_t lane = threadIdx.x;
  uint64_t before = 0;
  if (lane == 0) {
    tiles[tile] = (tile == 0 ? TILE_PREFIX : TILE_SUM) | sum;
  }
  for (int64_t end = tile; end > 0; end -= 32) {
    int64_t at = end - 1 - lane;
    uint64_t state = at < 0 ? (uint64_t)TILE_PREFIX : 0;
    while ((state & TILE_FLAGS) == 0) {  // tickets go in order: whoever is waited for already runs
      state = tiles[at];
    }
    uint32_t complete = __ballot_sync(~0u, (state & TILE_PREFIX) != 0);
    int last = complete == 0 ? 31 : __ffs(complete) - 1;  // nearest tile that knows all before it
    uint64_t part = lane <= (uint32_t)last ? state & ~TILE_FLAGS : 0;
    for (int offset = 16; offset > 0; offset /= 2) {
      part += __shfl_xor_sync(~0u, part, offset);
    }
    before += part;
    if (complete != 0) {
      break;
    }
  }
  if (lane == 0 && tile > 0) {
    tiles[tile] = TILE_PREFIX | (before + sum);
  }
  return before;
}

// Notes the number of cells before each cloud, where this point is the first of one (or of several: empty ones).
static __device__ void note_clouds(const struct number_params &p, uint32_t point, uint32_t cells_before) {
  int32_t cloud = cuda_cloud_of_point(p.clouds, point);
  for (; cloud >= 0 && p.clouds.first_point[cloud] == point; cloud--) {
    p.clouds.first_cell[cloud] = cells_before;
  }
}

// Writes what a cell's number brings with it; `before` is the scan's sum before the cell.
static __device__ void name_cell(const struct number_params &p, uint32_t point, uint32_t slot, uint64_t first,
                                 uint32_t hits, uint64_t before) {
  uint32_t number = (uint32_t)(before >> 32), begin = (uint32_t)before;
  struct cuda_slot named = {(first >> CUDA_INDEX_BITS << CUDA_INDEX_BITS) | number, UINT32_MAX, begin};
  *(uint4 *)&p.table[slot] = *(const uint4 *)&named;
  p.first_points[number] = point;
  p.cell_hits[number] = hits;
  if (p.begins != NULL && number < p.row_capacity) {
    p.begins[number] = begin;
  }
}

static __device__ void note_totals(const struct number_params &p, uint64_t total) {
  uint32_t cells = (uint32_t)(total >> 32);
  p.tally->num_cells = cells;
  p.tally->num_rows = min(cells, p.max_rows);  // of one cloud; close_clouds_kernel knows better of several
  p.tally->num_output_rows = p.tally->num_rows;
}

static __global__ void __launch_bounds__(BLOCK) number_kernel(const __grid_constant__ struct number_params p) {
  typedef cub::BlockScan<uint64_t, BLOCK> scan;
  __shared__ scan::TempStorage temporary;
  __shared__ uint32_t shared_tile;
  __shared__ uint64_t shared_before;
  cuda_wait();
  if (threadIdx.x == 0) {
    shared_tile = atomicAdd(&p.tally->ticket, 1);
  }
  __syncthreads();
  uint32_t tile = shared_tile;
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * TILE_ITEMS;
  uint32_t slots[TILE_ITEMS];
  uint64_t firsts[TILE_ITEMS], items[TILE_ITEMS], before[TILE_ITEMS], sum;
#pragma unroll
  for (int k = 0; k < TILE_ITEMS; k++) {
    slots[k] = begin + k < p.clouds.num_points ? p.places[begin + k].x : CUDA_NO_SLOT;
  }
#pragma unroll
  for (int k = 0; k < TILE_ITEMS; k++) {
    items[k] = 0;
    if (slots[k] != CUDA_NO_SLOT) {
      uint4 bits = *(const uint4 *)&p.table[slots[k]];
      firsts[k] = (uint64_t)bits.y << 32 | bits.x;
      items[k] = (bits.x & CUDA_INDEX_MASK) == (uint32_t)begin + k ? UINT64_C(1) << 32 | (bits.z + 1) : 0;
    }
  }
  scan(temporary).ExclusiveSum(items, before, sum);
  if (threadIdx.x < 32) {
    uint64_t all = look_back(p, tile, sum);
    if (threadIdx.x == 0) {
      shared_before = all;
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < TILE_ITEMS; k++) {
    uint64_t all = shared_before + before[k];
    if (items[k] != 0) {
      name_cell(p, (uint32_t)begin + k, slots[k], firsts[k], (uint32_t)items[k], all);
    }
    if (p.clouds.count > 1 && begin + k < p.clouds.num_points) {
      note_clouds(p, (uint32_t)begin + k, (uint32_t)(all >> 32));
    }
  }
  if (tile == p.num_tiles - 1 && threadIdx.x == 0) {
    note_totals(p, shared_before + sum);
  }
}

// The rows of each cloud of a batch, in one block.
struct close_clouds_params {
  struct cuda_clouds clouds;
  struct cuda_tally *tally;
  uint32_t max_rows;
  uint32_t *cloud_rows;  // [clouds.count]
};

static __device__ uint32_t first_cell_of(const struct close_clouds_params &p, int32_t cloud) {
  bool at_end = cloud == p.clouds.count || p.clouds.first_point[cloud] == p.clouds.num_points;
  return at_end ? p.tally->num_cells : p.clouds.first_cell[cloud];
}

static __global__ void __launch_bounds__(VX_MAX_CLOUDS) close_clouds_kernel(struct close_clouds_params p) {
  typedef cub::BlockScan<uint32_t, VX_MAX_CLOUDS> scan;
  __shared__ scan::TempStorage temporary;
  int32_t cloud = (int32_t)threadIdx.x;
  bool here = cloud < p.clouds.count;
  uint32_t rows = here ? min(first_cell_of(p, cloud + 1) - first_cell_of(p, cloud), p.max_rows) : 0;
  uint32_t before, sum;
  scan(temporary).ExclusiveSum(rows, before, sum);
  if (here) {
    p.clouds.first_row[cloud] = before;
    p.cloud_rows[cloud] = rows;
  }
  if (cloud == 0) {
    p.tally->num_rows = sum;
    p.tally->num_output_rows = sum;
  }
}

enum vx_status cuda_number(const struct cuda_run *run, struct vx_error *error) {
  struct number_params p = {};
  p.clouds = run->clouds;
  p.places = run->places;
  p.table = run->table;
  p.tiles = run->tiles;
  p.num_tiles = run->num_tiles;
  p.first_points = run->first_points;
  p.cell_hits = run->cell_hits;
  p.begins = run->clouds.count == 1 && !run->sorted_lists ? run->lists.begins : NULL;
  p.tally = run->tally;
  p.max_rows = (uint32_t)run->params->max_voxels;
  p.row_capacity = run->row_capacity;
  CUDA_TRY(cuda_launch("number_kernel", number_kernel, run->num_tiles, BLOCK, 0, run, p, error));
  if (run->clouds.count == 1) {
    return VX_OK;
  }
  struct close_clouds_params close = {run->clouds, run->tally, (uint32_t)run->params->max_voxels, run->cloud_rows};
  close_clouds_kernel<<<1, VX_MAX_CLOUDS, 0, run->stream>>>(close);
  return cuda_launched("close_clouds_kernel", error);
}

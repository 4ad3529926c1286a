// Radius outlier on a GPU (kernels/step_radius_outlier.h): cuda_step_radius_outlier, at the end of this file.
//
//   fill    Clears the table of cells.
//   insert  Each row finds its cell, and links itself into the cell's list.
//   search  Each row whose cell has few rows searches the cells near its own.
//   drop    Drops the rows with few neighbours. This is a kernel of its own, since searches read the rows.
//
// A slot of the table names the row that claimed it, and belongs to the cell of that row. Every cloud has a part of the
// table for itself. The lists are in no particular order, since they are only counted.
#include "kernels/cuda/base/table.cuh"
#include "kernels/cuda/steps/fill.cuh"
#include "kernels/near.h"

enum { BLOCK = 256 };

// The step as its kernels see it.
struct radius_outlier {
  struct vx_near_map map;
  float square;  // of the radius
  uint32_t min_neighbors;
  struct cuda_table hash;  // only its seed
  uint32_t slots_per_row;  // of each cloud's part of the table
  uint32_t *owners;        // [slots]: row of each cell; CUDA_NO_POINT if the slot is free
  uint32_t *heads;         // [slots]: last row of each cell's list
  uint32_t *counts;        // [slots]: rows of each cell
  uint32_t *slots;         // [num_points]: of each row, or CUDA_NO_SLOT
  uint32_t *links;         // [num_points]: the row before it in its cell's list, or CUDA_NO_POINT
  uint8_t *drops;          // [num_points]
};

// A cloud's part of the table.
struct part {
  uint64_t begin, slots;
};

static __device__ struct part part_of(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint32_t row) {
  if (r.clouds.count == 1) return {0, (uint64_t)r.clouds.num_points * own.slots_per_row};
  int32_t cloud = cuda_cloud_of_point(r.clouds, row);
  uint64_t first = r.clouds.first_point[cloud], rows = r.clouds.first_point[cloud + 1] - first;
  return {first * own.slots_per_row, rows * own.slots_per_row};
}

static __device__ bool is_cell_of(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint32_t row,
                                  const int32_t cell[3]) {
  int32_t other[3];
  vx_near_cell(&own.map, r.points + (uint64_t)row * r.columns, other);
  return other[0] == cell[0] && other[1] == cell[1] && other[2] == cell[2];
}

static __device__ uint64_t home_of(const struct radius_outlier &own, const struct part &part, const int32_t cell[3]) {
  uint64_t key = cuda_first_slot(own.hash, (uint64_t)(uint32_t)cell[0] << 32 | (uint32_t)cell[1]);
  return __umul64hi(cuda_first_slot(own.hash, key + (uint32_t)cell[2]), part.slots);
}

// Finds the slot of the row's cell; a new cell claims one. At least half of the slots stay free.
static __device__ uint32_t claim_slot(const struct cuda_chain_rows &r, const struct radius_outlier &own,
                                      const struct part &part, uint32_t row, const int32_t cell[3]) {
  uint64_t at = home_of(own, part, cell);
  for (;; at = at + 1 == part.slots ? 0 : at + 1) {
    uint32_t owner = atomicCAS(&own.owners[part.begin + at], CUDA_NO_POINT, row);
    if (owner == CUDA_NO_POINT || is_cell_of(r, own, owner, cell)) return (uint32_t)(part.begin + at);
  }
}

// The slot of a cell, once the table no longer changes; CUDA_NO_SLOT if no row is in the cell.
static __device__ uint32_t find_slot(const struct cuda_chain_rows &r, const struct radius_outlier &own,
                                     const struct part &part, const int32_t cell[3]) {
  uint64_t at = home_of(own, part, cell);
  for (;; at = at + 1 == part.slots ? 0 : at + 1) {
    uint32_t owner = own.owners[part.begin + at];
    if (owner == CUDA_NO_POINT) return CUDA_NO_SLOT;
    if (is_cell_of(r, own, owner, cell)) return (uint32_t)(part.begin + at);
  }
}

static __global__ void __launch_bounds__(BLOCK)
    insert_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct radius_outlier own) {
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (at >= r.clouds.num_points) return;
  const float *point = r.points + at * r.columns;
  uint32_t row = (uint32_t)at, slot = CUDA_NO_SLOT;
  if (cuda_is_left(point[0])) {
    int32_t cell[3];
    vx_near_cell(&own.map, point, cell);
    slot = claim_slot(r, own, part_of(r, own, row), row, cell);
    own.links[row] = atomicExch(&own.heads[slot], row);
    atomicAdd(&own.counts[slot], 1);
  }
  own.slots[row] = slot;
}

// ---- search ---------------------------------------------------------------------------------------------------------

// How many rows of a cell are neighbours of a point, up to `most`.
static __device__ uint32_t neighbors_in(const struct cuda_chain_rows &r, const struct radius_outlier &own,
                                        uint32_t slot, const float at[3], uint32_t most) {
  uint32_t found = 0;
  for (uint32_t row = own.heads[slot]; row != CUDA_NO_POINT && found < most; row = own.links[row]) {
    const float *point = r.points + (uint64_t)row * r.columns;
    const float other[3] = {point[0], point[1], own.map.flat ? 0.0f : point[2]};
    found += vx_squared_distance(at, other) <= own.square;
  }
  return found;
}

// Whether a row of a cell with `found` other rows has enough neighbours, these included. Near cells come first.
static __device__ bool has_neighbors(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint32_t row,
                                     uint32_t found) {
  const float *point = r.points + (uint64_t)row * r.columns;
  const float at[3] = {point[0], point[1], own.map.flat ? 0.0f : point[2]};
  struct part part = part_of(r, own, row);
  int32_t cell[3], deep = own.map.flat ? 0 : VX_NEAR_CELLS;
  vx_near_cell(&own.map, point, cell);
  for (int32_t shell = 1; shell <= VX_NEAR_CELLS; shell++)
    for (int32_t x = -shell; x <= shell; x++)
      for (int32_t y = -shell; y <= shell; y++)
        for (int32_t z = -min(shell, deep); z <= min(shell, deep); z++) {
          if (max(max(abs(x), abs(y)), abs(z)) != shell) continue;
          if (found >= own.min_neighbors) return true;
          const int32_t other[3] = {cell[0] + x, cell[1] + y, cell[2] + z};
          uint32_t slot = find_slot(r, own, part, other);
          if (slot != CUDA_NO_SLOT) found += neighbors_in(r, own, slot, at, own.min_neighbors - found);
        }
  return found >= own.min_neighbors;
}

static __global__ void __launch_bounds__(BLOCK)
    search_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct radius_outlier own) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row >= r.clouds.num_points) return;
  uint32_t slot = own.slots[row];
  own.drops[row] = slot != CUDA_NO_SLOT && !has_neighbors(r, own, (uint32_t)row, own.counts[slot] - 1);
}

static __global__ void __launch_bounds__(BLOCK)
    drop_kernel(const __grid_constant__ struct cuda_chain_rows r, const uint8_t *drops) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row < r.clouds.num_points && drops[row]) cuda_drop(r, (uint32_t)row, VX_FATE_RADIUS_OUTLIER);
  cuda_end_step(r);
}

// ---- all together ---------------------------------------------------------------------------------------------------

// Two slots are a word that is cleared at once; the number of slots is even.
static void lay_out(struct radius_outlier *own, uint64_t rows, uint64_t **ones, uint64_t **zeros,
                    struct cuda_arena *arena) {
  uint64_t slots = rows * own->slots_per_row;
  take(arena, ones, slots);
  take(arena, zeros, slots / 2);
  own->owners = (uint32_t *)*ones;
  own->heads = own->owners + slots;
  own->counts = (uint32_t *)*zeros;
  take(arena, &own->slots, rows);
  take(arena, &own->links, rows);
  take(arena, &own->drops, rows);
}

enum vx_status cuda_step_radius_outlier(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  const struct vx_radius_outlier *params = &step->params.radius_outlier;
  struct radius_outlier own = {};
  uint64_t rows = chain->rows.clouds.num_points, *ones, *zeros;
  unsigned blocks = cuda_blocks(rows, BLOCK);
  own.map = vx_near_map_of(params);
  own.square = params->radius * params->radius;
  own.min_neighbors = (uint32_t)params->min_neighbors;
  own.slots_per_row = rows < 1 << 19 ? 4 : 2;
  memcpy(own.hash.seed, chain->run.lane->seed, sizeof own.hash.seed);
  CUDA_TRY(
      cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(&own, rows, &ones, &zeros, arena); }));
  uint64_t words = rows * own.slots_per_row;
  CUDA_TRY(cuda_fill(chain, ones, words, zeros, words / 2, error));
  CUDA_TRY(cuda_launch("insert_kernel", insert_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, own));
  CUDA_TRY(cuda_launch("search_kernel", search_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, own));
  return cuda_launch("drop_kernel", drop_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows,
                     (const uint8_t *)own.drops);
}

// Downsample on a GPU (kernels/step_downsample.h): cuda_step_downsample, at the end of this file. All clouds at once.
//
//   fill    Clears the table of cells.
//   insert  Each row gets the slot of its cell. The cell counts its rows, and knows the first of them.
//   means   The stages number, assign and lists of a voxelization without a cap (voxelize.cuh) list the rows of each
//           cell in order and sum them. The step has its own table, lists and counters for these stages.
//   rank    Each cell finds the least rank of its rows, and the row that has this rank.
//   drop    Drops the rows that do not represent their cells.
//
// Every cloud has a part of the table for itself, so a key need not name the cloud. With `every`, the rows that are
// left are numbered by a scan instead.
#include "kernels/cuda/base/table.cuh"
#include "kernels/cuda/steps/fill.cuh"
#include "kernels/cuda/steps/ranks.cuh"
#include "kernels/cuda/voxelize/voxelize.cuh"
#include "kernels/near.h"
#include "kernels/random.h"

enum { BLOCK = 256 };

// The step as its kernels see it.
struct downsample {
  struct vx_downsample params;
  struct cuda_table table;      // its keys: [slots]
  struct cuda_cell *cells;      // [slots]
  uint64_t *ranks;              // [slots]: the least rank; NULL if ranks do not matter
  uint32_t *slots;              // [num_points]: of each row
  uint32_t *places;             // [num_points]: number of the cell's rows inserted before it
  uint32_t slots_per_row;       // of each cloud's part of the table
  struct cuda_record *records;  // [num_points]: one per cell; NULL if there are no means
  const float *means;           // [num_points, columns]: one row per cell
};

static bool has_means(const struct vx_downsample *params) {
  return params->method == VX_DOWNSAMPLE_CENTROID || params->method == VX_DOWNSAMPLE_NEAREST_CENTROID;
}

static bool has_ranks(const struct vx_downsample *params) {
  return params->method == VX_DOWNSAMPLE_CENTER || params->method == VX_DOWNSAMPLE_NEAREST_CENTROID ||
         params->method == VX_DOWNSAMPLE_RANDOM;
}

// ---- insert ---------------------------------------------------------------------------------------------------------

// Finds the slot of a key in its cloud's part of the table; a new key claims one. At least half of the slots stay free.
static __device__ uint32_t slot_of(const struct downsample &own, const struct cuda_clouds &clouds, int32_t cloud,
                                   uint64_t key) {
  uint32_t first = clouds.count == 1 ? 0 : clouds.first_point[cloud];
  uint32_t rows = clouds.count == 1 ? clouds.num_points : clouds.first_point[cloud + 1] - first;
  uint64_t begin = (uint64_t)first * own.slots_per_row, slots = (uint64_t)rows * own.slots_per_row;
  uint64_t at = __umul64hi(cuda_first_slot(own.table, key), slots);
  for (;; at = at + 1 == slots ? 0 : at + 1) {
    uint64_t before = atomicCAS((unsigned long long *)&own.table.keys[begin + at], CUDA_NO_KEY, key);
    if (before == CUDA_NO_KEY || before == key) return (uint32_t)(begin + at);
  }
}

static __device__ bool find_key(const struct vx_downsample &params, const float *row, uint64_t *key) {
  int32_t cell[3];
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) inside = vx_lattice_on_axis(&params, axis, row[axis], &cell[axis]) && inside;
  *key = vx_lattice_key(cell[0], cell[1], cell[2]);
  return inside;
}

static __global__ void __launch_bounds__(BLOCK)
    insert_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct downsample own) {
  cuda_wait_in_turn();  // in turn, since the next kernel takes a ticket that must be clear before its own wait
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < r.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    bool here = first + threadIdx.x < r.clouds.num_points;
    uint32_t row = (uint32_t)first + (here ? threadIdx.x : 0);
    const float *at = r.points + (uint64_t)row * r.columns;
    bool left = here && cuda_is_left(at[0]);
    uint64_t key = 0;
    bool inside = left && find_key(own.params, at, &key);
    uint32_t all_inside = __ballot_sync(~0u, inside);
    if (inside) {
      int32_t cloud = cuda_cloud_of_point(r.clouds, row);
      uint32_t peers = __match_any_sync(all_inside, (unsigned long long)key);
      if (r.clouds.count > 1) peers &= __match_any_sync(all_inside, cloud);
      cuda_place(own.cells, own.slots, own.places, all_inside, peers, row,
                 [&] { return slot_of(own, r.clouds, cloud, key); });
    } else if (here) {
      own.slots[row] = CUDA_NO_SLOT;
      if (left) cuda_drop(r, row, VX_FATE_OUT_OF_LATTICE);
    }
    __syncwarp();
  }
}

// ---- rank -----------------------------------------------------------------------------------------------------------

// Where the row that represents a cell is noted. At first this is the cell's first row.
static __device__ uint32_t *head_of(const struct downsample &own, uint32_t slot) {
  struct cuda_cell *cell = &own.cells[slot];  // with means, `first` is the cell's number
  return own.records ? &own.records[cell->first].first_point : &cell->first;
}

static __device__ uint64_t rank_of(const struct cuda_chain_rows &r, const struct downsample &own, uint32_t row,
                                   uint32_t slot) {
  const float *at = r.points + (uint64_t)row * r.columns;
  float centre[3];
  if (own.params.method == VX_DOWNSAMPLE_RANDOM) return vx_random_of_row((uint64_t)own.params.seed, row);
  if (!own.means) vx_lattice_centre(&own.params, own.table.keys[slot], centre);
  const float *to = own.means ? own.means + (uint64_t)own.cells[slot].first * r.columns : centre;
  return (uint64_t)vx_float_bits(vx_canonical(vx_squared_distance(at, to))) << 32 | row;  // the mean may be NaN
}

// Runs twice: finds the least rank of each cell, then the row that has this rank.
static __global__ void __launch_bounds__(BLOCK) rank_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                            const __grid_constant__ struct downsample own, bool found) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  uint32_t slot = row < r.clouds.num_points ? own.slots[row] : CUDA_NO_SLOT;
  if (slot == CUDA_NO_SLOT) return;
  uint64_t rank = rank_of(r, own, (uint32_t)row, slot);
  if (!found)
    atomicMin((unsigned long long *)&own.ranks[slot], (unsigned long long)rank);
  else if (rank == own.ranks[slot])
    *head_of(own, slot) = (uint32_t)row;
}

// ---- drop -----------------------------------------------------------------------------------------------------------

static __device__ void use_mean(const struct cuda_chain_rows &r, const struct downsample &own, uint32_t row,
                                uint32_t slot) {
  const float *mean = own.means + (uint64_t)own.cells[slot].first * r.columns;
  uint32_t columns = own.params.average == VX_AVERAGE_XYZ ? 3 : r.columns;
  for (uint32_t c = 0; c < columns; c++) r.points[(uint64_t)row * r.columns + c] = mean[c];
  if (!vx_are_finite(mean[0], mean[1], mean[2])) cuda_drop(r, row, VX_FATE_NOT_FINITE);
}

static __global__ void __launch_bounds__(BLOCK)
    drop_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct downsample own) {
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  uint32_t row = (uint32_t)at, slot = at < r.clouds.num_points ? own.slots[at] : CUDA_NO_SLOT;
  if (slot != CUDA_NO_SLOT) {
    struct cuda_cell cell = own.cells[slot];
    uint32_t hits = own.records ? own.records[cell.first].hits : cell.hits + 1, head = *head_of(own, slot);
    if (hits < (uint32_t)own.params.min_points)
      cuda_drop(r, row, VX_FATE_SPARSE_VOXEL);
    else if (own.params.method != VX_DOWNSAMPLE_ALL && head != row)
      cuda_merge(r, row, head);
    else if (own.params.method == VX_DOWNSAMPLE_CENTROID)
      use_mean(r, own, row, slot);
  }
  cuda_end_step(r);
}

// ---- by cells -------------------------------------------------------------------------------------------------------

// The arrays of the step. `voxels`: what a voxelization of the rows would have, for the means.
struct arrays {
  struct downsample own;
  struct cuda_run voxels;
  uint64_t num_slots;
  uint64_t *control;  // [num_control]
  uint64_t num_control;
};

static void lay_out_means(struct arrays *arrays, struct cuda_arena *arena) {
  struct cuda_run *voxels = &arrays->voxels;
  uint64_t rows = voxels->clouds.num_points, clouds = (uint64_t)voxels->clouds.count;
  take(arena, &arrays->control, arrays->num_control);
  take(arena, &voxels->records, rows);
  take(arena, &voxels->lists, rows);
  take(arena, &voxels->queue, rows);
  take(arena, &voxels->means, rows * voxels->columns);
  // The group sums of all levels need less than a sixteenth of the rows.
  take(arena, &voxels->tree_sums, (rows / (CUDA_SUM_GROUP / 4) + 2) * voxels->columns);
  if (clouds > 1) {
    take(arena, &voxels->clouds.first_cell, clouds);
    take(arena, &voxels->clouds.first_row, clouds);
  }
}

static void lay_out(struct arrays *arrays, struct cuda_arena *arena) {
  struct downsample *own = &arrays->own;
  uint64_t rows = arrays->voxels.clouds.num_points;
  uint64_t words = arrays->num_slots * (has_ranks(&own->params) ? 3 : 2);
  take(arena, &own->table.keys, words);  // then the cells and the ranks, which are cleared together
  own->cells = (struct cuda_cell *)(own->table.keys + arrays->num_slots);
  own->ranks = own->table.keys + 2 * arrays->num_slots;
  take(arena, &own->slots, rows);
  take(arena, &own->places, rows);
  if (has_means(&own->params)) lay_out_means(arrays, arena);
}

// A voxelization whose cells are those of the step.
static void set_voxels(struct arrays *arrays) {
  struct cuda_run *voxels = &arrays->voxels;
  struct downsample *own = &arrays->own;
  voxels->control = (struct cuda_control *)arrays->control;
  voxels->counters = &voxels->control->counters[0];
  voxels->num_tiles = cuda_blocks(voxels->clouds.num_points, CUDA_TILE);
  voxels->row_capacity = voxels->clouds.max_rows = voxels->clouds.num_points;
  voxels->cap = CUDA_NO_CAP;
  voxels->unattended = true;
  voxels->cells = own->cells;
  voxels->slots = own->slots;
  voxels->ranks = own->places;
  own->records = voxels->records;
  own->means = voxels->means;
}

static enum vx_status prepare(struct cuda_chain *chain, const struct vx_downsample *params, struct arrays *arrays,
                              struct error *error) {
  uint64_t rows = chain->rows.clouds.num_points;
  arrays->own.params = *params;
  arrays->voxels = chain->run;
  (struct cuda_points &)arrays->voxels = chain->rows;
  arrays->own.slots_per_row = rows < 1 << 19 ? 4 : 2;
  arrays->num_slots = rows * arrays->own.slots_per_row;
  arrays->num_control =
      (sizeof(struct cuda_control) + sizeof(uint64_t) - 1) / sizeof(uint64_t) + cuda_blocks(rows, CUDA_TILE);
  memcpy(arrays->own.table.seed, chain->run.lane->seed, sizeof arrays->own.table.seed);
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(arrays, arena); }));
  if (has_means(params)) set_voxels(arrays);
  if (!has_ranks(params)) arrays->own.ranks = NULL;
  return VX_OK;
}

static enum vx_status find_means(const struct cuda_run *voxels, struct error *error) {
  CUDA_TRY(cuda_number(voxels, error));
  CUDA_TRY(cuda_assign(voxels, error));
  return cuda_order_lists(voxels, false, error);
}

static enum vx_status thin_cells(struct cuda_chain *chain, const struct vx_downsample *params, struct error *error) {
  struct arrays arrays = {};
  const struct downsample &own = arrays.own;
  const struct cuda_run *run = &chain->run;
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  CUDA_TRY(prepare(chain, params, &arrays, error));
  CUDA_TRY(cuda_fill(chain, own.table.keys, arrays.num_slots * (own.ranks ? 3 : 2), arrays.control,
                     arrays.control ? arrays.num_control : 0, error));
  CUDA_TRY(cuda_launch("insert_kernel", insert_kernel, blocks, BLOCK, 0, run, error, chain->rows, own));
  if (own.records) CUDA_TRY(find_means(&arrays.voxels, error));
  for (int found = 0; own.ranks && found < 2; found++)
    CUDA_TRY(cuda_launch("rank_kernel", rank_kernel, blocks, BLOCK, 0, run, error, chain->rows, own, found != 0));
  return cuda_launch("drop_kernel", drop_kernel, blocks, BLOCK, 0, run, error, chain->rows, own);
}

// ---- by number ------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    skip_kernel(const __grid_constant__ struct cuda_chain_rows r, const uint32_t *before, uint32_t every) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row < r.clouds.num_points && cuda_is_left(r.points[row * r.columns])) {
    int32_t cloud = cuda_cloud_of_point(r.clouds, (uint32_t)row);
    uint32_t first = r.clouds.count == 1 ? 0 : r.clouds.first_point[cloud];
    if ((before[row] - before[first]) % every != 0) cuda_drop(r, (uint32_t)row, VX_FATE_SKIPPED);
  }
  cuda_end_step(r);
}

static enum vx_status thin_evenly(struct cuda_chain *chain, uint32_t every, struct error *error) {
  struct cuda_ranks ranks = {};
  uint32_t rows = chain->rows.clouds.num_points;
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { cuda_take_ranks(&ranks, rows, arena); }));
  CUDA_TRY(cuda_fill(chain, NULL, 0, ranks.tiles, (uint64_t)ranks.num_tiles + 1, error));
  CUDA_TRY(cuda_rank_rows(chain, ranks, error));
  return cuda_launch("skip_kernel", skip_kernel, cuda_blocks(rows, BLOCK), BLOCK, 0, &chain->run, error, chain->rows,
                     (const uint32_t *)ranks.before, every);
}

// ---- all together ---------------------------------------------------------------------------------------------------

enum vx_status cuda_step_downsample(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  const struct vx_downsample *params = &step->params.downsample;
  return params->every != 0 ? thin_evenly(chain, (uint32_t)params->every, error) : thin_cells(chain, params, error);
}

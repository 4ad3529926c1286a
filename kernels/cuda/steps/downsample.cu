// Downsample on a GPU (kernels/step_downsample.h), all clouds at once.
//
// If the first row of each cell stays, whatever its number of rows:
//   first   Each row finds the slot of its cell, which knows the first of its rows so far. Of two rows that meet there,
//           the later is dropped, and the earlier is its head. A head may be dropped too, for an earlier head.
//
// Otherwise:
//   insert  Each row finds the owner of its cell. The cell counts its rows, and knows the first of them.
//   list    If there are means: numbers the cells, and lists the rows of each.
//   means   Like the stage `lists` of a voxelization (lists.cuh), sorts the lists of the cells and sums their rows. If
//           the means are the result, also puts them in place and drops the other rows, and the step ends here.
//   rank    Each cell finds the least rank of its rows, and the row that has this rank.
//   drop    Drops the rows that do not represent their cells.
//
// With `every`, the rows that are left are numbered by a scan instead.
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/arrival.cuh"
#include "kernels/cuda/steps/cells.cuh"
#include "kernels/cuda/steps/ranks.cuh"
#include "kernels/cuda/voxelize/lists.cuh"
#include "kernels/cuda/voxelize/voxelize.cuh"
#include "kernels/near.h"
#include "kernels/random.h"

enum { BLOCK = BRING_BLOCK };

// Where a cell's mean and list are, if there are means.
struct __align__(8) listed {
  uint32_t number;  // CUDA_NO_ROW: not known yet
  uint32_t begin;   // of its list
};

// The data of a cell are at the row of its owner.
struct downsample {
  struct vx_downsample params;
  struct cuda_owners table;
  uint64_t *keys;           // [num_points]: of each row's cell
  struct cuda_cell *cells;  // [num_points]
  uint64_t *ranks;          // [num_points]: the least rank of each cell; NULL if ranks do not matter
  uint32_t *owners;         // [num_points]: of each row's cell; CUDA_NO_SLOT if the row has no cell
  uint32_t *places;         // [num_points]: number of the cell's rows inserted before each row
  // If there are means; else NULL:
  struct listed *listed;           // [num_points]: of each cell, at its first row
  struct cuda_counters *counters;  // of the lists
  struct cuda_record *records;     // [num_points]: one per cell, by number
  const float *means;              // [num_points, columns]: one row per cell, by number
};

static bool has_means(const struct vx_downsample *params) {
  return params->method == VX_DOWNSAMPLE_CENTROID || params->method == VX_DOWNSAMPLE_NEAREST_CENTROID;
}

static bool has_ranks(const struct vx_downsample *params) {
  return params->method == VX_DOWNSAMPLE_CENTER || params->method == VX_DOWNSAMPLE_NEAREST_CENTROID ||
         params->method == VX_DOWNSAMPLE_RANDOM;
}

// ---- insert ---------------------------------------------------------------------------------------------------------

static __device__ bool find_key(const struct vx_downsample &params, const struct location &at, uint64_t *key) {
  const float row[3] = {at.x, at.y, at.z};
  int32_t cell[3];
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) inside = vx_lattice_on_axis(&params, axis, row[axis], &cell[axis]) && inside;
  *key = vx_lattice_key(cell[0], cell[1], cell[2]);
  return inside;
}

// What the row needs if it becomes the owner of its cell.
static __device__ void prepare_cell(const struct downsample &own, uint32_t row, uint64_t key) {
  own.keys[row] = key;
  *(uint64_t *)&own.cells[row] = UINT64_MAX;
  if (own.ranks) own.ranks[row] = UINT64_MAX;
  if (own.listed) own.listed[row].number = CUDA_NO_ROW;
}

template <typename arrival>
static __global__ void __launch_bounds__(BLOCK)
    insert_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct downsample own,
                  const __grid_constant__ arrival arriving) {
  cuda_begin_rows(r, arriving);
  uint64_t thread = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  struct location at[1] = {};
  cuda_take_rows(r, arriving, (uint64_t)blockIdx.x * BLOCK, at);
  bool here = thread < r.clouds.num_points;
  if (own.counters && thread < sizeof *own.counters / sizeof(uint32_t)) ((uint32_t *)own.counters)[thread] = 0;
  uint32_t row = here ? (uint32_t)thread : 0;
  bool left = here && cuda_is_left(at[0].x);
  uint64_t key = 0;
  bool inside = left && find_key(own.params, at[0], &key);
  uint32_t all_inside = __ballot_sync(~0u, inside);
  if (inside) {
    prepare_cell(own, row, key);
    uint32_t peers = __match_any_sync(all_inside, (unsigned long long)key);
    if (r.clouds.count > 1) peers &= __match_any_sync(all_inside, cuda_cloud_of_point(r.clouds, row));
    cuda_place(own.cells, own.owners, own.places, all_inside, peers, row, [&] {
      struct cuda_part part = cuda_part_of(own.table, r.clouds, row);
      return cuda_claim(own.table, part, key, row, [&](uint32_t other) { return __ldcg(&own.keys[other]) == key; });
    });
  } else if (here) {
    own.owners[row] = CUDA_NO_SLOT;
    if (left) cuda_drop(r, row, VX_FATE_OUT_OF_LATTICE);
  }
  cuda_end_rows(r, arriving);
}

// ---- means ----------------------------------------------------------------------------------------------------------

static __device__ void queue_cell(const struct voxel_view &v, uint32_t number, uint32_t hits) {
  if (hits <= CUDA_TINY_LIST) return;
  bool is_long = hits > CUDA_WARP_LIST;
  uint32_t at = atomicAdd(is_long ? &v.counters->num_long : &v.counters->num_short, 1);
  v.queue[is_long ? v.row_capacity - 1 - at : at] = number;
}

// Called by a whole block. The first row of a cell numbers the cell and takes room for its list; the others wait until
// it has done so. The cells are in no particular order.
static __device__ struct listed list_cell(const struct voxel_view &v, const struct downsample &own, uint32_t row,
                                          uint32_t owner, struct cuda_cell cell) {
  __shared__ struct listed taken;
  bool is_first = owner != CUDA_NO_SLOT && cell.first == row;
  uint32_t hits = is_first ? cell.hits + 1 : 0, cells, rows;
  uint32_t number = cuda_block_before(is_first, &cells), begin = cuda_block_before(hits, &rows);
  if (threadIdx.x == 0) taken = {atomicAdd(&v.counters->num_rows, cells), atomicAdd(&v.counters->num_inside, rows)};
  __syncthreads();
  struct listed listed = {taken.number + number, taken.begin + begin};
  if (is_first) {
    *(volatile uint64_t *)&own.listed[row] = (uint64_t)listed.begin << 32 | listed.number;
    *(uint4 *)&v.records[listed.number] = make_uint4(row, hits, listed.begin, owner);
    queue_cell(v, listed.number, hits);
  }
  __syncthreads();
  if (owner == CUDA_NO_SLOT || is_first) return listed;
  volatile uint64_t *known = (volatile uint64_t *)&own.listed[cell.first];
  uint64_t word = *known;
  while ((uint32_t)word == CUDA_NO_ROW) word = *known;
  return {(uint32_t)word, (uint32_t)(word >> 32)};
}

// Decides the fate of a row in a cell of `hits` rows, which the row `head` represents. `mean`: the cell's mean, if the
// step gives it to `head`; or NULL.
static __device__ void end_row(const struct cuda_chain_rows &r, const struct vx_downsample &params, uint32_t row,
                               uint32_t head, uint32_t hits, const float *mean) {
  if (hits < (uint32_t)params.min_points)
    cuda_drop(r, row, VX_FATE_SPARSE_VOXEL);
  else if (params.method != VX_DOWNSAMPLE_ALL && head != row)
    cuda_merge(r, row, head);
  if (!mean || hits < (uint32_t)params.min_points || head != row) return;
  uint32_t columns = params.average == VX_AVERAGE_XYZ ? 3 : r.columns;
  for (uint32_t c = 0; c < columns; c++) r.points[(uint64_t)row * r.columns + c] = mean[c];
  if (!vx_are_finite(mean[0], mean[1], mean[2])) cuda_drop(r, row, VX_FATE_NOT_FINITE);
}

// Blocks take their rows in order, so a row waits only for an earlier row, whose block already runs.
static __global__ void __launch_bounds__(BLOCK)
    list_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct downsample own) {
  __shared__ uint32_t part;
  cuda_wait();
  if (threadIdx.x == 0) part = atomicAdd(&v.counters->number_ticket, 1);
  __syncthreads();
  uint64_t row = (uint64_t)part * BLOCK + threadIdx.x;
  uint32_t owner = row < v.clouds.num_points ? own.owners[row] : CUDA_NO_SLOT;
  struct cuda_cell cell = {};
  if (owner != CUDA_NO_SLOT) cell = own.cells[owner];
  struct listed listed = list_cell(v, own, (uint32_t)row, owner, cell);
  if (owner != CUDA_NO_SLOT) v.lists[listed.begin + own.places[row]] = (uint32_t)row;
}

// The thread, warp or block that has a cell reads all of its rows before it writes any.
template <bool are_result>
static __global__ void __launch_bounds__(LISTS_BLOCK, 3)
    means_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_chain_rows r,
                 const __grid_constant__ struct vx_downsample params) {
  if (!are_result) {
    order_lists<UNATTENDED>(v, false, cuda_unused());
    return;
  }
  cuda_begin_step();
  order_lists<UNATTENDED>(v, false, [&](uint32_t row, uint32_t head, uint32_t hits, const float *mean) {
    end_row(r, params, row, head, hits, mean);
  });
  cuda_end_step(r);
}

// ---- rank -----------------------------------------------------------------------------------------------------------

static __device__ uint32_t number_of(const struct downsample &own, uint32_t owner) {
  return own.listed[own.cells[owner].first].number;
}

// Where the row that represents a cell is noted. At first this is the cell's first row.
static __device__ uint32_t *head_of(const struct downsample &own, uint32_t owner) {
  return own.records ? &own.records[number_of(own, owner)].first_point : &own.cells[owner].first;
}

static __device__ uint64_t rank_of(const struct cuda_chain_rows &r, const struct downsample &own, uint32_t row,
                                   uint32_t owner) {
  const float *at = r.points + (uint64_t)row * r.columns;
  float centre[3];
  if (own.params.method == VX_DOWNSAMPLE_RANDOM) return vx_random_of_row((uint64_t)own.params.seed, row);
  if (!own.means) vx_lattice_centre(&own.params, own.keys[owner], centre);
  const float *to = own.means ? own.means + (uint64_t)number_of(own, owner) * r.columns : centre;
  return (uint64_t)vx_float_bits(vx_canonical(vx_squared_distance(at, to))) << 32 | row;  // the mean may be NaN
}

// Runs twice: finds the least rank of each cell, then the row that has this rank.
static __global__ void __launch_bounds__(BLOCK) rank_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                            const __grid_constant__ struct downsample own, bool found) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  uint32_t owner = row < r.clouds.num_points ? own.owners[row] : CUDA_NO_SLOT;
  if (owner == CUDA_NO_SLOT) return;
  uint64_t rank = rank_of(r, own, (uint32_t)row, owner);
  if (!found)
    atomicMin((unsigned long long *)&own.ranks[owner], (unsigned long long)rank);
  else if (rank == own.ranks[owner])
    *head_of(own, owner) = (uint32_t)row;
}

// ---- drop -----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    drop_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct downsample own) {
  cuda_begin_step();
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  uint32_t row = (uint32_t)at, owner = at < r.clouds.num_points ? own.owners[at] : CUDA_NO_SLOT;
  if (owner != CUDA_NO_SLOT) end_row(r, own.params, row, *head_of(own, owner), own.cells[owner].hits + 1, NULL);
  cuda_end_step(r);
}

// ---- by cells -------------------------------------------------------------------------------------------------------

// `voxels`: a voxelization with the same cells, for lists.cuh, which makes the means.
struct arrays {
  struct downsample own;
  struct cuda_run voxels;
};

static void lay_out_means(struct arrays *arrays, struct cuda_arena *arena) {
  struct cuda_run *voxels = &arrays->voxels;
  uint64_t rows = voxels->clouds.num_points;
  take(arena, &arrays->own.listed, rows);
  take(arena, &voxels->counters, 1);
  take(arena, &voxels->records, rows);
  take(arena, &voxels->lists, rows);
  take(arena, &voxels->queue, rows);
  take(arena, &voxels->means, rows * voxels->columns);
  // The group sums of all levels need less than a sixteenth of the rows.
  take(arena, &voxels->tree_sums, (rows / (CUDA_SUM_GROUP / 4) + 2) * voxels->columns);
}

static void lay_out(struct arrays *arrays, struct cuda_arena *arena) {
  struct downsample *own = &arrays->own;
  uint64_t rows = arrays->voxels.clouds.num_points;
  take(arena, &own->keys, rows);
  take(arena, &own->cells, rows);
  if (has_ranks(&own->params)) take(arena, &own->ranks, rows);
  take(arena, &own->owners, rows);
  take(arena, &own->places, rows);
  if (has_means(&own->params)) lay_out_means(arrays, arena);
}

// Lets `voxels` and the step use the same arrays. All clouds count as one.
static void set_voxels(struct arrays *arrays) {
  struct cuda_run *voxels = &arrays->voxels;
  struct downsample *own = &arrays->own;
  voxels->clouds.count = 1;
  voxels->clouds.first_point = NULL;
  voxels->row_capacity = voxels->clouds.max_rows = voxels->clouds.num_points;
  voxels->cap = CUDA_NO_CAP;
  voxels->slots = own->owners;
  own->counters = voxels->counters;
  own->records = voxels->records;
  own->means = voxels->means;
}

static enum vx_status prepare(struct cuda_chain *chain, const struct vx_downsample *params, struct arrays *arrays,
                              struct error *error) {
  arrays->own.params = *params;
  arrays->voxels = chain->run;
  (struct cuda_points &)arrays->voxels = chain->rows;
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(arrays, arena); }));
  if (has_means(params)) set_voxels(arrays);
  return cuda_take_owners(chain, &arrays->own.table, error);
}

static enum vx_status thin_cells(struct cuda_chain *chain, const struct vx_downsample *params, struct error *error) {
  struct arrays arrays = {};
  const struct downsample &own = arrays.own;
  const struct cuda_run *run = &chain->run, *voxels = &arrays.voxels;
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  CUDA_TRY(prepare(chain, params, &arrays, error));
  CUDA_TRY(cuda_launch_first(chain, "insert_kernel", insert_kernel<struct cuda_arrival>,
                             insert_kernel<struct cuda_in_place>, blocks, error, own));
  if (own.means) {
    CUDA_TRY(cuda_launch("list_kernel", list_kernel, blocks, BLOCK, 0, run, error, *voxels, own));
    bool are_result = params->method == VX_DOWNSAMPLE_CENTROID;
    CUDA_TRY(cuda_launch("means_kernel", are_result ? means_kernel<true> : means_kernel<false>,
                         cuda_list_blocks(voxels), LISTS_BLOCK, 0, run, error, *voxels, chain->rows, *params));
    if (are_result) return VX_OK;
  }
  for (int found = 0; own.ranks && found < 2; found++)
    CUDA_TRY(cuda_launch("rank_kernel", rank_kernel, blocks, BLOCK, 0, run, error, chain->rows, own, found != 0));
  return cuda_launch("drop_kernel", drop_kernel, blocks, BLOCK, 0, run, error, chain->rows, own);
}

// ---- the first of each cell -----------------------------------------------------------------------------------------

// Of two rows that meet, the later may belong to another block, which still runs. But the later row has arrived, since
// it has claimed its cell.
template <typename arrival>
static __global__ void __launch_bounds__(BLOCK)
    first_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct downsample own,
                 const __grid_constant__ arrival arriving) {
  cuda_begin_rows(r, arriving);
  uint64_t first = (uint64_t)blockIdx.x * BLOCK;
  struct location at[1] = {};
  cuda_take_rows(r, arriving, first, at);
  uint32_t row = (uint32_t)first + threadIdx.x;
  bool left = cuda_is_left(at[0].x);
  uint64_t key = 0;
  bool inside = left && find_key(own.params, at[0], &key);
  uint32_t all_inside = __ballot_sync(~0u, inside);
  if (inside) {
    uint32_t peers = __match_any_sync(all_inside, (unsigned long long)key), lane = threadIdx.x % 32;
    if (r.clouds.count > 1) peers &= __match_any_sync(all_inside, cuda_cloud_of_point(r.clouds, row));
    uint32_t leader = __ffs(peers) - 1;
    if (lane == leader) {
      own.keys[row] = key;
      struct cuda_later later = cuda_claim_first(own.table, cuda_part_of(own.table, r.clouds, row), key, row,
                                                 [&](uint32_t other) { return __ldcg(&own.keys[other]) == key; });
      if (later.row != CUDA_NO_POINT) cuda_merge(r, later.row, later.before);
    } else {
      cuda_merge(r, row, row - lane + leader);
    }
  } else if (left) {
    cuda_drop(r, row, VX_FATE_OUT_OF_LATTICE);
  }
  cuda_end_rows(r, arriving);
}

static enum vx_status keep_firsts(struct cuda_chain *chain, const struct vx_downsample *params, struct error *error) {
  struct downsample own = {};
  uint64_t rows = chain->rows.clouds.num_points;
  own.params = *params;
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { take(arena, &own.keys, rows); }));
  CUDA_TRY(cuda_take_owners(chain, &own.table, error));
  return cuda_launch_first(chain, "first_kernel", first_kernel<struct cuda_arrival>, first_kernel<struct cuda_in_place>,
                           cuda_blocks(rows, BLOCK), error, own);
}

// ---- by number ------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    skip_kernel(const __grid_constant__ struct cuda_chain_rows r, const uint32_t *before, uint32_t every) {
  cuda_begin_step();
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
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { take(arena, &ranks.before, rows); }));
  CUDA_TRY(cuda_rank_rows(chain, &ranks, error));
  return cuda_launch("skip_kernel", skip_kernel, cuda_blocks(rows, BLOCK), BLOCK, 0, &chain->run, error, chain->rows,
                     (const uint32_t *)ranks.before, every);
}

// ---- all together ---------------------------------------------------------------------------------------------------

enum vx_status cuda_step_downsample(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  const struct vx_downsample *params = &step->params.downsample;
  if (params->every != 0) return thin_evenly(chain, (uint32_t)params->every, error);
  bool firsts = params->method == VX_DOWNSAMPLE_FIRST && params->min_points == 1;
  return firsts ? keep_firsts(chain, params, error) : thin_cells(chain, params, error);
}

// Radius outlier on a GPU (kernels/step_radius_outlier.h).
//
//   insert  Each row finds its cell, and links itself into the cell's list.
//   search  Each row whose cell has few rows searches the cells near its own, and is dropped if it has few neighbours.
//           A warp searches for one row at a time, with a cell for each thread. It reads copies of the rows.
//
// The copies of a warp's rows lie side by side, cell by cell, so a cell's list goes through the copies of one warp
// before those of another. Apart from that, a list may be in any order.
#include "kernels/cuda/steps/arrival.cuh"
#include "kernels/cuda/steps/cells.cuh"
#include "kernels/near.h"

// Rows that need a search often follow one another. So each block of the search gets groups of GROUP adjacent rows; the
// groups are far apart.
enum { BLOCK = BRING_BLOCK, SEARCH_BLOCK = 512, GROUP = 8 };
// After this many turns, which take about a millisecond, a warp asks whether the job is stopped.
enum { LOOK_TURNS = 2048 };

struct cell {
  uint32_t head;  // the first place of the cell's list
  uint32_t rows;
};

// Here the owner of a cell (cells.cuh) is a place, not a row.
struct radius_outlier {
  struct vx_near_map map;
  float square;  // of the radius
  uint32_t min_neighbors;
  struct cuda_owners table;
  struct cell *cells;  // [num_points]
  float4 *places;      // [num_points]: x, y, z of a row, then the next place of its cell's list or CUDA_NO_POINT
  uint32_t *owners;    // [num_points]: of each row's cell; CUDA_NO_SLOT if the row is not left
};

static __device__ uint64_t key_of(const struct radius_outlier &own, const int32_t cell[3]) {
  uint64_t key = cuda_first_slot(own.table.hash, (uint64_t)(uint32_t)cell[0] << 32 | (uint32_t)cell[1]);
  return key + (uint32_t)cell[2];
}

static __device__ bool is_in(const struct radius_outlier &own, const float4 &place, const int32_t cell[3]) {
  const float at[3] = {place.x, place.y, place.z};
  int32_t other[3];
  vx_near_cell(&own.map, at, other);
  return other[0] == cell[0] && other[1] == cell[1] && other[2] == cell[2];
}

static __device__ float4 load_row(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint32_t row) {
  const float *at = r.points + (uint64_t)row * r.columns;
  return make_float4(at[0], at[1], own.map.flat ? 0.0f : at[2], 0.0f);
}

// ---- insert ---------------------------------------------------------------------------------------------------------

// The threads of `left`, all of one warp, whose rows are in the same cell as this thread's row.
static __device__ uint32_t peers_of(const struct cuda_chain_rows &r, uint32_t left, uint32_t row,
                                    const int32_t cell[3]) {
  uint32_t peers = __match_any_sync(left, cell[0]);
  peers &= __match_any_sync(left, cell[1]);
  peers &= __match_any_sync(left, cell[2]);
  if (r.clouds.count > 1) peers &= __match_any_sync(left, cuda_cloud_of_point(r.clouds, row));
  return peers;
}

// The position of this thread among the threads of `left`, once these are put in an order in which peers are adjacent.
static __device__ uint32_t count_before(uint32_t left, uint32_t peers) {
  uint32_t before = __popc(peers & ((1u << threadIdx.x % 32) - 1));
  for (uint32_t rest = left, group; rest != 0; rest &= ~group) {
    group = __shfl_sync(left, peers, __ffs(rest) - 1);
    before += __ffs(group) < __ffs(peers) ? __popc(group) : 0;
  }
  return before;
}

// Called by the threads of `left`, all of one warp. The first peer acts for all.
static __device__ void insert(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint32_t left,
                              uint32_t row, float4 at) {
  const float point[3] = {at.x, at.y, at.z};
  int32_t cell[3];
  vx_near_cell(&own.map, point, cell);
  uint32_t peers = peers_of(r, left, row, cell), lane = threadIdx.x % 32, leader = __ffs(peers) - 1;
  uint32_t place = row - lane + count_before(left, peers), owner = CUDA_NO_SLOT, head = CUDA_NO_POINT;
  own.places[place] = at;
  if (lane == leader) {
    struct cuda_part part = cuda_part_of(own.table, r.clouds, row);
    own.cells[place] = {CUDA_NO_POINT, 0};
    owner = cuda_claim(own.table, part, key_of(own, cell), place,
                       [&](uint32_t other) { return is_in(own, __ldcg(&own.places[other]), cell); });
    head = atomicExch(&own.cells[owner].head, place);
    atomicAdd(&own.cells[owner].rows, (uint32_t)__popc(peers));
  }
  owner = __shfl_sync(left, owner, leader);
  head = __shfl_sync(left, head, leader);
  bool is_last = (peers & ~((2u << lane) - 1)) == 0;
  own.places[place].w = __uint_as_float(is_last ? head : place + 1);
  own.owners[row] = owner;
}

template <typename arrival>
static __global__ void __launch_bounds__(BLOCK)
    insert_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct radius_outlier own,
                  const __grid_constant__ arrival arriving) {
  cuda_begin_rows(r, arriving);
  struct location at[1] = {};
  cuda_take_rows(r, arriving, (uint64_t)blockIdx.x * BLOCK, at);
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  bool is_left = cuda_is_left(at[0].x);
  uint32_t left = __ballot_sync(~0u, is_left);
  if (is_left)
    insert(r, own, left, (uint32_t)row, make_float4(at[0].x, at[0].y, own.map.flat ? 0.0f : at[0].z, 0.0f));
  else if (row < r.clouds.num_points)
    own.owners[row] = CUDA_NO_SLOT;
  cuda_end_rows(r, arriving);
}

// ---- search ---------------------------------------------------------------------------------------------------------

// `stop`, `turns` and `stopped` carry over to the warp's next row.
struct search {
  struct cuda_part part;
  float at[3];
  int32_t cell[3];
  const struct cuda_stop *stop;
  uint32_t turns;  // of the warp: in each turn, every thread visits one place
  bool stopped;
};

static __device__ uint64_t slot_at(const struct radius_outlier &own, const struct search &search, uint64_t at) {
  return own.table.slots[search.part.begin + at];
}

// The first place of a cell's list; CUDA_NO_POINT if no row is in the cell. `at` and `slot`: where the search for the
// cell begins, and what is there.
static __device__ uint32_t find_list(const struct radius_outlier &own, const struct search &search,
                                     const int32_t cell[3], uint64_t at, uint64_t slot) {
  while (cuda_is_owned(own.table, slot)) {
    uint32_t head = own.cells[(uint32_t)slot].head;
    if (is_in(own, own.places[(uint32_t)slot], cell)) return head;
    at = cuda_next_slot(search.part, at);
    slot = slot_at(own, search, at);
  }
  return CUDA_NO_POINT;
}

// Called by a whole warp, with a list for each thread. Counts the neighbours in these, until `most` or more are found.
// Ends early if the job is stopped, since a list may have millions of rows, none of them near.
static __device__ uint32_t neighbors_in(const struct radius_outlier &own, struct search &search, uint32_t list,
                                        uint32_t most) {
  uint32_t found = 0;
  while (found < most && !search.stopped && __any_sync(~0u, list != CUDA_NO_POINT)) {
    bool is_near = false;
    if (list != CUDA_NO_POINT) {
      float4 place = own.places[list];
      const float other[3] = {place.x, place.y, place.z};
      is_near = vx_squared_distance(search.at, other) <= own.square;
      list = __float_as_uint(place.w);
    }
    found += __popc(__ballot_sync(~0u, is_near));
    if (++search.turns % LOOK_TURNS == 0) search.stopped = __any_sync(~0u, cuda_has_stopped(*search.stop, true));
  }
  return found;
}

// Called by a whole warp. Counts the neighbours in the cells that are `shell` cells away on some axis and at most
// `shell` on the others, until `most` or more are found. Each thread first reads the slots where the searches for its
// cells begin.
template <int shell>
static __device__ uint32_t neighbors_on(const struct radius_outlier &own, struct search &search, uint32_t most) {
  enum { SIDE = 2 * shell + 1, ROUNDS = (SIDE * SIDE * SIDE + 31) / 32 };
  int32_t cells[ROUNDS][3], num_cells = own.map.flat ? SIDE * SIDE : SIDE * SIDE * SIDE;
  uint64_t at[ROUNDS], slots[ROUNDS];
  uint32_t found = 0;
#pragma unroll
  for (int i = 0; i < ROUNDS; i++) {
    int32_t number = i * 32 + (int32_t)(threadIdx.x % 32);
    int32_t x = number % SIDE - shell, y = number / SIDE % SIDE - shell;
    int32_t z = own.map.flat ? 0 : number / (SIDE * SIDE) - shell;
    bool is_on = number < num_cells && max(max(abs(x), abs(y)), abs(z)) == shell;
    cells[i][0] = search.cell[0] + x;
    cells[i][1] = search.cell[1] + y;
    cells[i][2] = search.cell[2] + z;
    at[i] = cuda_home_of(own.table, search.part, key_of(own, cells[i]));
    slots[i] = is_on ? slot_at(own, search, at[i]) : 0;
  }
#pragma unroll
  for (int i = 0; i < ROUNDS; i++)
    if (found < most)
      found += neighbors_in(own, search, find_list(own, search, cells[i], at[i], slots[i]), most - found);
  return found;
}

// Called by a whole warp. Whether a row of a cell with `found` other rows has enough neighbours, these included. True
// if the job is stopped.
static __device__ bool has_neighbors(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint32_t row,
                                     uint32_t found, struct search &search) {
  float4 at = load_row(r, own, row);
  search.part = cuda_part_of(own.table, r.clouds, row);
  search.at[0] = at.x;
  search.at[1] = at.y;
  search.at[2] = at.z;
  vx_near_cell(&own.map, search.at, search.cell);
  static_assert(VX_NEAR_CELLS == 2, "two shells");
  found += neighbors_on<1>(own, search, own.min_neighbors - found);
  if (found < own.min_neighbors) found += neighbors_on<2>(own, search, own.min_neighbors - found);
  return found >= own.min_neighbors || search.stopped;
}

struct open_row {
  uint32_t row, others;  // others: the number of other rows in its cell
};

// Called by a whole block, for the next SEARCH_BLOCK of its rows. Lists in `open` the rows that need a search. Returns
// their number.
static __device__ uint32_t find_open(const struct cuda_chain_rows &r, const struct radius_outlier &own, uint64_t first,
                                     struct open_row open[SEARCH_BLOCK]) {
  __shared__ uint32_t num_open;
  if (threadIdx.x == 0) num_open = 0;
  __syncthreads();
  uint64_t group = (first + threadIdx.x) / GROUP * gridDim.x + blockIdx.x, row = group * GROUP + threadIdx.x % GROUP;
  uint32_t owner = row < r.clouds.num_points ? own.owners[row] : CUDA_NO_SLOT;
  uint32_t others = owner != CUDA_NO_SLOT ? own.cells[owner].rows - 1 : own.min_neighbors;
  bool is_open = others < own.min_neighbors;
  uint32_t mask = __ballot_sync(~0u, is_open), lane = threadIdx.x % 32, at = 0;
  if (lane == 0 && mask != 0) at = atomicAdd(&num_open, (uint32_t)__popc(mask));
  at = __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
  if (is_open) open[at] = {(uint32_t)row, others};
  __syncthreads();
  return num_open;
}

static __global__ void __launch_bounds__(SEARCH_BLOCK)
    search_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct radius_outlier own) {
  __shared__ struct open_row open[SEARCH_BLOCK];
  cuda_begin_step();
  cuda_wait();
  struct search search = {};
  search.stop = &r.stop;
  uint64_t rows = ((uint64_t)r.clouds.num_points + GROUP * gridDim.x - 1) / (GROUP * gridDim.x) * GROUP;  // of a block
  for (uint64_t first = 0; first < rows; first += SEARCH_BLOCK) {
    uint32_t num_open = find_open(r, own, first, open);
    for (uint32_t i = threadIdx.x / 32; i < num_open && !search.stopped; i += SEARCH_BLOCK / 32) {
      struct open_row its = open[i];
      bool stays = has_neighbors(r, own, its.row, its.others, search);
      __syncwarp();  // all threads have read the row
      if (!stays && threadIdx.x % 32 == 0) cuda_drop(r, its.row, VX_FATE_RADIUS_OUTLIER);
    }
    __syncthreads();
  }
  cuda_end_step(r);
}

// ---- all together ---------------------------------------------------------------------------------------------------

static void lay_out(struct radius_outlier *own, uint64_t rows, struct cuda_arena *arena) {
  take(arena, &own->cells, rows);
  take(arena, &own->places, rows);
  take(arena, &own->owners, rows);
}

enum vx_status cuda_step_radius_outlier(struct cuda_chain *chain, const struct vx_step *step, struct error *error) {
  const struct vx_radius_outlier *params = &step->params.radius_outlier;
  struct radius_outlier own = {};
  uint64_t rows = chain->rows.clouds.num_points;
  own.map = vx_near_map_of(params);
  own.square = params->radius * params->radius;
  own.min_neighbors = (uint32_t)params->min_neighbors;
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(&own, rows, arena); }));
  CUDA_TRY(cuda_take_owners(chain, &own.table, error));
  CUDA_TRY(cuda_launch_first(chain, "insert_kernel", insert_kernel<struct cuda_arrival>,
                             insert_kernel<struct cuda_in_place>, cuda_blocks(rows, BLOCK), error, own));
  return cuda_launch("search_kernel", search_kernel, cuda_looping_blocks(&chain->run, rows, GROUP * 16, 2),
                     SEARCH_BLOCK, 0, &chain->run, error, chain->rows, own);
}

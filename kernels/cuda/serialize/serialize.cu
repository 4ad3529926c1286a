// Serialize on a GPU.
//
//   cells    Finds the cell of each row that the steps left, and drops rows outside the lattice. Numbers the rows that
//            are left, by a scan, and finds the least and the largest cell of each cloud.
//   codes    Tells the host the number of rows, and the largest value in grid_coord, which gives the depth. Makes the
//            codes of all curves, and counts their digits, before the host knows these sizes.
//   sort     Sorts the codes of all curves at once (sort.cuh). The sort is stable, so rows with the same code ascend.
//            The host enqueues the first pass, then awaits the sizes. Without pools, the second and the last pass write
//            the tensors into the image of the output.
//   count    Counts the rows of each stage of pooling in the sorted codes of the first curve. The host awaits the
//            counts.
//   write    Writes the tensors of the rows into the image of the output, if there are pools.
//   pool     For each stage: a scan counts the new rows along each curve. The first curve's count gives each new row
//            its number. New rows get their codes and orders. The rows are sorted by new row. Then the stage's tensors
//            are written.
//
// A new row joins the rows in one larger cell, which are neighbours on every curve. So new rows have the order of the
// rows that they join, and only the first level is sorted by code.
#include "kernels/cuda/serialize/serialize.cuh"

#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/tensors.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/cuda/serialize/cells.cuh"
#include "kernels/cuda/serialize/sort.cuh"
#include "kernels/cuda/steps/steps.cuh"

enum { BLOCK = 256 };

struct level {
  int32_t *grid;    // [rows, 3]
  uint64_t *codes;  // [orders, rows]
  uint32_t rows;
  int32_t depth;
};

struct serialize {
  struct serial s;
  struct sort sort;                        // of the codes of the first level
  struct sort cluster_sort[VX_MAX_POOLS];  // of the rows of each stage
  struct level levels[2];
  struct level *level;             // current
  int64_t rows_done, inputs_done;  // sums over the stages done: their rows, the rows they joined
  int64_t pooled;                  // new rows of all stages
};

// ---- codes ----------------------------------------------------------------------------------------------------------

typedef struct cuda_tensors<VX_GRID_COORD, VX_POOL_SERIALIZED_INVERSE> serial_tensors;

// The first curve's thread also writes the row of grid_coord.
static __device__ uint64_t make_code(const struct serial &s, const struct level &level, uint32_t curve, uint32_t row) {
  uint32_t cloud = s.cloud_of ? s.cloud_of[row] : 0, cell[AXES];
  for (int axis = 0; axis < AXES; axis++) {
    cell[axis] = (uint32_t)s.cells[(uint64_t)row * AXES + axis] - least_of(s, cloud * AXES + (uint32_t)axis);
    if (curve == 0) level.grid[(uint64_t)row * AXES + axis] = (int32_t)cell[axis];
  }
  bool swap = vx_is_transposed(s.orders[curve]);
  uint32_t x = cell[swap ? 1 : 0], y = cell[swap ? 0 : 1], z = cell[2];
  uint64_t key = vx_is_hilbert(s.orders[curve]) ? vx_hilbert_key(level.depth, x, y, z) : vx_z_key(x, y, z);
  uint64_t code = (uint64_t)cloud << 3 * level.depth | key;
  level.codes[(uint64_t)curve * level.rows + row] = code;
  return code;
}

static __host__ __device__ inline int code_bits(const struct serial &s, const struct level &level) {
  return 3 * level.depth + s.cloud_bits;
}

// Called by a whole block. Returns the largest value in grid_coord. A cloud without rows has none.
static __device__ uint32_t find_largest(const struct serial &s, uint32_t clouds) {
  __shared__ uint32_t largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < clouds * AXES; i += SORT_BLOCK)
    if (__ldcg(&s.least[i]) != 0) atomicMax(&largest, __ldcg(&s.most[i]) - least_of(s, i));
  __syncthreads();
  return largest;
}

// As vx_serial_depth, which later refuses a job whose depth is too large.
static __device__ int32_t depth_of(const struct serial &s, uint32_t largest) {
  return s.depth > 0 ? s.depth : min((int32_t)VX_MAX_SERIAL_DEPTH, 32 - __clz(largest + 1));
}

// The first block tells the host the sizes. Each other block has a part of a curve, as far as there are parts. The
// kernel sets the sizes of level and sort, which the host does not know yet.
static __global__ void __launch_bounds__(SORT_BLOCK)
    codes_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct serial s,
                 const __grid_constant__ struct level unknown, const __grid_constant__ struct sort unsized) {
  __shared__ uint32_t digits[SORT_PASSES * SORT_DIGITS];
  cuda_wait();
  uint32_t largest = find_largest(s, (uint32_t)v.clouds.count);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) v.status->sparse[0] = largest;
    publish(v, v.sequence);
    return;
  }
  struct level level = {unknown.grid, unknown.codes, *s.rows, depth_of(s, largest)};
  struct sort sort = unsized;
  sort_set_sizes(&sort, level.rows, code_bits(s, level));
  uint32_t number = blockIdx.x - 1;
  uint32_t parts = sort_parts(level.rows), curve = parts > 0 ? number / parts : sort.segments;
  if (curve >= sort.segments) return;
  uint32_t part = number - curve * parts, row = part * SORT_BLOCK + threadIdx.x;
  bool here = row < level.rows;
  sort_count(sort, curve, part, here ? make_code(s, level, curve, row) : 0, here, digits);
}

static enum vx_status make_codes(const struct cuda_run *run, const struct serialize *own, struct error *error) {
  uint64_t parts = (uint64_t)sort_parts(run->clouds.num_points) * own->sort.segments;
  return cuda_launch("codes_kernel", codes_kernel, parts + 1, SORT_BLOCK, 0, run, error, *run, own->s, *own->level,
                     own->sort);
}

// ---- sort -----------------------------------------------------------------------------------------------------------

// What the second pass of the sort also writes: grid_coord and serialized_code, if requested, and the gaps between the
// tensors.
struct beside {
  struct level level;
  int32_t *grid;    // or NULL
  uint64_t *codes;  // or NULL
  uint64_t num_codes;
  serial_tensors tensors;

  __device__ void operator()(uint64_t thread, uint64_t threads) const {
    tensors.zero_gaps(thread);
    for (uint64_t i = thread; grid && i < (uint64_t)level.rows * AXES; i += threads) grid[i] = __ldcg(&level.grid[i]);
    for (uint64_t i = thread; codes && i < num_codes; i += threads) codes[i] = __ldcg(&level.codes[i]);
  }
};

// The bits of a row in the keys of the sort; 0: they may have no room, or the sorted codes are wanted.
static int row_bits_of(const struct cuda_run *run, const struct serialize *own) {
  int depth = own->s.depth > 0 ? own->s.depth : (int)VX_MAX_SERIAL_DEPTH,
      bits = vx_bits_for((int32_t)run->clouds.num_points);
  bool fit = 3 * depth + own->s.cloud_bits - SORT_BITS + bits <= 64;
  return fit && run->job->params.serialize.num_pools == 0 ? bits : 0;
}

// Enqueues the first pass of the sort, for as many rows as there may be.
static enum vx_status begin_sort(const struct cuda_run *run, struct serialize *own, struct error *error) {
  sort_set_sizes(&own->sort, run->clouds.num_points, 0);
  own->sort.known_rows = own->s.rows;
  own->sort.row_bits = row_bits_of(run, own);
  return sort_enqueue(run, own->sort, 0, own->level->codes, false, beside{}, NULL, error);
}

// `moment`: see sort.cuh.
static enum vx_status end_sort(const struct cuda_run *run, struct serialize *own, const struct beside &beside,
                               unsigned long long *moment, struct error *error) {
  const struct level &level = *own->level;
  if (level.rows == 0) return VX_OK;
  sort_set_sizes(&own->sort, level.rows, code_bits(own->s, level));
  own->sort.order = own->s.order;
  own->sort.inverse = own->s.inverse;
  return sort_rest(run, own->sort, run->job->params.serialize.num_pools > 0, beside, moment, error);
}

// ---- count ----------------------------------------------------------------------------------------------------------

// By how many bits each stage shifts the codes of the first level.
struct shifts {
  int32_t count;
  int32_t of[VX_MAX_POOLS];
};

static __global__ void __launch_bounds__(BLOCK)
    count_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct serial s,
                 const uint64_t *sorted, uint32_t rows, const __grid_constant__ struct shifts shifts) {
  cuda_wait();
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  uint64_t key = i < rows ? sorted[i] : 0, last = i > 0 && i < rows ? sorted[i - 1] : 0;
  for (int32_t stage = 0; stage < shifts.count; stage++) {
    bool begins = i < rows && (i == 0 || key >> shifts.of[stage] != last >> shifts.of[stage]);
    uint32_t all = __ballot_sync(~0u, begins);
    if (threadIdx.x % 32 == 0 && all != 0) atomicAdd(&s.counts[stage], (unsigned long long)__popc(all));
  }
  if (!cuda_last_block(&v.counters->order_ticket, gridDim.x)) return;
  if (threadIdx.x < VX_MAX_POOLS) v.status->sparse[threadIdx.x] = atomicAdd(&s.counts[threadIdx.x], 0ull);
  __threadfence_system();
  publish(v, v.sequence + 1);
}

static enum vx_status count_pools(struct cuda_run *run, const struct serialize *own, struct error *error) {
  const struct vx_serialize *params = &run->job->params.serialize;
  struct shifts shifts = {};
  int32_t depth = own->level->depth, shift = 0;
  uint32_t rows = own->level->rows;
  if (rows == 0) return VX_OK;
  for (shifts.count = 0; shifts.count < params->num_pools; shifts.count++) {
    int32_t bits = vx_pool_bits(params, shifts.count, depth);
    depth -= bits;
    shift += 3 * bits;
    shifts.of[shifts.count] = shift;
  }
  CUDA_TRY(cuda_launch("count_kernel", count_kernel, cuda_blocks(rows, BLOCK), BLOCK, 0, run, error, *run, own->s,
                       sort_sorted(own->sort), rows, shifts));
  CUDA_TRY(cuda_read_counters(run, run->sequence + 1, error));
  for (int32_t stage = 0; stage < params->num_pools; stage++)
    run->job->counts.level_rows[stage] = (int64_t)run->lane->status->sparse[stage];
  return VX_OK;
}

// ---- write ----------------------------------------------------------------------------------------------------------

// Where a level goes in its tensors. `at`: its first row. `width`: the rows of all levels in these tensors.
struct place {
  enum vx_tensor grid, code;  // two more tensors follow `code`
  uint64_t at, width;
};

static __global__ void __launch_bounds__(BLOCK)
    write_level_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct serial s,
                       const __grid_constant__ struct level level, const __grid_constant__ serial_tensors tensors,
                       const __grid_constant__ struct place place) {
  cuda_wait();
  uint64_t begin = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * BLOCK;
  int32_t *grid = tensors.of<int32_t>(place.grid);
  uint64_t *codes = tensors.of<uint64_t>(place.code);
  uint32_t *order = tensors.of<uint32_t>((enum vx_tensor)(place.code + 1));
  uint32_t *inverse = tensors.of<uint32_t>((enum vx_tensor)(place.code + 2));
  if (place.grid == VX_GRID_COORD) tensors.zero_gaps(begin);
  for (uint64_t i = begin; grid && i < (uint64_t)level.rows * AXES; i += step)
    grid[place.at * AXES + i] = level.grid[i];
  for (uint64_t i = begin; i < (uint64_t)level.rows * s.num_orders; i += step) {
    uint64_t to = i / level.rows * place.width + place.at + i % level.rows;
    if (codes) codes[to] = level.codes[i];
    if (order) order[to] = s.order[i];
    if (inverse) inverse[to] = s.inverse[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_GATHERED], cuda_now());
}

static enum vx_status write_level(const struct cuda_run *run, const struct serialize *own, const struct place &place,
                                  struct error *error) {
  uint64_t items = (uint64_t)own->level->rows * AXES;
  return cuda_launch("write_level_kernel", write_level_kernel, cuda_looping_blocks(run, items, BLOCK, 8), BLOCK, 0, run,
                     error, *run, own->s, *own->level, cuda_tensors_of<VX_GRID_COORD, VX_POOL_SERIALIZED_INVERSE>(run),
                     place);
}

// ---- pool -----------------------------------------------------------------------------------------------------------

static __host__ __device__ inline uint32_t tiles_of(uint32_t rows) { return (rows - 1) / CUDA_TILE + 1; }

// Counts the new rows along each curve, with a scan each; the count on the first curve is the number of a new row.
static __global__ void __launch_bounds__(SCAN_BLOCK)
    pool_kernel(const __grid_constant__ struct serial s, const __grid_constant__ struct level level, uint32_t new_rows,
                int shift) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tiles = tiles_of(level.rows), all = tiles * (uint32_t)s.num_orders;
  uint32_t ticket = scan_next_tile((uint32_t *)&s.tiles[all], &shared), curve = ticket / tiles, tile = ticket % tiles;
  const uint32_t *order = s.order + (uint64_t)curve * level.rows;
  const uint64_t *codes = level.codes + (uint64_t)curve * level.rows;
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS, items[SCAN_ITEMS], before[SCAN_ITEMS];
  uint64_t last = begin > 0 && begin < level.rows ? codes[order[begin - 1]] >> shift : 0;
  uint32_t rows[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    bool here = begin + k < level.rows;
    rows[k] = here ? order[begin + k] : 0;
    uint64_t code = here ? codes[rows[k]] >> shift : last;
    items[k] = here && (begin + k == 0 || code != last);
    last = code;
  }
  (void)scan_items(s.tiles + (uint64_t)curve * tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (begin + k >= level.rows) continue;
    uint32_t number = (uint32_t)(before[k] + items[k]) - 1;
    if (items[k] != 0) s.members[(uint64_t)curve * new_rows + number] = rows[k];
    if (curve == 0) s.cluster[rows[k]] = number;
  }
}

// Also clears the states of the scans for the next stage.
static __global__ void __launch_bounds__(BLOCK)
    next_level_kernel(const __grid_constant__ struct serial s, const __grid_constant__ struct level from,
                      const __grid_constant__ struct level to, int bits) {
  cuda_wait();
  uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, words = (uint64_t)tiles_of(from.rows) * s.num_orders + 1;
  for (uint64_t word = i; word < words; word += (uint64_t)gridDim.x * BLOCK) s.tiles[word] = 0;
  if (i >= (uint64_t)to.rows * s.num_orders) return;
  uint64_t curve = i / to.rows, row = s.members[i];
  uint32_t new_row = (uint32_t)s.cluster[row];
  to.codes[curve * to.rows + new_row] = from.codes[curve * from.rows + row] >> 3 * bits;
  s.order[i] = new_row;
  s.inverse[curve * to.rows + new_row] = (uint32_t)(i - curve * to.rows);
  for (int axis = 0; curve == 0 && axis < AXES; axis++)
    to.grid[(uint64_t)new_row * AXES + axis] = from.grid[row * AXES + axis] >> bits;
}

// A row's number is an integer everywhere, with 32 bits in a thread, and 31 in the states of a scan and of a sort.
static_assert(VX_MAX_POINTS + BLOCK <= UINT32_MAX, "the last block has numbers for all of its threads");
static_assert(VX_MAX_POINTS < TILE_SUM && VX_MAX_POINTS < SORT_PREFIX, "a scan and a sort can sum all rows");

// One thread per row, and one for the end of indptr. Writes the stage's tensors that have no curve.
static __global__ void __launch_bounds__(BLOCK)
    clusters_kernel(const __grid_constant__ struct serial s, const uint64_t *sorted, uint32_t rows, uint32_t new_rows,
                    const __grid_constant__ serial_tensors tensors, uint64_t input_at, uint64_t end_at, uint64_t at) {
  cuda_wait();
  uint32_t place = blockIdx.x * BLOCK + threadIdx.x;
  int32_t *cluster = tensors.of<int32_t>(VX_POOL_CLUSTER), *indices = tensors.of<int32_t>(VX_POOL_INDICES);
  int32_t *indptr = tensors.of<int32_t>(VX_POOL_INDPTR), *heads = tensors.of<int32_t>(VX_POOL_HEAD_INDICES);
  if (place == rows && indptr) indptr[end_at + new_rows] = (int32_t)rows;
  if (place >= rows) return;
  uint32_t row = s.sorted_rows[place], number = (uint32_t)sorted[place];
  if (cluster) cluster[input_at + row] = (int32_t)number;
  if (indices) indices[input_at + place] = (int32_t)row;
  if (place > 0 && sorted[place - 1] == number) return;
  if (indptr) indptr[end_at + number] = (int32_t)place;
  if (heads) heads[at + number] = (int32_t)row;
}

static enum vx_status sort_clusters(const struct cuda_run *run, struct serialize *own, int32_t stage, uint32_t new_rows,
                                    struct error *error) {
  struct sort *sort = &own->cluster_sort[stage];
  int bits = vx_bits_for((int32_t)new_rows);
  sort_set_sizes(sort, own->level->rows, bits > 0 ? bits : 1);
  CUDA_TRY(cuda_launch("sort_count_kernel", sort_count_kernel, sort_parts(sort->rows), SORT_BLOCK, 0, run, error, *sort,
                       (const uint64_t *)own->s.cluster));
  CUDA_TRY(sort_enqueue(run, *sort, 0, own->s.cluster, true, beside{}, NULL, error));
  return sort_rest(run, *sort, true, beside{}, NULL, error);
}

static enum vx_status pool_rows(const struct cuda_run *run, struct serialize *own, int32_t stage,
                                const struct level &to, int bits, struct error *error) {
  const struct level &from = *own->level;
  if (from.rows == 0) return VX_OK;
  CUDA_TRY(cuda_launch("pool_kernel", pool_kernel, (uint64_t)tiles_of(from.rows) * own->s.num_orders, SCAN_BLOCK, 0,
                       run, error, own->s, from, to.rows, 3 * bits));
  CUDA_TRY(cuda_launch("next_level_kernel", next_level_kernel,
                       cuda_blocks((uint64_t)to.rows * own->s.num_orders, BLOCK), BLOCK, 0, run, error, own->s, from,
                       to, bits));
  return sort_clusters(run, own, stage, to.rows, error);
}

static enum vx_status run_stage(const struct cuda_run *run, struct serialize *own, int32_t stage, struct error *error) {
  const struct level from = *own->level;
  int bits = vx_pool_bits(&run->job->params.serialize, stage, from.depth);
  struct level *to = &own->levels[own->level == &own->levels[0]];
  to->rows = (uint32_t)run->job->counts.level_rows[stage];
  to->depth = from.depth - bits;
  CUDA_TRY(pool_rows(run, own, stage, *to, bits, error));
  CUDA_TRY(cuda_launch("clusters_kernel", clusters_kernel, cuda_blocks(from.rows + 1, BLOCK), BLOCK, 0, run, error,
                       own->s, sort_sorted(own->cluster_sort[stage]), from.rows, to->rows,
                       cuda_tensors_of<VX_GRID_COORD, VX_POOL_SERIALIZED_INVERSE>(run), (uint64_t)own->inputs_done,
                       (uint64_t)own->rows_done + (uint64_t)stage, (uint64_t)own->rows_done));
  own->level = to;
  const struct place place = {VX_POOL_GRID_COORD, VX_POOL_SERIALIZED_CODE, (uint64_t)own->rows_done,
                              (uint64_t)own->pooled};
  CUDA_TRY(write_level(run, own, place, error));
  own->inputs_done += from.rows;
  own->rows_done += to->rows;
  return VX_OK;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static uint64_t tile_words(const struct serialize *own, uint64_t points) {
  return (uint64_t)tiles_of((uint32_t)points) * (uint64_t)own->s.num_orders + 1;
}

static void lay_out(struct cuda_run *run, struct serialize *own, uint64_t points, struct cuda_arena *arena) {
  struct serial *s = &own->s;
  uint64_t items = points * (uint64_t)s->num_orders;
  cuda_take_clouds(run, arena);
  take(arena, &s->cells, points * AXES);
  if (run->clouds.count > 1) take(arena, &s->cloud_of, points);
  for (int i = 0; i < 2; i++) {
    take(arena, &own->sort.states[i], (uint64_t)sort_tiles((uint32_t)points) * s->num_orders * SORT_DIGITS);
    take(arena, &own->sort.keys[i], items);
    take(arena, &own->sort.ids[i], items);
  }
  take(arena, &s->order, items);
  take(arena, &s->inverse, items);
  for (int i = 0; i < (run->job->params.serialize.num_pools > 0 ? 2 : 1); i++) {
    take(arena, &own->levels[i].grid, points * AXES);
    take(arena, &own->levels[i].codes, items);
  }
  if (run->job->params.serialize.num_pools == 0) return;
  take(arena, &s->cluster, points);
  take(arena, &s->sorted_rows, points);
  take(arena, &s->members, items);
  take(arena, &s->tiles, tile_words(own, points));
}

// The most bits of a code, and of the number of a new row.
enum { CODE_BITS = 3 * VX_MAX_SERIAL_DEPTH + 10, ROW_BITS = 31 };
static_assert(VX_MAX_CLOUDS <= 1 << 10, "a code has ten bits for its cloud");

// Takes the words that must be 0 when a job begins, from control->tiles.
static enum vx_status take_zeros(struct cuda_run *run, struct serialize *own, struct error *error) {
  uint64_t bounds = (uint64_t)run->clouds.count * AXES, pools = (uint64_t)run->job->params.serialize.num_pools;
  uint64_t words =
      2 * bounds + 1 + sort_zero_words(CODE_BITS, own->sort.segments) + pools * sort_zero_words(ROW_BITS, 1);
  run->num_tiles = (uint32_t)(VX_MAX_POOLS + (words + 1) / 2);
  CUDA_TRY(cuda_prepare_control(run, error));
  own->s.counts = (unsigned long long *)run->control->tiles;
  own->s.least = (uint32_t *)(own->s.counts + VX_MAX_POOLS);
  own->s.most = own->s.least + bounds;
  own->s.rows = own->s.most + bounds;
  uint32_t *rest = own->s.rows + 1;
  sort_take_zeros(&own->sort, CODE_BITS, &rest);
  for (uint64_t i = 0; i < pools; i++) {
    own->cluster_sort[i] = own->sort;
    own->cluster_sort[i].segments = 1;
    own->cluster_sort[i].order = own->s.sorted_rows;
    own->cluster_sort[i].inverse = NULL;
    sort_take_zeros(&own->cluster_sort[i], ROW_BITS, &rest);
  }
  return VX_OK;
}

static enum vx_status prepare(struct cuda_run *run, struct serialize *own, struct error *error) {
  const struct vx_serialize *params = &run->job->params.serialize;
  uint64_t points = run->clouds.num_points;
  struct cuda_arena measured = {}, arena = {};
  (void)vx_serial_lattice_of(params, &own->s.lattice);  // the job was checked
  for (int i = 0; i < VX_CURVES; i++) own->s.orders[i] = params->orders[i];
  own->s.num_orders = params->num_orders;
  own->s.depth = params->depth;
  own->s.fixed = params->fixed;
  own->s.cloud_bits = run->clouds.count > 1 ? vx_bits_for(run->clouds.count) : 0;
  own->s.row_of = run->lane->chain->row_of;
  own->level = &own->levels[0];
  own->sort.segments = (uint32_t)params->num_orders;
  lay_out(run, own, points, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->scratch, measured.used, error));
  arena.memory = run->lane->scratch.memory;
  lay_out(run, own, points, &arena);
  if (own->s.tiles)
    CUDA_CALL(cudaMemsetAsync(own->s.tiles, 0, tile_words(own, points) * sizeof *own->s.tiles, run->stream), error);
  return take_zeros(run, own, error);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void count_fates(struct vx_job *job) {
  const struct vx_chain_report *report = job->report;
  job->counts.kept = report->left;
  job->counts.out_of_lattice = report->fates[0][VX_FATE_OUT_OF_LATTICE];
  job->counts.not_finite = job->counts.received - job->counts.kept - job->counts.out_of_lattice;
}

static enum vx_status find_cells(struct cuda_run *run, struct serialize *own, struct error *error) {
  struct cuda_chain *chain = run->lane->chain;
  struct vx_job *job = run->job;
  struct cuda_scan scan = cuda_take_scan(chain);
  CUDA_TRY(cuda_launch("cells_kernel", cells_kernel, scan.num_tiles, SCAN_BLOCK, 0, run, error, *run, chain->rows, scan,
                       own->s));
  CUDA_TRY(cuda_count_chain(chain, error));
  CUDA_TRY(make_codes(run, own, error));
  CUDA_TRY(begin_sort(run, own, error));
  CUDA_TRY(cuda_read_counters(run, run->sequence, error));
  cuda_read_chain(run->lane);
  count_fates(job);
  cuda_read_rows(run, job->report->left);
  own->level->rows = (uint32_t)job->report->left;
  CUDA_TRY(vx_serial_depth(&job->params.serialize, (int32_t)run->lane->status->sparse[0], &own->level->depth, error));
  job->counts.depth = own->level->depth;
  return VX_OK;
}

static enum vx_status take_image(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_take_output(run, error));
  return run->layout.bytes > 0 ? cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error) : VX_OK;
}

// Writes the tensors of a job without pools. Orders and inverses that no tensor needs are written to scratch.
static enum vx_status write_rows(struct cuda_run *run, struct serialize *own, struct error *error) {
  CUDA_TRY(take_image(run, error));
  const serial_tensors tensors = cuda_tensors_of<VX_GRID_COORD, VX_POOL_SERIALIZED_INVERSE>(run);
  unsigned char *const *at = tensors.at;
  if (own->level->rows == 0 || (run->tensors & VX_SERIAL_TENSORS) == 0) {
    const struct place place = {VX_GRID_COORD, VX_SERIALIZED_CODE, 0, own->level->rows};
    CUDA_TRY(write_level(run, own, place, error));
    return cuda_finish_output(run, error);
  }
  const struct beside beside = {*own->level, (int32_t *)at[0], (uint64_t *)at[VX_SERIALIZED_CODE - VX_GRID_COORD],
                                (uint64_t)own->level->rows * own->sort.segments, tensors};
  if (at[VX_SERIALIZED_ORDER - VX_GRID_COORD]) own->s.order = (uint32_t *)at[VX_SERIALIZED_ORDER - VX_GRID_COORD];
  if (at[VX_SERIALIZED_INVERSE - VX_GRID_COORD]) own->s.inverse = (uint32_t *)at[VX_SERIALIZED_INVERSE - VX_GRID_COORD];
  CUDA_TRY(end_sort(run, own, beside, (unsigned long long *)&run->counters->moments[CUDA_GATHERED], error));
  return cuda_finish_output(run, error);
}

static enum vx_status write_pools(struct cuda_run *run, struct serialize *own, struct error *error) {
  CUDA_TRY(take_image(run, error));
  own->pooled = vx_sizes_of(run->job).pooled;
  const struct place place = {VX_GRID_COORD, VX_SERIALIZED_CODE, 0, own->level->rows};
  CUDA_TRY(write_level(run, own, place, error));
  bool pools = (run->tensors & VX_POOL_TENSORS) != 0;
  for (int32_t stage = 0; stage < run->job->params.serialize.num_pools && pools; stage++)
    CUDA_TRY(run_stage(run, own, stage, error));
  return cuda_finish_output(run, error);
}

static enum vx_status serialize_nothing(struct cuda_run *run, struct error *error) {
  int32_t depth;
  CUDA_TRY(vx_serial_depth(&run->job->params.serialize, 0, &depth, error));
  run->job->counts.depth = depth;
  return run->tensors == 0 ? VX_OK : cuda_take_zeros(run, error);
}

enum vx_status cuda_serialize(struct cuda_run *run, struct error *error) {
  if (run->clouds.num_points == 0) return serialize_nothing(run, error);
  struct serialize own = {};
  run->gathers = VX_STAGE_SERIALIZE;
  CUDA_TRY(prepare(run, &own, error));
  CUDA_TRY(find_cells(run, &own, error));
  bool pools = run->job->params.serialize.num_pools > 0;
  if (pools) {
    CUDA_TRY(end_sort(run, &own, {}, NULL, error));
    CUDA_TRY(count_pools(run, &own, error));
  }
  if (run->tensors == 0) return cuda_clean(run, error);
  return pools ? write_pools(run, &own, error) : write_rows(run, &own, error);
}

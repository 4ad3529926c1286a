// Statistical outlier on a GPU (kernels/step_statistical_outlier.h), all clouds at once.
//
//   rank    Numbers the rows that are left, since distances are summed in their order.
//   box     Finds the box of each cloud.
//   key     Places each row on a curve through its cloud's box. A sort by cloud and place follows.
//   place   Lines up the sorted rows.
//   node    Finds the boxes of LEAF rows, of FAN such boxes, and so on. One launch for each level.
//   search  Each row searches the boxes for its nearest neighbours.
//   bound   One block per cloud computes the cloud's mean and deviation.
//   drop    Drops the rows whose distance is above the bound of their cloud.
//
// A leaf or node may have rows of several clouds. A search skips rows of other clouds by their place.
#include "kernels/cuda/base/curve.cuh"
#include "kernels/cuda/base/radix_sort.cuh"
#include "kernels/cuda/steps/ranks.cuh"
#include "kernels/step_statistical_outlier.h"

enum {
  BLOCK = 256,
  SEARCH_BLOCK = 128,
  LEAF = 16,    // rows of a leaf
  FAN = 8,      // children of a node
  LEVELS = 10,  // the topmost node has room for 16 * 8^9 = 2^31 rows
  // A search checks after every LOOK_TURNS nodes whether the job is stopped. One block in ASKING then asks the host;
  // other threads ask it after every LATE_TURNS nodes.
  LOOK_TURNS = 128,
  LATE_TURNS = 4096,
  ASKING = 16
};

// The keys of a sort: the cloud, whether the row is gone, the place on the curve.
enum { GONE_BIT = 3 * CUDA_CURVE_BITS, CLOUD_BIT };

struct box {
  float low[3], high[3];
};

// The greatest coordinates, as integers with the order of floats, and the complements of the least. 0: no row.
struct cloud_box {
  uint32_t high[3], low[3];
};

struct statistical_outlier {
  struct vx_statistical_outlier params;
  struct cuda_ranks ranks;
  struct cloud_box *cloud_boxes;  // [clouds]
  uint64_t *keys, *sorted_keys;   // [num_points]
  uint32_t *ids, *sorted_ids;     // [num_points]
  float4 *places;                 // [num_points]: x, y, z and number of each row, sorted; x is NaN if the row is gone
  struct box *boxes[LEVELS];      // of each level
  uint32_t num_levels;
  float *distances;  // [num_points]: of the rows that are left, in their order
  double *sums;      // of groups: sums_of_cloud
  double *bounds;    // [clouds]
};

// Consecutive rows, places or ranks.
struct stretch {
  uint32_t begin, end;
};

static __device__ struct stretch rows_of_cloud(const struct cuda_clouds &clouds, int32_t cloud) {
  if (clouds.count == 1) return {0, clouds.num_points};
  return {clouds.first_point[cloud], clouds.first_point[cloud + 1]};
}

// The number of rows that are left before a row. Valid until a row is dropped.
static __device__ uint32_t left_before(const struct cuda_chain_rows &r, const struct statistical_outlier &own,
                                       uint32_t row) {
  if (row < r.clouds.num_points) return own.ranks.before[row];
  return own.ranks.before[row - 1] + cuda_is_left(r.points[(uint64_t)(row - 1) * r.columns]);
}

static __device__ struct stretch ranks_of_cloud(const struct cuda_chain_rows &r, const struct statistical_outlier &own,
                                                int32_t cloud) {
  struct stretch rows = rows_of_cloud(r.clouds, cloud);
  return {left_before(r, own, rows.begin), left_before(r, own, rows.end)};
}

// ---- box ------------------------------------------------------------------------------------------------------------

static __device__ void add_to_box(struct cloud_box *box, const uint32_t high[3], const uint32_t low[3]) {
  for (int axis = 0; axis < 3; axis++) {
    if (high[axis] != 0) atomicMax(&box->high[axis], high[axis]);
    if (low[axis] != 0) atomicMax(&box->low[axis], low[axis]);
  }
}

// Usually all rows of a warp belong to one cloud.
static __global__ void __launch_bounds__(BLOCK) box_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                           const __grid_constant__ struct statistical_outlier own) {
  cuda_wait();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < r.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    bool here = first + threadIdx.x < r.clouds.num_points;
    uint32_t row = (uint32_t)first + (here ? threadIdx.x : 0), high[3] = {}, low[3] = {};
    const float *at = r.points + (uint64_t)row * r.columns;
    bool left = here && cuda_is_left(at[0]);
    int32_t cloud = r.clouds.count == 1 ? 0 : cuda_cloud_of_point(r.clouds, row);
    for (int axis = 0; axis < 3 && left; axis++) {
      high[axis] = cuda_ordered(at[axis]);
      low[axis] = ~high[axis];
    }
    bool alone = __ballot_sync(~0u, cloud == __shfl_sync(~0u, cloud, 0)) == ~0u;
    for (int axis = 0; axis < 3 && alone; axis++) {
      high[axis] = cuda_warp_max(high[axis]);
      low[axis] = cuda_warp_max(low[axis]);
    }
    if (!alone || threadIdx.x % 32 == 0) add_to_box(&own.cloud_boxes[cloud], high, low);
    __syncwarp();
  }
}

// ---- sort -----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK) key_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                           const __grid_constant__ struct statistical_outlier own) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row >= r.clouds.num_points) return;
  const float *at = r.points + row * r.columns;
  int32_t cloud = r.clouds.count == 1 ? 0 : cuda_cloud_of_point(r.clouds, (uint32_t)row);
  const struct cloud_box *box = &own.cloud_boxes[cloud];
  uint64_t place = UINT64_C(1) << GONE_BIT;
  if (cuda_is_left(at[0])) {
    const float low[3] = {cuda_unordered(~box->low[0]), cuda_unordered(~box->low[1]), cuda_unordered(~box->low[2])};
    const float high[3] = {cuda_unordered(box->high[0]), cuda_unordered(box->high[1]), cuda_unordered(box->high[2])};
    place = cuda_place_on_curve(low, high, at);
  }
  own.keys[row] = (uint64_t)cloud << CLOUD_BIT | place;
  own.ids[row] = (uint32_t)row;
}

static enum vx_status sort_keys(const struct cuda_chain *chain, const struct statistical_outlier &own, void *cub,
                                size_t *bytes, struct error *error) {
  const struct cuda_clouds &clouds = chain->rows.clouds;
  int bits = CLOUD_BIT + vx_bits_for(clouds.count);
  struct cuda_pairs<uint64_t> pairs = {
    own.keys, own.sorted_keys, own.ids, own.sorted_ids, clouds.num_points, 0, bits
  };
  return cuda_sort_pairs(&chain->run, pairs, cub, bytes, error);
}

static __global__ void __launch_bounds__(BLOCK) place_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                             const __grid_constant__ struct statistical_outlier own) {
  cuda_wait();
  uint64_t place = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (place >= r.clouds.num_points) return;
  uint32_t row = own.sorted_ids[place];
  const float *at = r.points + (uint64_t)row * r.columns;
  own.places[place] = make_float4(at[0], at[1], at[2], __uint_as_float(row));
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

static __device__ void widen(struct box *box, const float low[3], const float high[3]) {
  for (int axis = 0; axis < 3; axis++) {
    box->low[axis] = fminf(box->low[axis], low[axis]);
    box->high[axis] = fmaxf(box->high[axis], high[axis]);
  }
}

// A box without rows that are left goes from +inf to -inf, so it is infinitely far from every point.
static __global__ void __launch_bounds__(BLOCK) node_kernel(const __grid_constant__ struct statistical_outlier own,
                                                            uint32_t level, uint32_t nodes, uint32_t under) {
  cuda_wait();
  uint32_t node = blockIdx.x * BLOCK + threadIdx.x;
  if (node >= nodes) return;
  struct box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
  uint64_t parts = level == 0 ? LEAF : FAN, begin = node * parts, end = begin + parts < under ? begin + parts : under;
  for (uint64_t i = begin; i < end; i++) {
    if (level > 0) {
      struct box part = own.boxes[level - 1][i];
      widen(&box, part.low, part.high);
      continue;
    }
    float4 place = own.places[i];
    const float at[3] = {place.x, place.y, place.z};
    if (cuda_is_left(at[0])) widen(&box, at, at);
  }
  own.boxes[level][node] = box;
}

// ---- search ---------------------------------------------------------------------------------------------------------

struct search {
  float at[3];
  struct stretch within;  // the places of its cloud's rows that are left
  int32_t mean_k;
  float squares[VX_MAX_MEAN_K + 1];  // the least so far, ascending; the first is to the row itself
};

static __device__ float squared_distance_to(const struct search &search, const float4 &place) {
  const float other[3] = {place.x, place.y, place.z};
  return vx_squared_distance(search.at, other);
}

// A bound for the search, from the row's neighbours on the curve, which are usually near.
static __device__ float bound_at(const struct search &search, const struct statistical_outlier &own, uint32_t place) {
  uint32_t rows = (uint32_t)search.mean_k + 1, half = rows / 2;
  if (search.within.end - search.within.begin < rows) return INFINITY;
  uint32_t begin = place - search.within.begin < half ? search.within.begin : place - half;
  begin = min(begin, search.within.end - rows);
  float most = 0.0f;
  for (uint32_t i = begin; i < begin + rows; i++) most = fmaxf(most, squared_distance_to(search, own.places[i]));
  return vx_nearest_bound(sqrtf(most));
}

static __device__ void search_leaf(struct search *search, const struct statistical_outlier &own, uint32_t leaf) {
  uint32_t begin = max(leaf * LEAF, search->within.begin);
  uint64_t end = min((uint64_t)leaf * LEAF + LEAF, (uint64_t)search->within.end);
  for (uint64_t i = begin; i < end; i++) {
    float square = squared_distance_to(*search, own.places[i]);
    if (!(square < search->squares[search->mean_k])) continue;
    int32_t at = search->mean_k;
    for (; at > 0 && search->squares[at - 1] > square; at--) search->squares[at] = search->squares[at - 1];
    search->squares[at] = square;
  }
}

static __device__ bool is_near(const struct search &search, const struct statistical_outlier &own, uint32_t level,
                               uint32_t node, uint64_t rows_of_node) {
  uint64_t begin = node * rows_of_node;
  if (begin >= search.within.end || begin + rows_of_node <= search.within.begin) return false;
  const struct box *box = &own.boxes[level][node];
  return vx_squared_distance_to_box(search.at, box->low, box->high) < search.squares[search.mean_k];
}

static __device__ bool is_asking() { return blockIdx.x % ASKING == 0; }

// Walks through the nodes in the order of their rows. Ends early if the job is stopped.
static __device__ void search_nodes(struct search *search, const struct cuda_stop &stop,
                                    const struct statistical_outlier &own) {
  uint32_t top = own.num_levels - 1, level = top, node = 0;
  uint64_t rows = LEAF;  // of a node
  uint32_t turns = 0;
  for (uint32_t i = 0; i < top; i++) rows *= FAN;
  while (level < top || node == 0) {
    if (++turns % LOOK_TURNS == 0 && cuda_has_stopped(stop, is_asking() || turns % LATE_TURNS == 0)) return;
    bool near = is_near(*search, own, level, node, rows);
    if (near && level > 0) {
      level--;
      node *= FAN;
      rows /= FAN;
      continue;
    }
    if (near) search_leaf(search, own, node);
    for (node++; level < top && node % FAN == 0; node /= FAN) {
      level++;
      rows *= FAN;
    }
  }
}

static __global__ void __launch_bounds__(SEARCH_BLOCK)
    search_kernel(const __grid_constant__ struct cuda_chain_rows r,
                  const __grid_constant__ struct statistical_outlier own) {
  cuda_wait();
  if (cuda_is_stopped(r.stop, is_asking())) return;
  uint64_t place = (uint64_t)blockIdx.x * SEARCH_BLOCK + threadIdx.x;
  if (place >= r.clouds.num_points) return;
  float4 row = own.places[place];
  if (!cuda_is_left(row.x)) return;
  int32_t cloud = (int32_t)(own.sorted_keys[place] >> CLOUD_BIT);
  struct stretch ranks = ranks_of_cloud(r, own, cloud);
  uint32_t points = ranks.end - ranks.begin, first = rows_of_cloud(r.clouds, cloud).begin;
  if (points < 2) return;
  struct search search;
  search.at[0] = row.x;
  search.at[1] = row.y;
  search.at[2] = row.z;
  search.within = {first, first + points};
  search.mean_k = own.params.mean_k;
  float bound = bound_at(search, own, (uint32_t)place);
  for (int32_t i = 0; i <= search.mean_k; i++) search.squares[i] = bound;
  search_nodes(&search, r.stop, own);
  own.distances[own.ranks.before[__float_as_uint(row.w)]] =
      vx_mean_distance(search.squares, search.mean_k, (int32_t)points);
}

// ---- bound ----------------------------------------------------------------------------------------------------------

// All levels of a cloud of n rows have at most n / 63 + 6 sums.
static __device__ double *sums_of_cloud(const struct statistical_outlier &own, uint32_t first_row, int32_t cloud) {
  return own.sums + first_row / 32 + 8 * cloud;
}

static uint64_t num_sums(uint64_t rows, uint64_t clouds) { return rows / 32 + 8 * clouds + 1; }

// Called by a block. Writes the sums of groups of the `count` terms to `sums`. Returns the number of groups.
template <typename function> static __device__ uint32_t sum_groups(double *sums, uint32_t count, const function &term) {
  uint32_t groups = (count + VX_DEVIATION_GROUP - 1) / VX_DEVIATION_GROUP;
  for (uint32_t group = threadIdx.x; group < groups; group += BLOCK) {
    uint32_t begin = group * VX_DEVIATION_GROUP, end = min(begin + VX_DEVIATION_GROUP, count);
    double sum = term(begin);
    while (++begin < end) sum += term(begin);
    sums[group] = sum;
  }
  __syncthreads();
  return groups;
}

// Called by a block. Sums vx_deviation_term.
static __device__ double sum_terms(double *sums, const float *distances, uint32_t count, bool squared, double mean) {
  uint32_t groups = sum_groups(sums, count, [&](uint32_t i) { return vx_deviation_term(distances[i], squared, mean); });
  while (groups > 1) {
    const double *terms = sums;
    sums += groups;
    groups = sum_groups(sums, groups, [&](uint32_t i) { return terms[i]; });
  }
  double sum = *sums;
  __syncthreads();
  return sum;
}

static __global__ void __launch_bounds__(BLOCK) bound_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                             const __grid_constant__ struct statistical_outlier own) {
  cuda_wait();
  int32_t cloud = (int32_t)blockIdx.x;
  struct stretch ranks = ranks_of_cloud(r, own, cloud);
  uint32_t points = ranks.end - ranks.begin;
  double bound = INFINITY;
  if (points >= 2 && !cuda_is_stopped(r.stop, false)) {
    double *sums = sums_of_cloud(own, rows_of_cloud(r.clouds, cloud).begin, cloud);
    const float *distances = own.distances + ranks.begin;
    double mean = sum_terms(sums, distances, points, false, 0.0) / points;
    bound = vx_distance_bound(&own.params, mean, sum_terms(sums, distances, points, true, mean), (int32_t)points);
  }
  if (threadIdx.x == 0) own.bounds[cloud] = bound;
}

static __global__ void __launch_bounds__(BLOCK) drop_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                            const __grid_constant__ struct statistical_outlier own) {
  cuda_begin_step();
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row < r.clouds.num_points && cuda_is_left(r.points[row * r.columns])) {
    double bound = own.bounds[r.clouds.count == 1 ? 0 : cuda_cloud_of_point(r.clouds, (uint32_t)row)];
    if ((double)own.distances[own.ranks.before[row]] > bound) cuda_drop(r, (uint32_t)row, VX_FATE_STATISTICAL_OUTLIER);
  }
  cuda_end_step(r);
}

// ---- all together ---------------------------------------------------------------------------------------------------

struct arrays {
  struct statistical_outlier own;
  unsigned char *cub;
  size_t cub_bytes;
  uint64_t rows, clouds;
};

static void lay_out(struct arrays *arrays, struct cuda_arena *arena) {
  struct statistical_outlier *own = &arrays->own;
  uint64_t rows = arrays->rows, clouds = arrays->clouds, nodes = rows;
  take(arena, &own->ranks.before, rows);
  take(arena, &own->cloud_boxes, clouds);
  take(arena, &own->keys, rows);
  take(arena, &own->sorted_keys, rows);
  take(arena, &own->ids, rows);
  take(arena, &own->sorted_ids, rows);
  take(arena, &own->places, rows);
  own->num_levels = 0;
  for (int parts = LEAF; nodes > 1 || own->num_levels == 0; parts = FAN) {
    nodes = (nodes + parts - 1) / parts;
    take(arena, &own->boxes[own->num_levels++], nodes);
  }
  take(arena, &own->distances, rows);
  take(arena, &own->sums, num_sums(rows, clouds));
  take(arena, &own->bounds, clouds);
  take(arena, &arrays->cub, arrays->cub_bytes);
}

static enum vx_status sort_rows(struct cuda_chain *chain, struct arrays *arrays, struct error *error) {
  const struct statistical_outlier &own = arrays->own;
  const struct cuda_run *run = &chain->run;
  unsigned blocks = cuda_blocks(arrays->rows, BLOCK), looping = cuda_looping_blocks(run, arrays->rows, BLOCK, 4);
  CUDA_CALL(cudaMemsetAsync(own.cloud_boxes, 0, arrays->clouds * sizeof *own.cloud_boxes, run->stream), error);
  CUDA_TRY(cuda_rank_rows(chain, &arrays->own.ranks, error));
  CUDA_TRY(cuda_launch("box_kernel", box_kernel, looping, BLOCK, 0, run, error, chain->rows, own));
  CUDA_TRY(cuda_launch("key_kernel", key_kernel, blocks, BLOCK, 0, run, error, chain->rows, own));
  CUDA_TRY(sort_keys(chain, own, arrays->cub, &arrays->cub_bytes, error));
  return cuda_launch("place_kernel", place_kernel, blocks, BLOCK, 0, run, error, chain->rows, own);
}

static enum vx_status make_nodes(const struct cuda_chain *chain, const struct arrays *arrays, struct error *error) {
  uint32_t under = (uint32_t)arrays->rows;
  for (uint32_t level = 0; level < arrays->own.num_levels; level++) {
    uint32_t nodes = cuda_blocks(under, level == 0 ? LEAF : FAN);
    CUDA_TRY(cuda_launch("node_kernel", node_kernel, cuda_blocks(nodes, BLOCK), BLOCK, 0, &chain->run, error,
                         arrays->own, level, nodes, under));
    under = nodes;
  }
  return VX_OK;
}

enum vx_status cuda_step_statistical_outlier(struct cuda_chain *chain, const struct vx_step *step,
                                             struct error *error) {
  struct arrays arrays = {};
  const struct statistical_outlier &own = arrays.own;
  arrays.own.params = step->params.statistical_outlier;
  arrays.rows = chain->rows.clouds.num_points;
  arrays.clouds = (uint64_t)chain->rows.clouds.count;
  CUDA_TRY(sort_keys(chain, own, NULL, &arrays.cub_bytes, error));
  CUDA_TRY(cuda_step_scratch(chain, error, [&](struct cuda_arena *arena) { lay_out(&arrays, arena); }));
  CUDA_TRY(sort_rows(chain, &arrays, error));
  CUDA_TRY(make_nodes(chain, &arrays, error));
  CUDA_TRY(cuda_launch("search_kernel", search_kernel, cuda_blocks(arrays.rows, SEARCH_BLOCK), SEARCH_BLOCK, 0,
                       &chain->run, error, chain->rows, own));
  CUDA_TRY(cuda_launch("bound_kernel", bound_kernel, arrays.clouds, BLOCK, 0, &chain->run, error, chain->rows, own));
  return cuda_launch("drop_kernel", drop_kernel, cuda_blocks(arrays.rows, BLOCK), BLOCK, 0, &chain->run, error,
                     chain->rows, own);
}

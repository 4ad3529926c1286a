// From rows to tensors, written straight into an image of the output block.
//
// rows_kernel has one block for each voxel whose sum is a tree, one thread for each column of each output row
// (coords, counts, means) and one for each point (point_voxel_ids); points_kernel one warp for each output row
// (voxels, pillars, masks; coords and counts too where nothing else asks for rows_kernel). Every byte of a tensor is
// written by exactly one thread, and the gaps between tensors are zeroed: the image still holds another job's output.
#include "kernels/cuda/run.cuh"
#include "kernels/half.h"

enum { BLOCK = 256, WARP = 32, POINT_WARPS = 4, PILLAR_EXTRA = 6, SUM_SLOTS = VX_MAX_FEATURES / WARP };

struct gap {
  unsigned char *begin;
  uint32_t bytes;  // below VX_TENSOR_ALIGNMENT
};

// Tensors that are not asked for are NULL.
struct gather_params {
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  uint32_t num_rows;                // output rows
  uint32_t big_blocks, row_blocks;  // of rows_kernel, in this order; those of points follow
  struct cuda_clouds clouds;
  struct cuda_lists lists;
  const uint32_t *first_points;
  const uint32_t *rows;  // [num_points]
  uint32_t row_capacity;
  const uint32_t *output_rows;    // or NULL: each row is its own output row
  const uint32_t *rows_in_order;  // or NULL
  bool half_features, fill_mean, tree_sums;
  bool rows_by_warp;    // whether points_kernel does the work of rows_kernel
  uint32_t cap;         // of the tensors' second dimension
  int32_t *coords;      // [num_rows, 4]
  int32_t *num_points;  // [num_rows]
  float *voxels;        // [num_rows, cap, columns]
  void *features;       // [num_rows, columns]
  void *pillars;        // [num_rows, cap, columns + 6]
  int32_t *ids;         // [num_points]
  unsigned char *mask;  // [num_rows, cap]
  uint32_t *big;        // [row_capacity]
  float *big_sums;
  struct cuda_tally *tally;
  struct gap gaps[VX_TENSOR_COUNT];
};

static __device__ uint32_t row_at(const struct gather_params &p, uint32_t output_row) {
  return p.rows_in_order != NULL ? p.rows_in_order[output_row] : output_row;
}

static __device__ void store_feature(const struct gather_params &p, void *tensor, uint64_t at, float value) {
  if (p.half_features) {
    ((uint16_t *)tensor)[at] = vx_float_to_half(value);
  } else {
    ((float *)tensor)[at] = value;
  }
}

// --- rows ---

// The batch number and cell of a row.
static __device__ int32_t find_cell(const struct gather_params &p, uint32_t row, int32_t cell[3]) {
  int32_t cloud = cuda_cloud_of_row(p.clouds, row);
  const float *point = p.points + (uint64_t)cuda_first_of_row(p.clouds, p.first_points, cloud, row) * p.columns;
  vx_cell_of_point(&p.map, point[0], point[1], point[2], cell);
  return cloud;
}

static __device__ void write_row(const struct gather_params &p, uint32_t output_row, uint32_t row) {
  if (p.coords != NULL) {
    int32_t cell[3];
    int32_t cloud = find_cell(p, row, cell);
    ((int4 *)p.coords)[output_row] = make_int4(cloud, cell[2], cell[1], cell[0]);
  }
  if (p.num_points != NULL) {
    p.num_points[output_row] = (int32_t)cuda_kept_of(p.lists, row);
  }
}

// The sum of one column over listed points, one after the other. Points are fetched several at a time.
static __device__ float sum_column(const float *points, uint32_t columns, const uint32_t *list, uint32_t count,
                                   uint32_t column) {
  enum { AHEAD = 8 };
  float sum = points[(uint64_t)list[0] * columns + column];
  uint32_t k = 1;
  for (; k + AHEAD <= count; k += AHEAD) {
    float ahead[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      ahead[i] = points[(uint64_t)list[k + i] * columns + column];
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      sum += ahead[i];
    }
  }
  for (; k < count; k++) {
    sum += points[(uint64_t)list[k] * columns + column];
  }
  return sum;
}

static __device__ void write_mean(const struct gather_params &p, uint32_t output_row, uint32_t row, uint32_t column) {
  uint32_t count = cuda_kept_of(p.lists, row);
  if (p.tree_sums && count > CUDA_SUM_GROUP) {
    return;  // in p.big
  }
  float sum = sum_column(p.points, p.columns, cuda_list_of(p.lists, row), count, column);
  store_feature(p, p.features, (uint64_t)output_row * p.columns + column, vx_canonical(sum / (float)count));
}

static __device__ void write_id(const struct gather_params &p, uint64_t point) {
  if (point < p.clouds.num_points) {
    uint32_t row = p.rows[point];
    bool has_row = row != p.row_capacity;
    p.ids[point] = !has_row ? -1 : (int32_t)(p.output_rows != NULL ? p.output_rows[row] : row);
  }
}

static __device__ void zero_gaps(const struct gather_params &p) {
  if (blockIdx.x == 0 && threadIdx.x < VX_TENSOR_ALIGNMENT) {
    for (int i = 0; i < VX_TENSOR_COUNT; i++) {
      if (threadIdx.x < p.gaps[i].bytes) {
        p.gaps[i].begin[threadIdx.x] = 0;
      }
    }
  }
}

// --- voxels without a cap that hold more than one group of points ---

// Replaces `count` items by the sums of their groups, column by column. Runs as a block.
static __device__ void sum_groups(const float *from, float *to, uint32_t columns, uint32_t count) {
  uint64_t groups = (count + CUDA_SUM_GROUP - 1) / CUDA_SUM_GROUP;
  for (uint64_t item = threadIdx.x; item < groups * columns; item += BLOCK) {
    uint64_t group = item / columns, column = item % columns, begin = group * CUDA_SUM_GROUP;
    uint32_t length = (uint32_t)min((uint64_t)CUDA_SUM_GROUP, count - begin);
    float sum = from[begin * columns + column];
    for (uint32_t k = 1; k < length; k++) {
      sum += from[(begin + k) * columns + column];
    }
    to[item] = sum;
  }
}

// Group sums of a row lie in big_sums from where its list begins, divided by a quarter of a group: rows of more than
// one group have room for all of theirs and, behind them, for the sums of those.
static __device__ void write_big_mean(const struct gather_params &p, uint32_t row) {
  uint32_t output_row = p.output_rows != NULL ? p.output_rows[row] : row;
  if (output_row == CUDA_NO_ROW) {
    return;
  }
  uint32_t count = p.lists.hits[row], columns = p.columns;
  const uint32_t *list = cuda_list_of(p.lists, row);
  uint64_t groups = (count + CUDA_SUM_GROUP - 1) / CUDA_SUM_GROUP;
  float *sums = p.big_sums + (uint64_t)(p.lists.begins[row] / (CUDA_SUM_GROUP / 4) + 1) * columns;
  for (uint64_t item = threadIdx.x; item < groups * columns; item += BLOCK) {
    uint64_t begin = item / columns * CUDA_SUM_GROUP;
    uint32_t length = (uint32_t)min((uint64_t)CUDA_SUM_GROUP, count - begin);
    sums[item] = sum_column(p.points, columns, list + begin, length, (uint32_t)(item % columns));
  }
  while (groups > 1) {
    __syncthreads();
    float *next = sums + groups * columns;
    sum_groups(sums, next, columns, (uint32_t)groups);
    sums = next;
    groups = (groups + CUDA_SUM_GROUP - 1) / CUDA_SUM_GROUP;
  }
  __syncthreads();
  for (uint32_t column = threadIdx.x; column < columns; column += BLOCK) {
    store_feature(p, p.features, (uint64_t)output_row * columns + column, vx_canonical(sums[column] / (float)count));
  }
}

static __device__ void write_big_means(const struct gather_params &p) {
  uint32_t num_big = p.tally->num_big;
  for (uint32_t i = blockIdx.x; i < num_big; i += p.big_blocks) {
    write_big_mean(p, p.big[i]);
    __syncthreads();
  }
}

static __global__ void __launch_bounds__(BLOCK) rows_kernel(const __grid_constant__ struct gather_params p) {
  cuda_wait();
  zero_gaps(p);
  if (blockIdx.x < p.big_blocks) {
    write_big_means(p);
    return;
  }
  uint32_t block = blockIdx.x - p.big_blocks;
  if (block >= p.row_blocks) {
    write_id(p, (uint64_t)(block - p.row_blocks) * BLOCK + threadIdx.x);
    return;
  }
  uint32_t columns = p.features != NULL ? p.columns : 1;
  uint64_t item = (uint64_t)block * BLOCK + threadIdx.x;
  uint64_t output_row = item / columns;
  if (output_row >= p.num_rows) {
    return;
  }
  uint32_t row = row_at(p, (uint32_t)output_row), column = (uint32_t)(item % columns);
  if (column == 0) {
    write_row(p, (uint32_t)output_row, row);
  }
  if (p.features != NULL) {
    write_mean(p, (uint32_t)output_row, row, column);
  }
}

// --- points, voxel by voxel ---

// Copies listed points first .. first + count - 1 (a warp's worth at most) into shared memory.
static __device__ void load_chunk(const struct gather_params &p, float *chunk, const uint32_t *list, uint32_t count) {
  uint32_t lane = threadIdx.x % WARP, columns = p.columns;
  uint32_t mine = lane < count ? list[lane] : 0;
  uint32_t k = lane / columns, c = lane % columns;
  __syncwarp();
  for (uint32_t begin = 0; begin < count * columns; begin += WARP) {
    uint32_t point = __shfl_sync(~0u, mine, k % WARP);
    if (begin + lane < count * columns) {
      chunk[begin + lane] = p.points[(uint64_t)point * columns + c];
    }
    c += WARP % columns;
    k += WARP / columns;
    if (c >= columns) {
      c -= columns;
      k++;
    }
  }
  __syncwarp();
}

// The mean of up to 64 columns: lane l has columns l and l + 32. The last chunk stays in shared memory.
static __device__ void find_mean(const struct gather_params &p, float *chunk, const uint32_t *list, uint32_t kept,
                                 uint32_t columns, float mean[SUM_SLOTS]) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint32_t begin = 0; begin < kept; begin += WARP) {
    uint32_t count = min(kept - begin, (uint32_t)WARP);
    load_chunk(p, chunk, list + begin, count);
#pragma unroll
    for (int slot = 0; slot < SUM_SLOTS; slot++) {
      uint32_t column = lane + slot * WARP;
      if (column < columns) {
        float sum = begin == 0 ? chunk[column] : mean[slot] + chunk[column];
        for (uint32_t k = 1; k < count; k++) {
          sum += chunk[k * p.columns + column];
        }
        mean[slot] = sum;
      }
    }
  }
#pragma unroll
  for (int slot = 0; slot < SUM_SLOTS; slot++) {
    mean[slot] = vx_canonical(mean[slot] / (float)kept);
  }
}

static __device__ void write_voxel_chunk(const struct gather_params &p, const float *chunk, uint32_t count,
                                         uint64_t at) {
  for (uint32_t i = threadIdx.x % WARP; i < count * p.columns; i += WARP) {
    p.voxels[at * p.columns + i] = chunk[i];
  }
}

static __device__ void pad_voxel(const struct gather_params &p, uint64_t at, uint32_t count,
                                 const float mean[SUM_SLOTS]) {
  uint32_t lane = threadIdx.x % WARP, column = lane % p.columns;
  for (uint32_t begin = 0; begin < count * p.columns; begin += WARP) {
    float low = __shfl_sync(~0u, mean[0], column % WARP), high = __shfl_sync(~0u, mean[1], column % WARP);
    if (begin + lane < count * p.columns) {
      p.voxels[at * p.columns + begin + lane] = !p.fill_mean ? 0.0f : column < WARP ? low : high;
    }
    column += WARP % p.columns;
    column -= column >= p.columns ? p.columns : 0;
  }
}

static __device__ float pillar_value(const struct gather_params &p, const float *point, uint32_t column,
                                     const float mean[3], const float centre[3]) {
  if (column < p.columns) {
    return point[column];
  }
  uint32_t extra = column - p.columns, axis = extra % 3;
  float m = axis == 0 ? mean[0] : axis == 1 ? mean[1] : mean[2];
  float c = axis == 0 ? centre[0] : axis == 1 ? centre[1] : centre[2];
  return vx_canonical(point[axis] - (extra < 3 ? m : c));
}

static __device__ void write_pillar_chunk(const struct gather_params &p, const float *chunk, uint32_t count,
                                          uint64_t at, const float mean[3], const float centre[3]) {
  uint32_t width = p.columns + PILLAR_EXTRA, lane = threadIdx.x % WARP;
  uint32_t k = lane / width, c = lane % width;
  for (uint32_t i = lane; i < count * width; i += WARP) {
    store_feature(p, p.pillars, at * width + i, pillar_value(p, chunk + k * p.columns, c, mean, centre));
    c += WARP % width;
    k += WARP / width;
    if (c >= width) {
      c -= width;
      k++;
    }
  }
}

// Zeroes an array of `bytes`, a multiple of `unit`, as a warp: with 16-byte stores where it can.
static __device__ void zero(unsigned char *begin, uint64_t bytes, uint32_t unit) {
  uint32_t lane = threadIdx.x % WARP;
  uint64_t head = min(bytes, (uint64_t)(-(uintptr_t)begin % 16)), body = (bytes - head) / 16 * 16;
  for (uint64_t i = lane * unit; i < head; i += WARP * unit) {
    unit == 2 ? (void)(*(uint16_t *)(begin + i) = 0) : (void)(*(uint32_t *)(begin + i) = 0);
  }
  for (uint64_t i = head + lane * 16; i < head + body; i += WARP * 16) {
    *(uint4 *)(begin + i) = make_uint4(0, 0, 0, 0);
  }
  for (uint64_t i = head + body + lane * unit; i < bytes; i += WARP * unit) {
    unit == 2 ? (void)(*(uint16_t *)(begin + i) = 0) : (void)(*(uint32_t *)(begin + i) = 0);
  }
}

static __device__ void pad_pillar(const struct gather_params &p, uint64_t at, uint32_t count) {
  uint32_t unit = p.half_features ? 2 : 4;
  uint64_t point_bytes = (uint64_t)(p.columns + PILLAR_EXTRA) * unit;
  zero((unsigned char *)p.pillars + at * point_bytes, count * point_bytes, unit);
}

static __device__ void write_points(const struct gather_params &p, float *chunk, uint32_t output_row, uint32_t row) {
  uint32_t kept = cuda_kept_of(p.lists, row);
  uint64_t at = (uint64_t)output_row * p.cap;
  const uint32_t *list = cuda_list_of(p.lists, row);
  float mean[SUM_SLOTS] = {0.0f, 0.0f}, means[3] = {0.0f, 0.0f, 0.0f}, centre[3] = {0.0f, 0.0f, 0.0f};
  bool mean_wanted = p.pillars != NULL || (p.fill_mean && kept < p.cap);
  if (mean_wanted) {
    find_mean(p, chunk, list, kept, p.voxels != NULL && p.fill_mean ? p.columns : 3, mean);
  }
  if (p.pillars != NULL) {
    int32_t cell[3];
    find_cell(p, row, cell);
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
      means[axis] = __shfl_sync(~0u, mean[0], axis);
      centre[axis] = vx_cell_centre(&p.map, axis, cell[axis]);
    }
  }
  for (uint32_t begin = 0; begin < kept; begin += WARP) {
    uint32_t count = min(kept - begin, (uint32_t)WARP);
    if (!mean_wanted || kept > WARP) {
      load_chunk(p, chunk, list + begin, count);
    }
    if (p.voxels != NULL) {
      write_voxel_chunk(p, chunk, count, at + begin);
    }
    if (p.pillars != NULL) {
      write_pillar_chunk(p, chunk, count, at + begin, means, centre);
    }
  }
  if (p.voxels != NULL) {
    pad_voxel(p, at + kept, p.cap - kept, mean);
  }
  if (p.pillars != NULL) {
    pad_pillar(p, at + kept, p.cap - kept);
  }
}

static __global__ void __launch_bounds__(POINT_WARPS *WARP)
    points_kernel(const __grid_constant__ struct gather_params p) {
  extern __shared__ float chunks[];  // [POINT_WARPS, WARP, columns]
  cuda_wait();
  if (p.rows_by_warp) {
    zero_gaps(p);
  }
  uint32_t warp = threadIdx.x / WARP;
  uint64_t output_row = (uint64_t)blockIdx.x * POINT_WARPS + warp;
  if (output_row >= p.num_rows) {
    return;
  }
  uint32_t row = row_at(p, (uint32_t)output_row);
  if (p.rows_by_warp && threadIdx.x % WARP == 0) {
    write_row(p, (uint32_t)output_row, row);
  }
  __syncwarp();
  if (p.voxels != NULL || p.pillars != NULL) {
    write_points(p, chunks + warp * WARP * p.columns, (uint32_t)output_row, row);
  }
  if (p.mask != NULL) {
    uint32_t kept = cuda_kept_of(p.lists, row);
    for (uint32_t k = threadIdx.x % WARP; k < p.cap; k += WARP) {
      p.mask[output_row * p.cap + k] = k < kept;
    }
  }
}

// --- launches ---

static void place_tensors(struct gather_params *p, const struct vx_layout *layout, unsigned char *image) {
  unsigned char *places[VX_TENSOR_COUNT] = {};
  size_t end = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) != 0) {
      size_t offset = layout->offset[tensor];
      places[tensor] = image + offset;
      p->gaps[tensor] = {image + end, (uint32_t)(offset - end)};
      end = offset + layout->shape[tensor].bytes;
    }
  }
  p->coords = (int32_t *)places[VX_VOXEL_COORDS];
  p->num_points = (int32_t *)places[VX_VOXEL_NUM_POINTS];
  p->voxels = (float *)places[VX_VOXELS];
  p->features = places[VX_VOXEL_FEATURES];
  p->pillars = places[VX_PILLAR_FEATURES];
  p->ids = (int32_t *)places[VX_POINT_VOXEL_IDS];
  p->mask = places[VX_VOXEL_POINT_MASK];
}

static struct gather_params gather_params_of(const struct cuda_run *run, uint32_t num_rows) {
  bool filtered = run->params->block_filter.enabled, ordered = run->params->order == VX_ORDER_KEY;
  struct gather_params p = {};
  p.map = run->map;
  p.points = run->points;
  p.columns = run->columns;
  p.num_rows = num_rows;
  p.clouds = run->clouds;
  p.lists = run->lists;
  p.first_points = run->first_points;
  p.rows = run->rows;
  p.row_capacity = run->row_capacity;
  p.output_rows = filtered || ordered ? run->output_rows : NULL;
  p.rows_in_order = filtered || ordered ? run->rows_in_order : NULL;
  p.half_features = run->params->feature_dtype == VX_FLOAT16;
  p.fill_mean = run->params->fill == VX_FILL_MEAN;
  p.tree_sums = run->params->max_points_per_voxel == 0;
  p.cap = (uint32_t)run->params->max_points_per_voxel;
  p.big = run->big;
  p.big_sums = run->big_sums;
  p.tally = run->tally;
  return p;
}

enum vx_status cuda_gather(const struct cuda_run *run, const struct vx_layout *layout, uint32_t num_rows,
                           unsigned char *image, struct vx_error *error) {
  struct gather_params p = gather_params_of(run, num_rows);
  place_tensors(&p, layout, image);
  bool by_warp = (p.voxels != NULL || p.pillars != NULL || p.mask != NULL) && num_rows > 0;
  p.rows_by_warp = by_warp && p.features == NULL && p.ids == NULL;
  p.row_blocks = cuda_blocks((uint64_t)num_rows * (p.features != NULL ? p.columns : 1), BLOCK);
  p.big_blocks = p.tree_sums && p.features != NULL && num_rows > 0 ? CUDA_BIG_BLOCKS : 0;
  unsigned blocks = p.big_blocks + p.row_blocks + (p.ids != NULL ? cuda_blocks(run->num_points, BLOCK) : 0);
  if (blocks > 0 && !p.rows_by_warp) {
    CUDA_TRY(cuda_launch("rows_kernel", rows_kernel, blocks, BLOCK, 0, run, p, error));
  }
  if (by_warp) {
    size_t shared = POINT_WARPS * WARP * p.columns * sizeof(float);
    CUDA_TRY(cuda_launch("points_kernel", points_kernel, cuda_blocks(num_rows, POINT_WARPS), POINT_WARPS * WARP, shared,
                         run, p, error));
  }
  return VX_OK;
}

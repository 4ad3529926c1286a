// From rows to tensors, written straight into an image of the output block, whose layout the device has computed.
//
// A few threads a row (a whole warp where voxels are written) bring the first points of its list into input order and
// write all that the tensors say of it; other blocks write point_voxel_ids. The threads hold as many points as they
// are, sorted, and merge what follows into them; rows of many points are left to the whole block. Every byte of a
// tensor is written by exactly one thread, and the gaps between tensors are zeroed: the image still holds another
// job's output.
#include "kernels/cuda/gather.cuh"

enum { BLOCK = 256, WARPS = BLOCK / WARP };

template <int width> struct gather_shared {
  enum { ROWS = BLOCK / width, LONG_LIST = 4 * width };  // longer lists are the block's
  uint32_t lists[BLOCK];                                 // [ROWS, width]
  uint32_t values[BLOCK];
  uint32_t long_rows[ROWS], long_begins[ROWS], long_hits[ROWS], num_long;
};

// Room for a chunk and the mean that pads, in whole float4s.
static __host__ __device__ uint32_t chunk_floats(const struct gather_params &p) {
  return ((p.chunk + 1) * p.columns + 3) / 4 * 4;
}

static __device__ struct places find_places(const struct gather_params &p) {
  unsigned char *at[VX_TENSOR_COUNT];
#pragma unroll
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    at[tensor] = (p.tensors >> tensor & 1) != 0 ? p.image + p.tally->offset[tensor] : NULL;
  }
  return {(int4 *)at[VX_VOXEL_COORDS],   (int32_t *)at[VX_VOXEL_NUM_POINTS], (float *)at[VX_VOXELS],
          (void *)at[VX_VOXEL_FEATURES], (void *)at[VX_PILLAR_FEATURES],     (int32_t *)at[VX_POINT_VOXEL_IDS],
          at[VX_VOXEL_POINT_MASK]};
}

static __device__ void zero_gaps(const struct gather_params &p) {
  uint64_t end = 0, num_rows = p.tally->num_output_rows;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((p.tensors >> tensor & 1) != 0) {
      uint64_t begin = p.tally->offset[tensor];
      if (threadIdx.x < begin - end) {
        p.image[end + threadIdx.x] = 0;
      }
      end = begin + (tensor == VX_POINT_VOXEL_IDS ? p.ids_bytes : p.row_bytes[tensor] * num_rows);
    }
  }
}

static __device__ void write_ids(const struct gather_params &p, int32_t *ids) {
  for (uint64_t point = (uint64_t)(blockIdx.x - p.row_blocks) * BLOCK + threadIdx.x; point < p.clouds.num_points;
       point += (uint64_t)(gridDim.x - p.row_blocks) * BLOCK) {
    uint32_t row = p.rows[point];
    bool has_row = row != p.row_capacity;
    ids[point] = !has_row ? -1 : (int32_t)(p.output_rows != NULL ? p.output_rows[row] : row);
  }
}

// One row as a block: each warp finds the lowest of its part, the first warp the lowest of those sorted sequences.
template <int width>
static __device__ void order_long_list(const uint32_t *list, uint32_t count, uint32_t *values, uint32_t *ordered) {
  values[threadIdx.x] = lowest_of<WARP>(~0u, list, count, threadIdx.x / WARP * WARP, BLOCK);
  __syncthreads();
  if (threadIdx.x < WARP) {
    uint32_t lowest = values[threadIdx.x];
    for (int warp = 1; warp < WARPS; warp++) {
      lowest = merge_values<WARP>(~0u, lowest, values[WARP * warp + threadIdx.x]);
    }
    if (threadIdx.x < width) {
      ordered[threadIdx.x] = lowest;
    }
  }
  __syncthreads();
}

// As a block: the first points of each of its rows, in input order. Threads without a row have no hits.
template <int width>
static __device__ void order_lists(const struct gather_params &p, const struct cuda_record &record,
                                   struct gather_shared<width> *shared) {
  uint32_t lane = threadIdx.x % width, row = threadIdx.x / width, hits = record.hits;
  uint32_t mask = width == WARP ? ~0u : ((1u << (width % WARP)) - 1) << (threadIdx.x % WARP / width * width);
  if (threadIdx.x == 0) {
    shared->num_long = 0;
  }
  __syncthreads();
  if (hits > gather_shared<width>::LONG_LIST) {
    if (lane == 0) {
      uint32_t i = atomicAdd(&shared->num_long, 1);
      shared->long_rows[i] = row;
      shared->long_begins[i] = record.begin;
      shared->long_hits[i] = hits;
    }
  } else if (hits > 1) {
    shared->lists[threadIdx.x] = lowest_of<width>(mask, p.lists + record.begin, hits, 0, width);
  } else {
    shared->lists[threadIdx.x] = record.first_point;
  }
  __syncthreads();
  for (uint32_t i = 0; i < shared->num_long; i++) {
    order_long_list<width>(p.lists + shared->long_begins[i], shared->long_hits[i], shared->values,
                           shared->lists + shared->long_rows[i] * width);
  }
}

// By the row's threads: all but whole voxels.
template <int width>
static __device__ void write_row(const struct gather_params &p, const struct places &places,
                                 const struct gathered_row &row, int32_t cloud, const float *mean) {
  uint32_t lane = threadIdx.x % width;
  if (lane == 0 && places.coords != NULL) {
    places.coords[row.output_row] = make_int4(cloud, row.cell[2], row.cell[1], row.cell[0]);
  }
  if (lane == 0 && places.num_points != NULL) {
    places.num_points[row.output_row] = (int32_t)row.kept;
  }
  for (uint32_t column = lane; places.features != NULL && column < p.columns; column += width) {
    float value = mean != NULL
                      ? mean[column]
                      : vx_canonical(sum_column<8>(p.points, p.columns, row.list, row.kept, column) / (float)row.kept);
    uint64_t at = (uint64_t)row.output_row * p.columns + column;
    if (p.half_features) {
      ((uint16_t *)places.features)[at] = half_bits(value);
    } else {
      ((float *)places.features)[at] = value;
    }
  }
}

// As a block: one part of the rows. Neighbouring rows are alike: each warp has neighbours, so that its threads have as
// much to do, and the warps of a block come from all over, so that long lists do not wait for each other.
template <int width>
static __device__ void gather_part(const struct gather_params &p, const struct places &places, uint32_t num_rows,
                                   uint64_t output_row, struct gather_shared<width> *shared, float *chunk) {
  bool here = output_row < num_rows;
  uint32_t number = !here ? 0 : p.rows_in_order != NULL ? p.rows_in_order[output_row] : (uint32_t)output_row;
  int32_t cloud = 0;
  struct cuda_record record = {0, 0, 0, 0};
  struct gathered_row row = {(uint32_t)output_row, 0, {0, 0, 0}, NULL};
  if (here) {
    cloud = cuda_cloud_of_row(p.clouds, number);
    record = cuda_record_of_row(p.clouds, p.records, cloud, number);
    const float *point = p.points + (uint64_t)record.first_point * p.columns;
    vx_cell_of_point(&p.map, point[0], point[1], point[2], row.cell);
    row.kept = min(record.hits, p.kept_cap);
  }
  row.list = p.lists + record.begin;
  if (p.order_here) {
    order_lists<width>(p, record, shared);
    row.list = shared->lists + threadIdx.x / width * width;
  }
  if (here) {
    write_row<width>(p, places, row, cloud, p.means == NULL ? NULL : p.means + (uint64_t)number * p.columns);
    if (width == WARP && (places.voxels != NULL || places.pillars != NULL)) {
      write_voxel(p, places, chunk, row);
    }
    if (width == WARP && places.mask != NULL) {
      write_mask(p, places.mask, row);
    }
  }
  __syncthreads();
}

template <int width>
static __global__ void __launch_bounds__(BLOCK) gather_kernel(const __grid_constant__ struct gather_params p) {
  __shared__ struct gather_shared<width> shared;
  extern __shared__ float4 chunks[];  // [WARPS, chunk + 1, columns] floats
  cuda_wait();
  const uint32_t rows_of_warp = WARP / width, rows_of_part = BLOCK / width;
  uint32_t num_rows = p.tally->num_output_rows, warp = threadIdx.x / WARP;
  uint32_t parts = (uint32_t)(((uint64_t)num_rows + rows_of_part - 1) / rows_of_part);
  struct places places = find_places(p);
  if (blockIdx.x == 0) {
    zero_gaps(p);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.tally->moments[CUDA_FOUND] = cuda_now();
  }
  if (blockIdx.x >= p.row_blocks) {
    write_ids(p, places.ids);
  } else {
    float *chunk = (float *)chunks + warp * chunk_floats(p);
    for (uint32_t part = blockIdx.x; part < parts; part += p.row_blocks) {
      uint64_t first = (part + (uint64_t)warp * parts) * rows_of_warp;
      gather_part<width>(p, places, num_rows, first + threadIdx.x % WARP / width, &shared, chunk);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_GATHERED], cuda_now());
  }
}

// --- launches ---

static struct gather_params gather_params_of(const struct cuda_run *run, const struct vx_layout *row_layout) {
  struct gather_params p = {};
  p.map = run->map;
  p.points = run->points;
  p.columns = run->columns;
  p.clouds = run->clouds;
  p.records = run->records;
  p.lists = run->lists;
  p.order_here = run->lists_wanted && !run->whole_lists;
  p.rows = run->rows;
  p.row_capacity = run->row_capacity;
  p.output_rows = run->output_rows;
  p.rows_in_order = run->rows_in_order;
  p.means = run->means;
  p.half_features = run->params->feature_dtype == VX_FLOAT16;
  p.fill_mean = run->params->fill == VX_FILL_MEAN;
  p.kept_cap = run->cap;
  p.cap = (uint32_t)run->params->max_points_per_voxel;
  p.chunk = run->columns <= WARP ? WARP : WARP / 2;
  p.tensors = run->params->tensors;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    p.row_bytes[tensor] = row_layout->shape[tensor].bytes;
  }
  p.ids_bytes = row_layout->shape[VX_POINT_VOXEL_IDS].bytes;
  p.image = run->lane->image.memory;
  p.tally = run->tally;
  return p;
}

template <int width>
static enum vx_status launch(const struct cuda_run *run, struct gather_params p, size_t shared_bytes,
                             struct vx_error *error) {
  unsigned id_blocks = run->rows == NULL ? 0 : cuda_looping_blocks(run, run->num_points, BLOCK, 4);
  p.row_blocks = cuda_looping_blocks(run, run->row_capacity, BLOCK / width, 6);
  return cuda_launch("gather_kernel", gather_kernel<width>, p.row_blocks + id_blocks, BLOCK, shared_bytes, run, p,
                     error);
}

enum vx_status cuda_gather(const struct cuda_run *run, struct vx_error *error) {
  const uint32_t whole_voxels =
      VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  struct vx_layout row_layout;
  CUDA_TRY(vx_layout_of(run->params, run->num_points, 1, &row_layout, error));
  struct gather_params p = gather_params_of(run, &row_layout);
  if ((p.tensors & whole_voxels) != 0) {
    size_t floats = WARPS * (size_t)chunk_floats(p);
    return launch<WARP>(run, p, floats * sizeof(float), error);
  }
  bool short_lists = p.order_here && run->cap <= 16;
  return short_lists && run->cap > 8    ? launch<16>(run, p, 0, error)
         : short_lists || !p.order_here ? launch<8>(run, p, 0, error)
                                        : launch<WARP>(run, p, 0, error);
}

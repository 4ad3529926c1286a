// From rows to tensors: written straight into an image of the output block, whose layout the device computes.
//
// A few threads per row (a whole warp if whole voxels are written) bring the first points of its list into input order
// and write its part of the tensors. Each of the threads holds one point; they keep these sorted and merge the rest of
// the list into them. Rows of many points are left to the whole block. Other blocks write point_voxel_ids.
//
// Exactly one thread writes each byte of a tensor. The gaps between tensors are zeroed, as the image still holds
// another job's output.
#include "kernels/cuda/voxelize/gather.cuh"

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/whole_voxels.cuh"

// Blocks per multiprocessor: the registers must suffice for them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GATHER_BLOCKS 4
#else
#define GATHER_BLOCKS 6
#endif

enum { BLOCK = 256, WARPS = BLOCK / WARP, WARP_LIST = 128 };  // WARP_LIST: longer lists are left to the block

template <int width> struct gather_shared {
  enum { ROWS = BLOCK / width };
  struct places places;
  uint32_t lists[ROWS][WARP];  // the first points of each row, in order
  uint32_t values[BLOCK];
  uint32_t short_rows[ROWS], long_rows[ROWS], num_short, num_long;
  struct {
    uint32_t begin, hits;
  } parts[ROWS];  // of the lists
};

// Room for a chunk of the widest points and the mean that pads, in whole float4s.
static __host__ __device__ uint32_t chunk_floats(const struct gather_params &p) {
  return ((p.chunk + 1) * (p.columns + PILLAR_EXTRA) + 3) / 4 * 4;
}

// As one thread: the place of each tensor that is written here.
template <bool mapped>
static __device__ void find_places(const struct gather_params &p, bool zero_gaps, struct places *places) {
  unsigned char *at[mapped ? VX_BEV_FEATURES + 1 : VX_SAMPLED_INDICES];
  cuda_find_places(p.plan, p.tally->num_output_rows, zero_gaps, at);
  *places = {(int4 *)at[VX_VOXEL_COORDS],   (int32_t *)at[VX_VOXEL_NUM_POINTS],      (float *)at[VX_VOXELS],
             (void *)at[VX_VOXEL_FEATURES], (void *)at[VX_PILLAR_FEATURES],          (int32_t *)at[VX_POINT_VOXEL_IDS],
             at[VX_VOXEL_POINT_MASK],       (void *)at[mapped ? VX_BEV_FEATURES : 0]};
}

static __device__ void write_ids(const struct gather_params &p, int32_t *ids, uint32_t block) {
  for (uint64_t point = (uint64_t)block * BLOCK + threadIdx.x; point < p.clouds.num_points;
       point += (uint64_t)p.id_blocks * BLOCK) {
    uint32_t row = p.rows[point];
    bool has_row = row != p.row_capacity;
    ids[point] = !has_row ? -1 : (int32_t)(p.output_rows != NULL ? p.output_rows[row] : row);
  }
}

// One row, as a block: each warp finds the lowest of its part, then the first warp finds the lowest of these.
static __device__ void order_long_list(const uint32_t *list, uint32_t count, uint32_t *values, uint32_t *ordered) {
  values[threadIdx.x] = lowest_of<WARP>(~0u, list, count, threadIdx.x / WARP * WARP, BLOCK);
  __syncthreads();
  if (threadIdx.x < WARP) {
    uint32_t lowest = values[threadIdx.x];
    for (int warp = 1; warp < WARPS; warp++) {
      lowest = merge_values<WARP>(~0u, lowest, values[WARP * warp + threadIdx.x]);
    }
    ordered[threadIdx.x] = lowest;
  }
  __syncthreads();
}

// As a block: puts the first points of each of its rows in input order. Threads without a row have no hits.
template <int width>
static __device__ void order_lists(const struct gather_params &p, const struct cuda_record &record,
                                   struct gather_shared<width> *shared) {
  uint32_t lane = threadIdx.x % width, row = threadIdx.x / width, hits = record.hits;
  uint32_t mask = width == WARP ? ~0u : ((1u << (width % WARP)) - 1) << (threadIdx.x % WARP / width * width);
  if (threadIdx.x == 0) {
    shared->num_short = shared->num_long = 0;
  }
  __syncthreads();
  if (hits <= (width == WARP ? WARP_LIST : width)) {
    shared->lists[row][lane] =
        hits <= 1 ? record.first_point : lowest_of<width>(mask, p.lists + record.begin, hits, 0, width);
  } else if (lane == 0) {
    bool is_long = hits > WARP_LIST;
    (is_long ? shared->long_rows : shared->short_rows)[atomicAdd(is_long ? &shared->num_long : &shared->num_short, 1)] =
        row;
    shared->parts[row] = {record.begin, hits};
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x / WARP; i < shared->num_short; i += WARPS) {
    uint32_t at = shared->short_rows[i];
    shared->lists[at][threadIdx.x % WARP] =
        lowest_of<WARP>(~0u, p.lists + shared->parts[at].begin, shared->parts[at].hits, 0, WARP);
  }
  for (uint32_t i = 0; i < shared->num_long; i++) {
    uint32_t at = shared->long_rows[i];
    order_long_list(p.lists + shared->parts[at].begin, shared->parts[at].hits, shared->values, shared->lists[at]);
  }
  __syncthreads();
}

// Writes a value of `voxel_features` where it belongs, there or in the map.
static __device__ void write_feature(const struct gather_params &p, void *to, uint64_t at, float value) {
  if (to == NULL) {
    return;
  }
  if (p.half_features) {
    ((uint16_t *)to)[at] = half_bits(value);
  } else {
    ((float *)to)[at] = value;
  }
}

// As the row's threads: writes all but whole voxels. `mapped`: bev_features too.
template <int width, bool mapped>
static __device__ void write_row(const struct gather_params &p, const struct places &places,
                                 const struct gathered_row &row, int32_t cloud, const float *mean) {
  uint32_t lane = threadIdx.x % width;
  if (lane == 0 && places.coords != NULL) {
    places.coords[row.output_row] = make_int4(cloud, row.cell[2], row.cell[1], row.cell[0]);
  }
  if (lane == 0 && places.num_points != NULL) {
    places.num_points[row.output_row] = (int32_t)row.kept;
  }
  bool wanted = mapped || places.features != NULL || p.sample_rows != NULL;
  uint64_t cell = ((uint64_t)row.cell[2] * p.ny + row.cell[1]) * p.nx + row.cell[0];
  for (uint32_t column = lane; wanted && column < p.columns; column += width) {
    float value = mean != NULL
                      ? mean[column]
                      : vx_canonical(sum_column<8>(p.points, p.columns, row.list, row.kept, column) / (float)row.kept);
    uint64_t at = (uint64_t)row.output_row * p.columns + column;
    if (p.sample_rows != NULL) {
      p.sample_rows[at] = value;
    }
    write_feature(p, places.features, at, value);
    if (mapped) {
      write_feature(p, places.map, cuda_place_of(p.planes, cloud, cell) + column * p.planes.cells, value);
    }
  }
}

// As a block: writes one part of the rows. Neighbouring rows have lists of similar length. A warp has neighbouring
// rows, so its threads have equal work. The warps of a block have distant rows, so long lists do not meet in one block.
template <int width, bool mapped>
static __device__ void gather_part(const struct gather_params &p, uint32_t num_rows, uint64_t output_row,
                                   struct gather_shared<width> *shared, float *chunk) {
  const struct places &places = shared->places;
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
    row.list = shared->lists[threadIdx.x / width];
  }
  if (here) {
    write_row<width, mapped>(p, places, row, cloud, p.means == NULL ? NULL : p.means + (uint64_t)number * p.columns);
    if (width == WARP && places.voxels != NULL) {
      write_voxel(p, places.voxels, chunk, row);
    }
    if (width == WARP && places.pillars != NULL) {
      write_pillar(p, places.pillars, chunk, row);
    }
    if (width == WARP && places.mask != NULL) {
      write_mask(p, places.mask, row);
    }
  }
  __syncthreads();
}

template <int width, bool mapped>
static __global__ void __launch_bounds__(BLOCK, GATHER_BLOCKS)
    gather_kernel(const __grid_constant__ struct gather_params p) {
  __shared__ struct gather_shared<width> shared;
  extern __shared__ float4 chunks[];  // [WARPS] of chunk_floats
  cuda_wait();
  if (blockIdx.x < p.publish_blocks) {
    publish(p.publish);
    return;
  }
  uint32_t block = blockIdx.x - p.publish_blocks, warp = threadIdx.x / WARP, num_rows = p.tally->num_output_rows;
  uint32_t parts = (uint32_t)(((uint64_t)num_rows * width + BLOCK - 1) / BLOCK);
  if (block > 0 && block >= parts && block < p.row_blocks) {
    return;
  }
  if (threadIdx.x == 0) {
    find_places<mapped>(p, block == 0, &shared.places);
    if (block == 0) {
      p.tally->moments[CUDA_FOUND] = cuda_now();
    }
  }
  __syncthreads();
  if (block >= p.row_blocks) {
    write_ids(p, shared.places.ids, block - p.row_blocks);
  } else {
    float *chunk = (float *)chunks + warp * chunk_floats(p);
    for (uint32_t part = block; part < parts; part += p.row_blocks) {
      uint64_t warp_rows = (part + (uint64_t)warp * parts) * (WARP / width);
      gather_part<width, mapped>(p, num_rows, warp_rows + threadIdx.x % WARP / width, &shared, chunk);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_GATHERED], cuda_now());
  }
}

// --- launches ---

static struct gather_params gather_params_of(const struct cuda_run *run) {
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
  p.sample_rows = run->fps.rows;
  p.nx = (uint32_t)run->grid.cells[0];
  p.ny = (uint32_t)run->grid.cells[1];
  p.planes = {run->columns, run->num_cells / (uint64_t)run->clouds.count};
  p.tally = run->tally;
  p.publish = publish_params_of(run, run->lane->sequence);
  return p;
}

template <int width>
static enum vx_status launch(const struct cuda_run *run, struct gather_params p, bool publish, size_t shared_bytes,
                             struct vx_error *error) {
  p.id_blocks = run->rows == NULL ? 0 : cuda_looping_blocks(run, run->num_points, BLOCK, 4);
  p.row_blocks = cuda_looping_blocks(run, run->row_capacity, BLOCK / width, 8);
  p.publish_blocks = publish;
  bool mapped = (run->tensors & VX_TENSOR_BIT(VX_BEV_FEATURES)) != 0;
  void (*kernel)(struct gather_params) = mapped ? gather_kernel<width, true> : gather_kernel<width, false>;
  return cuda_launch("gather_kernel", kernel, p.publish_blocks + p.row_blocks + p.id_blocks, BLOCK, shared_bytes, run,
                     p, error);
}

enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct vx_error *error) {
  const uint32_t whole_voxels =
      VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  struct gather_params p = gather_params_of(run);
  CUDA_TRY(cuda_plan_image(run, &p.plan, error));
  if ((run->tensors & whole_voxels) == 0) {
    return launch<8>(run, p, publish, 0, error);
  }
  return launch<WARP>(run, p, publish, WARPS * (size_t)chunk_floats(p) * sizeof(float), error);
}

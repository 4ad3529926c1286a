// From rows to tensors: written straight into an image of the output block, whose layout the device computes.
//
// A few threads per row (a whole warp if large voxels are written) bring the first points of its list into input order
// and write its part of the tensors. Other blocks write point_voxel_ids.
//
// Exactly one thread writes each byte of a tensor. The gaps between tensors are zeroed, as the image still holds
// another job's output.
#include "kernels/cuda/voxelize/gather.cuh"

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/short_lists.cuh"
#include "kernels/cuda/voxelize/whole_voxels.cuh"

// Blocks per multiprocessor: the registers must suffice for them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define GATHER_BLOCKS 4
#else
#define GATHER_BLOCKS 6
#endif

enum { BLOCK = LIST_BLOCK, WARPS = LIST_WARPS };

template <int width> struct gather_shared {
  struct places places;
  struct short_lists<width> lists;
};

// Room for a chunk of the widest points and the mean that pads, in whole float4s.
static __host__ __device__ uint32_t chunk_floats(const struct gather_params &p) {
  return ((p.chunk + 1) * (p.columns + PILLAR_EXTRA) + 3) / 4 * 4;
}

// As one thread: the place of each tensor that is written here.
static __device__ void find_places(const struct gather_params &p, bool zero_gaps, struct places *places) {
  unsigned char *at[VX_SAMPLED_INDICES];
  cuda_find_places(p.plan, p.tally->num_output_rows, zero_gaps, at);
  unsigned char *features = at[VX_VOXEL_FEATURES];
  *places = {(int4 *)at[VX_VOXEL_COORDS], (int32_t *)at[VX_VOXEL_NUM_POINTS],
             (float *)at[VX_VOXELS],      features != NULL ? features : p.features,
             at[VX_PILLAR_FEATURES],      (int32_t *)at[VX_POINT_VOXEL_IDS],
             at[VX_VOXEL_POINT_MASK]};
}

static __device__ void write_ids(const struct gather_params &p, int32_t *ids, uint32_t block) {
  for (uint64_t point = (uint64_t)block * BLOCK + threadIdx.x; point < p.clouds.num_points;
       point += (uint64_t)p.id_blocks * BLOCK) {
    uint32_t row = p.rows[point];
    bool has_row = row != p.row_capacity;
    ids[point] = !has_row ? -1 : (int32_t)(p.output_rows != NULL ? p.output_rows[row] : row);
  }
}

// As the row's threads: writes all but whole voxels.
template <int width>
static __device__ void write_row(const struct gather_params &p, const struct places &places,
                                 const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % width;
  if (lane == 0 && places.coords != NULL) {
    places.coords[row.output_row] = make_int4(row.cloud, row.cell[2], row.cell[1], row.cell[0]);
  }
  if (lane == 0 && places.num_points != NULL) {
    places.num_points[row.output_row] = (int32_t)row.kept;
  }
  bool wanted = places.features != NULL || p.sample_rows != NULL;
  for (uint32_t column = lane; wanted && column < p.columns; column += width) {
    float value = p.means != NULL
                      ? known_mean(p, row, column)
                      : vx_canonical(sum_column<8>(p.points, p.columns, row.list, row.kept, column) / (float)row.kept);
    uint64_t at = (uint64_t)row.output_row * p.columns + column;
    if (p.sample_rows != NULL) {
      p.sample_rows[at] = value;
    }
    if (places.features != NULL && p.half_features) {
      store_item((uint16_t *)places.features + at, value);
    } else if (places.features != NULL) {
      store_item((float *)places.features + at, value);
    }
  }
}

// As a block: writes one part of the rows. Neighbouring rows have lists of similar length. A warp has neighbouring
// rows, so its threads have equal work. The warps of a block have distant rows, so long lists do not meet in one block.
template <int width>
static __device__ void gather_part(const struct gather_params &p, uint32_t num_rows, uint64_t output_row,
                                   struct gather_shared<width> *shared, float *chunk) {
  const struct places &places = shared->places;
  bool here = output_row < num_rows;
  struct gathered_row row = {};
  if (here) {
    row = find_row(p, (uint32_t)output_row);
  }
  if (p.order_here) {
    order_short_lists<width>(p, row.record, &shared->lists);
    row.list = shared->lists.lists[threadIdx.x / width];
  }
  if (here) {
    write_row<width>(p, places, row);
    if (width < WARP && places.voxels != NULL) {
      write_small_voxel<width>(p, places.voxels, row);
    }
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

template <int width>
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
  uint32_t parts = p.rows_wanted ? (uint32_t)(((uint64_t)num_rows * width + BLOCK - 1) / BLOCK) : 0;
  if (block > 0 && block >= parts && block < p.row_blocks) {
    return;
  }
  if (threadIdx.x == 0) {
    find_places(p, block == 0, &shared.places);
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
      gather_part<width>(p, num_rows, warp_rows + threadIdx.x % WARP / width, &shared, chunk);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0 && (p.rows_wanted || p.id_blocks > 0)) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_GATHERED], cuda_now());
  }
}

// --- launches ---

// Whether something that the gather writes needs the rows' lists.
static bool lists_wanted(const struct cuda_run *run) {
  return run->sampling != NULL || run->scattered == VX_VOXEL_FEATURES ||
         (run->tensors & VX_LIST_TENSORS & ~(VX_ENCODED_TENSORS | VX_TENSOR_BIT(VX_BEV_FEATURES))) != 0;
}

static struct gather_params gather_params_of(const struct cuda_run *run) {
  struct gather_params p = {};
  static_cast<struct row_params &>(p) = row_params_of(run);
  const vx_tensor_set of_rows = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS);
  p.rows_wanted = lists_wanted(run) || (run->tensors & (of_rows | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK))) != 0;
  p.order_here = lists_wanted(run) && !run->whole_lists;
  p.rows = run->rows;
  p.row_capacity = run->row_capacity;
  p.output_rows = run->output_rows;
  p.half_features = run->params->feature_dtype == VX_FLOAT16;
  p.fill_mean = run->params->fill == VX_FILL_MEAN;
  p.features = run->scattered == VX_VOXEL_FEATURES ? run->features : NULL;
  p.sample_rows = run->fps.rows;
  p.publish = publish_params_of(run, run->lane->sequence);
  return p;
}

template <int width>
static enum vx_status launch(const struct cuda_run *run, struct gather_params p, bool publish, size_t shared_bytes,
                             struct vx_error *error) {
  p.id_blocks = run->rows == NULL ? 0 : cuda_looping_blocks(run, run->num_points, BLOCK, 4);
  p.row_blocks = p.rows_wanted ? cuda_looping_blocks(run, run->row_capacity, BLOCK / width, 8) : 1;
  p.publish_blocks = publish;
  return cuda_launch("gather_kernel", gather_kernel<width>, p.publish_blocks + p.row_blocks + p.id_blocks, BLOCK,
                     shared_bytes, run, p, error);
}

enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct vx_error *error) {
  const vx_tensor_set voxels = VX_TENSOR_BIT(VX_VOXELS),
                      large = VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  struct gather_params p = gather_params_of(run);
  CUDA_TRY(cuda_plan_image(run, &p.plan, error));
  bool in_parts = (run->tensors & large) == 0 && !p.fill_mean;
  if ((run->tensors & (voxels | large)) == 0 || (in_parts && p.cap <= 8)) {
    return launch<8>(run, p, publish, 0, error);
  }
  if (in_parts && p.cap <= 16) {
    return launch<16>(run, p, publish, 0, error);
  }
  return launch<WARP>(run, p, publish, WARPS * (size_t)chunk_floats(p) * sizeof(float), error);
}

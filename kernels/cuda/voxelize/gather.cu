// From rows to tensors: written straight into an image of the output block, whose layout the device computes.
//
// A row's threads bring the first points of its list into input order and write its part of the tensors. They are fewer
// if the mean cell has few points: 4 instead of 8 or 16, or half a warp instead of a warp if large voxels are written.
// Other blocks write point_voxel_ids.
//
// Exactly one thread writes each byte of a tensor. The gaps between tensors are zeroed, as the image still holds
// another job's output.
#include "kernels/cuda/voxelize/gather.cuh"

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/short_lists.cuh"
#include "kernels/cuda/voxelize/whole_voxels.cuh"

enum { BLOCK = LIST_BLOCK };

// Blocks that a multiprocessor of that compute capability runs at once: the registers must suffice for them. One more
// or one fewer took longer.
static constexpr int blocks_at_once(bool by_chunks, int capability) { return by_chunks || capability < 80 ? 4 : 5; }

#ifdef __CUDA_ARCH__
enum { CAPABILITY = __CUDA_ARCH__ / 10 };
#else
enum { CAPABILITY = 80 };  // of the host's pass, which compiles no kernel
#endif

// Room for a chunk of the widest points and the mean that pads, in whole float4s.
template <int width> static __host__ __device__ uint32_t chunk_floats(const struct gather_params &p) {
  return ((chunk_of<width>(p) + 1) * (p.columns + PILLAR_EXTRA) + 3) / 4 * 4;
}

// Of all rows of a block.
template <int width> static size_t chunk_bytes(const struct gather_params &p) {
  return BLOCK / width * (size_t)chunk_floats<width>(p) * sizeof(float);
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
static __device__ void write_row(const struct gather_params &p, unsigned char *const *places,
                                 const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % width;
  int4 *coords = (int4 *)places[VX_VOXEL_COORDS];
  int32_t *num_points = (int32_t *)places[VX_VOXEL_NUM_POINTS];
  unsigned char *features = p.features != NULL ? p.features : places[VX_VOXEL_FEATURES];
  if (lane == 0 && coords != NULL) {
    coords[row.output_row] = make_int4(row.cloud, row.cell[2], row.cell[1], row.cell[0]);
  }
  if (lane == 0 && num_points != NULL) {
    num_points[row.output_row] = (int32_t)row.kept;
  }
  bool wanted = features != NULL || p.sample_rows != NULL;
  for (uint32_t column = lane; wanted && column < p.columns; column += width) {
    float value = p.means != NULL
                      ? known_mean(p, row, column)
                      : vx_canonical(sum_column<8>(p.points, p.columns, row.list, row.kept, column) / (float)row.kept);
    uint64_t at = (uint64_t)row.output_row * p.columns + column;
    if (p.sample_rows != NULL) {
      p.sample_rows[at] = value;
    }
    if (features != NULL && p.half_features) {
      store_item((uint16_t *)features + at, value);
    } else if (features != NULL) {
      store_item((float *)features + at, value);
    }
  }
}

// As the row's threads: writes its whole voxels, which are small if they are not written by chunks.
template <int width, bool by_chunks>
static __device__ void write_whole_voxel(const struct gather_params &p, unsigned char *const *places,
                                         const struct gathered_row &row, float *chunk) {
  float *voxels = (float *)places[VX_VOXELS];
  if constexpr (by_chunks) {
    if (voxels != NULL) {
      write_voxel<width>(p, voxels, chunk, row);
    }
    if (places[VX_PILLAR_FEATURES] != NULL) {
      write_pillar<width>(p, places[VX_PILLAR_FEATURES], chunk, row);
    }
    if (places[VX_VOXEL_POINT_MASK] != NULL) {
      write_mask<width>(p, places[VX_VOXEL_POINT_MASK], row);
    }
  } else if (voxels != NULL) {
    write_small_voxel<width>(p, voxels, row);
  }
}

// The row of a thread in one part of the rows; one without points if it has none. Neighbouring rows have lists of
// similar length. A warp has neighbouring rows, so its threads have equal work. The warps of a block have distant rows,
// so long lists do not meet in one block.
template <int width>
static __device__ struct gathered_row row_of_part(const struct gather_params &p, uint32_t part, uint32_t parts,
                                                  uint32_t num_rows) {
  uint64_t first = (part + (uint64_t)(threadIdx.x / WARP) * parts) * (WARP / width);
  uint64_t output_row = first + threadIdx.x % WARP / width;
  struct gathered_row row = {};
  return part < parts && output_row < num_rows ? find_row(p, (uint32_t)output_row) : row;
}

// As a block: writes the rows of its parts. The first are found before the lists are.
template <int width, bool by_chunks>
static __device__ void gather_parts(const struct gather_params &p, uint32_t block, uint32_t parts, uint32_t num_rows,
                                    unsigned char *const *places, struct short_lists<width> *lists, float *chunks) {
  float *chunk = chunks + threadIdx.x / width * chunk_floats<width>(p);
  struct gathered_row row = row_of_part<width>(p, block, parts, num_rows);
  cuda_wait();
  __syncthreads();  // the places are known
  if (block == 0 && threadIdx.x == 0) {
    p.tally->moments[CUDA_FOUND] = cuda_now();
  }
  for (uint32_t part = block; part < parts;) {
    if (p.order_here) {
      order_short_lists<width>(p, row.record, lists);
      row.list = lists->lists[threadIdx.x / width];
    }
    if (row.record.hits != 0) {
      write_row<width>(p, places, row);
      write_whole_voxel<width, by_chunks>(p, places, row, chunk);
    }
    part += p.row_blocks;
    row = row_of_part<width>(p, part, parts, num_rows);
  }
}

// As a block: zeroes what is between the tensors.
static __device__ void zero_gaps(const struct cuda_image_plan &plan, uint64_t num_rows,
                                 const struct image_places &places) {
  unsigned char *end = plan.memory;
  for (vx_tensor_set rest = plan.tensors; rest != 0; rest &= rest - 1) {
    int tensor = __ffsll((long long)rest) - 1;
    for (end += threadIdx.x; end < places.at[tensor]; end += BLOCK) {
      *end = 0;
    }
    end = places.at[tensor] + places.own_bytes[tensor] + places.row_bytes[tensor] * num_rows;
  }
}

// A row has `few` threads if the mean cell has no more points than that, else `many`.
template <int few, int many, bool by_chunks>
static __global__ void __launch_bounds__(BLOCK, blocks_at_once(by_chunks, CAPABILITY))
    gather_kernel(const __grid_constant__ struct gather_params p) {
  __shared__ struct image_places places;
  __shared__ union {
    struct short_lists<few> of_few;
    struct short_lists<many> of_many;
  } lists;
  extern __shared__ float4 chunks[];  // of chunk_floats for each row, if large voxels are written
  if (blockIdx.x < p.publish_blocks) {
    cuda_wait();
    publish(p.publish);
    return;
  }
  cuda_read_plan(p.plan, &places);
  if (!p.rows_known) {
    cuda_wait();
  }
  // Points in cells, cells, rows, output rows. One thread of each block reads them, since all blocks do at once.
  __shared__ uint4 sizes;
  if (threadIdx.x == 0) {
    sizes = __ldcg((const uint4 *)&p.tally->num_inside);
  }
  __syncthreads();
  uint32_t block = blockIdx.x - p.publish_blocks, num_rows = sizes.w;
  bool are_few = few < many && sizes.x <= (uint64_t)few * sizes.y;
  uint64_t threads = p.rows_wanted ? (uint64_t)num_rows * (are_few ? few : many) : 0;
  uint32_t parts = (uint32_t)((threads + BLOCK - 1) / BLOCK);
  if (block > 0 && block >= parts && block < p.row_blocks) {
    return;
  }
  cuda_find_places(p.plan, num_rows, &places);
  if (block == 0) {
    __syncthreads();
    zero_gaps(p.plan, num_rows, places);
  }
  if (block >= p.row_blocks) {
    cuda_wait();
    __syncthreads();
    write_ids(p, (int32_t *)places.at[VX_POINT_VOXEL_IDS], block - p.row_blocks);
  } else if (are_few) {
    gather_parts<few, by_chunks>(p, block, parts, num_rows, places.at, &lists.of_few, (float *)chunks);
  } else {
    gather_parts<many, by_chunks>(p, block, parts, num_rows, places.at, &lists.of_many, (float *)chunks);
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
  p.rows_known = run->clouds.count == 1 && !run->params->block_filter.enabled && run->rows_in_order == NULL;
  p.rows = run->rows;
  p.row_capacity = run->row_capacity;
  p.output_rows = run->output_rows;
  p.half_features = run->params->feature_dtype == VX_FLOAT16;
  p.fill_mean = run->params->fill == VX_FILL_MEAN;
  p.features = run->scattered == VX_VOXEL_FEATURES ? run->features : NULL;
  p.sample_rows = run->fps.rows;
  p.publish = publish_params_of(run, run->lane->sequence);
  p.plan = cuda_plan_of(run);
  return p;
}

template <int few, int many, bool by_chunks>
static enum vx_status launch(const struct cuda_run *run, struct gather_params p, bool publish, struct error *error) {
  size_t shared_bytes = by_chunks ? max(chunk_bytes<few>(p), chunk_bytes<many>(p)) : 0;
  p.id_blocks = run->rows == NULL ? 0 : cuda_looping_blocks(run, run->num_points, BLOCK, 4);
  int at_once = blocks_at_once(by_chunks, run->lane->device->description.compute_capability);
  p.row_blocks = p.rows_wanted ? cuda_looping_blocks(run, run->row_capacity, BLOCK / many, at_once) : 1;
  p.publish_blocks = publish;
  return cuda_launch("gather_kernel", gather_kernel<few, many, by_chunks>,
                     p.publish_blocks + p.row_blocks + p.id_blocks, BLOCK, shared_bytes, run, p, error);
}

enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct error *error) {
  const vx_tensor_set voxels = VX_TENSOR_BIT(VX_VOXELS),
                      large = VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  struct gather_params p = gather_params_of(run);
  bool small = (run->tensors & large) == 0 && !p.fill_mean;
  if ((run->tensors & (voxels | large)) == 0 || (small && p.cap <= 8)) {
    return launch<4, 8, false>(run, p, publish, error);
  }
  if (small && p.cap <= 16) {
    return launch<4, 16, false>(run, p, publish, error);
  }
  return p.columns <= WARP / 2 ? launch<WARP / 2, WARP, true>(run, p, publish, error)
                               : launch<WARP, WARP, true>(run, p, publish, error);
}

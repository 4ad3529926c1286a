// From rows to tensors, in an image of the output block. The device computes the layout.
//
// A row's threads sort the first points of its list into input order and write its part of the tensors. Other blocks
// write point_voxel_ids.
//
// The gaps between tensors are zeroed, because the image still holds another job's output.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/voxelize/short_lists.cuh"
#include "kernels/cuda/voxelize/tensor_offsets.cuh"
#include "kernels/cuda/voxelize/whole_voxels.cuh"

enum { BLOCK = LIST_BLOCK };

struct gather {
  bool rows_wanted;  // it writes something of each row
  bool order_here;   // it sorts the lists
  bool rows_known;   // number or choose made the rows, so they are known before the previous kernel ends
  uint32_t publish_blocks, row_blocks, id_blocks;  // in this order in the grid; publish_blocks: 0 or 1
  float *sample_rows;                              // [num_rows, columns]: means to sample, or NULL
};

// Blocks that a multiprocessor of this compute capability should run at once.
static constexpr int blocks_at_once(bool by_chunks, int capability) { return by_chunks || capability < 80 ? 4 : 5; }

#ifdef __CUDA_ARCH__
enum { CAPABILITY = __CUDA_ARCH__ / 10 };
#else
enum { CAPABILITY = 80 };  // for the compiler's pass over host code, which compiles no kernel
#endif

// Floats for a chunk of the widest points and for the mean that pads, in whole float4s.
template <int width> static __host__ __device__ uint32_t chunk_floats(const struct voxel_view &v) {
  return ((chunk_of<width>(v) + 1) * (v.columns + PILLAR_EXTRA) + 3) / 4 * 4;
}

template <int width> static size_t chunk_bytes(const struct voxel_view &v) {
  return BLOCK / width * (size_t)chunk_floats<width>(v) * sizeof(float);
}

static __device__ void write_ids(const struct voxel_view &v, int32_t *ids, uint32_t block, uint32_t id_blocks) {
  for (uint64_t point = (uint64_t)block * BLOCK + threadIdx.x; point < v.clouds.num_points;
       point += (uint64_t)id_blocks * BLOCK) {
    uint32_t row = v.rows[point];
    bool has_row = row != v.row_capacity;
    ids[point] = has_row ? (int32_t)(v.output_rows ? v.output_rows[row] : row) : -1;
  }
}

// Called by all threads of a row. Writes its coordinates, number of points and mean.
template <int width>
static __device__ void write_row(const struct voxel_view &v, float *sample_rows, unsigned char *const *offsets,
                                 const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % width;
  int4 *coords = (int4 *)offsets[VX_VOXEL_COORDS];
  int32_t *num_points = (int32_t *)offsets[VX_VOXEL_NUM_POINTS];
  unsigned char *features = v.features && !v.encoded ? v.features : offsets[VX_VOXEL_FEATURES];
  if (lane == 0 && coords) coords[row.output_row] = make_int4(row.cloud, row.cell[2], row.cell[1], row.cell[0]);
  if (lane == 0 && num_points) num_points[row.output_row] = (int32_t)row.kept;
  bool wanted = features || sample_rows;
  for (uint32_t column = lane; wanted && column < v.columns; column += width) {
    float value = v.means
                      ? known_mean(v, row, column)
                      : vx_canonical(sum_column<8>(v.points, v.columns, row.list, row.kept, column) / (float)row.kept);
    uint64_t at = (uint64_t)row.output_row * v.columns + column;
    if (sample_rows) sample_rows[at] = value;
    if (features) cuda_store(v.feature_dtype, features, at, value);
  }
}

// Called by all threads of a row. Writes its voxels, pillar_features and voxel_point_mask. Without `by_chunks`,
// writes voxels alone, with a cap of at most 16, padded with zeros.
template <int width, bool by_chunks>
static __device__ void write_whole_voxel(const struct voxel_view &v, unsigned char *const *offsets,
                                         const struct gathered_row &row, float *chunk) {
  float *voxels = (float *)offsets[VX_VOXELS];
  if constexpr (by_chunks) {
    if (voxels) write_voxel<width>(v, voxels, chunk, row);
    if (offsets[VX_PILLAR_FEATURES]) write_pillar<width>(v, offsets[VX_PILLAR_FEATURES], chunk, row);
    if (offsets[VX_VOXEL_POINT_MASK]) write_mask<width>(v, offsets[VX_VOXEL_POINT_MASK], row);
  } else if (voxels) {
    write_small_voxel<width>(v, voxels, row);
  }
}

// The row of this thread, or a row without points after the last row. Neighbouring rows have lists of similar length: a
// warp has neighbouring rows, for equal work of its threads, and the warps of a block have distant rows.
template <int width>
static __device__ struct gathered_row row_of_part(const struct voxel_view &v, uint32_t part, uint32_t parts,
                                                  uint32_t num_rows) {
  uint64_t first = (part + (uint64_t)(threadIdx.x / WARP) * parts) * (WARP / width);
  uint64_t output_row = first + threadIdx.x % WARP / width;
  struct gathered_row row = {};
  return part < parts && output_row < num_rows ? find_row(v, (uint32_t)output_row) : row;
}

// Called by a whole block. Finds its first rows before it waits for the lists.
template <int width, bool by_chunks>
static __device__ void gather_parts(const struct voxel_view &v, const struct gather &gather, uint32_t block,
                                    uint32_t parts, uint32_t num_rows, unsigned char *const *offsets,
                                    struct short_lists<width> *lists, float *chunks) {
  float *chunk = chunks + threadIdx.x / width * chunk_floats<width>(v);
  struct gathered_row row = row_of_part<width>(v, block, parts, num_rows);
  cuda_wait();
  __syncthreads();  // the offsets are known
  if (block == 0 && threadIdx.x == 0) v.counters->moments[CUDA_FOUND] = cuda_now();
  for (uint32_t part = block; part < parts;) {
    if (gather.order_here) {
      order_short_lists<width>(v, row.record, lists);
      row.list = lists->lists[threadIdx.x / width];
    }
    if (row.record.hits != 0) {
      write_row<width>(v, gather.sample_rows, offsets, row);
      write_whole_voxel<width, by_chunks>(v, offsets, row, chunk);
    }
    part += gather.row_blocks;
    row = row_of_part<width>(v, part, parts, num_rows);
  }
}

// Called by a whole block.
static __device__ void zero_gaps(const struct cuda_image_plan &plan, uint64_t num_rows,
                                 const struct tensor_offsets &offsets) {
  unsigned char *end = plan.memory;
  for (vx_tensor_set rest = plan.tensors; rest != 0; rest &= rest - 1) {
    int tensor = __ffsll((long long)rest) - 1;
    for (end += threadIdx.x; end < offsets.at[tensor]; end += BLOCK) *end = 0;
    end = offsets.at[tensor] + offsets.own_bytes[tensor] + offsets.row_bytes[tensor] * num_rows;
  }
}

// A row has `few` threads if cells have at most `few` points on average, else `many`.
template <int few, int many, bool by_chunks>
static __global__ void __launch_bounds__(BLOCK, blocks_at_once(by_chunks, CAPABILITY))
    gather_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan,
                  const __grid_constant__ struct gather gather) {
  __shared__ struct tensor_offsets offsets;
  __shared__ union {
    struct short_lists<few> of_few;
    struct short_lists<many> of_many;
  } lists;
  extern __shared__ float4 chunks[];  // chunk_floats per row, if large voxels are written
  if (blockIdx.x < gather.publish_blocks) {
    cuda_wait();
    publish(v, v.sequence);
    return;
  }
  cuda_read_plan(plan, &offsets);
  if (!gather.rows_known) cuda_wait();
  // num_inside, num_cells, num_rows, num_output_rows
  __shared__ uint4 sizes;
  if (threadIdx.x == 0) sizes = __ldcg((const uint4 *)&v.counters->num_inside);
  __syncthreads();
  uint32_t block = blockIdx.x - gather.publish_blocks, num_rows = sizes.w;
  bool are_few = few < many && sizes.x <= (uint64_t)few * sizes.y;
  uint64_t threads = gather.rows_wanted ? (uint64_t)num_rows * (are_few ? few : many) : 0;
  uint32_t parts = (uint32_t)((threads + BLOCK - 1) / BLOCK);
  if (block > 0 && block >= parts && block < gather.row_blocks) return;
  cuda_find_offsets(plan, num_rows, &offsets);
  if (block == 0) {
    __syncthreads();
    zero_gaps(plan, num_rows, offsets);
  }
  if (block >= gather.row_blocks) {
    cuda_wait();
    __syncthreads();
    write_ids(v, (int32_t *)offsets.at[VX_POINT_VOXEL_IDS], block - gather.row_blocks, gather.id_blocks);
  } else if (are_few) {
    gather_parts<few, by_chunks>(v, gather, block, parts, num_rows, offsets.at, &lists.of_few, (float *)chunks);
  } else {
    gather_parts<many, by_chunks>(v, gather, block, parts, num_rows, offsets.at, &lists.of_many, (float *)chunks);
  }
  __syncthreads();
  if (threadIdx.x == 0 && (gather.rows_wanted || gather.id_blocks > 0))
    atomicMax((unsigned long long *)&v.counters->moments[CUDA_GATHERED], cuda_now());
}

// ---- launches -------------------------------------------------------------------------------------------------------

static bool lists_wanted(const struct cuda_run *run) {
  return run->sampling || run->scattered == VX_VOXEL_FEATURES ||
         (run->tensors & VX_LIST_TENSORS & ~(VX_ENCODED_TENSORS | VX_TENSOR_BIT(VX_BEV_FEATURES))) != 0;
}

static struct gather gather_of(const struct cuda_run *run) {
  const vx_tensor_set of_rows = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS);
  struct gather gather = {};
  gather.rows_wanted = lists_wanted(run) || (run->tensors & (of_rows | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK))) != 0;
  gather.order_here = lists_wanted(run) && !run->whole_lists;
  gather.rows_known = run->clouds.count == 1 && !run->filtered && !run->rows_in_order;
  gather.sample_rows = run->fps.points;
  return gather;
}

template <int few, int many, bool by_chunks>
static enum vx_status launch(const struct cuda_run *run, bool publish, struct error *error) {
  struct gather gather = gather_of(run);
  size_t shared_bytes = by_chunks ? max(chunk_bytes<few>(*run), chunk_bytes<many>(*run)) : 0;
  gather.id_blocks = run->rows ? cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4) : 0;
  int at_once = blocks_at_once(by_chunks, run->lane->device->description.compute_capability);
  gather.row_blocks = gather.rows_wanted ? cuda_looping_blocks(run, run->row_capacity, BLOCK / many, at_once) : 1;
  gather.publish_blocks = publish;
  return cuda_launch("gather_kernel", gather_kernel<few, many, by_chunks>,
                     gather.publish_blocks + gather.row_blocks + gather.id_blocks, BLOCK, shared_bytes, run, error,
                     *run, run->plan, gather);
}

enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct error *error) {
  const vx_tensor_set voxels = VX_TENSOR_BIT(VX_VOXELS),
                      large = VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  bool small = (run->tensors & large) == 0 && !run->fill_mean;
  if ((run->tensors & (voxels | large)) == 0 || (small && run->cap <= 8))
    return launch<4, 8, false>(run, publish, error);
  if (small && run->cap <= 16) return launch<4, 16, false>(run, publish, error);
  return run->columns <= WARP / 2 ? launch<WARP / 2, WARP, true>(run, publish, error)
                                  : launch<WARP, WARP, true>(run, publish, error);
}

// The map bev_features of a voxelization. One kernel clears it, another writes the features of each row at its cell. It
// reads them from the tensor voxel_features (of encoded pillars: encoded_features) if that is requested, else from
// memory of the lane.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/clear.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/number.cuh"
#include "kernels/cuda/scatter/scatter.cuh"
#include "kernels/cuda/voxelize/rows.cuh"
#include "kernels/cuda/voxelize/tensor_offsets.cuh"

enum { BLOCK = 256 };

struct bev {
  const unsigned char *features;  // [num_rows, planes.channels]
  unsigned char *map;
};

// Called by a whole block. Waits for the previous kernel.
static __device__ struct bev find_bev(const struct voxel_view &v, const struct cuda_image_plan &plan) {
  __shared__ struct tensor_offsets offsets;
  cuda_read_plan(plan, &offsets);
  cuda_wait();
  cuda_find_offsets(plan, v.counters->num_output_rows, &offsets);
  __syncthreads();
  const unsigned char *tensor = offsets.at[v.encoded ? VX_ENCODED_FEATURES : VX_VOXEL_FEATURES];
  return {tensor ? tensor : v.features, offsets.at[VX_BEV_FEATURES]};
}

static __global__ void __launch_bounds__(BLOCK)
    clear_bev_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan) {
  struct bev bev = find_bev(v, plan);
  cuda_clear(bev.map, bev.map + plan.own_bytes[VX_BEV_FEATURES], (uint64_t)blockIdx.x * BLOCK + threadIdx.x,
             (uint64_t)gridDim.x * BLOCK);
}

// Called by a whole warp.
template <typename value>
static __device__ void write_row(const struct cuda_planes &planes, const struct bev &bev, uint64_t row,
                                 uint64_t place) {
  const value *from = (const value *)bev.features + row * planes.channels;
  value *to = (value *)bev.map + place;
  for (uint64_t channel = threadIdx.x % WARP; channel < planes.channels; channel += WARP)
    to[channel * planes.cells] = from[channel];
}

static __global__ void __launch_bounds__(BLOCK)
    write_bev_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan,
                     const __grid_constant__ struct cuda_planes planes) {
  struct bev bev = find_bev(v, plan);
  uint64_t first = ((uint64_t)blockIdx.x * BLOCK + threadIdx.x) / WARP, step = (uint64_t)gridDim.x * BLOCK / WARP;
  for (uint64_t number = first; number < v.counters->num_output_rows; number += step) {
    struct gathered_row row = find_row(v, (uint32_t)number);
    uint64_t place = cuda_place_of(planes, row.cloud, cell_of(v, row));
    cuda_with_bits(v.feature_dtype, [&](auto bits) { write_row<decltype(bits)>(planes, bev, number, place); });
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_SCATTERED], cuda_now());
}

enum vx_status cuda_write_bev(const struct cuda_run *run, struct error *error) {
  struct cuda_planes planes = {(uint64_t)cuda_sizes_of(run, 0).values, run->num_cells / (uint64_t)run->clouds.count};
  uint64_t parts = run->plan.own_bytes[VX_BEV_FEATURES] / sizeof(uint4);
  unsigned clear_blocks = cuda_looping_blocks(run, parts, 4 * BLOCK, 8);
  CUDA_TRY(cuda_launch("clear_bev_kernel", clear_bev_kernel, clear_blocks, BLOCK, 0, run, error, *run, run->plan));
  unsigned write_blocks = cuda_looping_blocks(run, (uint64_t)run->row_capacity * WARP, BLOCK, 8);
  return cuda_launch("write_bev_kernel", write_bev_kernel, write_blocks, BLOCK, 0, run, error, *run, run->plan, planes);
}

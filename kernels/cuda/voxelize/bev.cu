// The map bev_features of a voxelization: one kernel clears it, another writes the features of each row at its cell.
// They come from the tensor that has them, if that is wanted too, else from scratch.
#include "kernels/cuda/voxelize/bev.cuh"

#include "kernels/cuda/base/clear.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/scatter/planes.cuh"
#include "kernels/cuda/voxelize/places.cuh"
#include "kernels/cuda/voxelize/rows.cuh"

enum { BLOCK = 256 };

struct bev_params : row_params {
  struct cuda_image_plan plan;
  bool encoded, halves;
  const unsigned char *features;  // [row_capacity, planes.channels], if no tensor has them
  struct cuda_planes planes;
};

struct bev {
  const unsigned char *features;  // [num_rows, planes.channels]
  unsigned char *map;
};

// As a block: waits for the kernel ahead, then finds both.
static __device__ struct bev find_bev(const struct bev_params &p) {
  __shared__ struct image_places places;
  cuda_read_plan(p.plan, &places);
  cuda_wait();
  cuda_find_places(p.plan, p.tally->num_output_rows, &places);
  __syncthreads();
  const unsigned char *tensor = places.at[p.encoded ? VX_ENCODED_FEATURES : VX_VOXEL_FEATURES];
  return {tensor != NULL ? tensor : p.features, places.at[VX_BEV_FEATURES]};
}

static __global__ void __launch_bounds__(BLOCK) clear_bev_kernel(const __grid_constant__ struct bev_params p) {
  struct bev bev = find_bev(p);
  cuda_clear(bev.map, bev.map + p.plan.own_bytes[VX_BEV_FEATURES], (uint64_t)blockIdx.x * BLOCK + threadIdx.x,
             (uint64_t)gridDim.x * BLOCK);
}

// As a warp.
template <typename value>
static __device__ void write_row(const struct bev_params &p, const struct bev &bev, uint64_t row, uint64_t place) {
  const value *from = (const value *)bev.features + row * p.planes.channels;
  value *to = (value *)bev.map + place;
  for (uint64_t channel = threadIdx.x % WARP; channel < p.planes.channels; channel += WARP) {
    to[channel * p.planes.cells] = from[channel];
  }
}

static __global__ void __launch_bounds__(BLOCK) write_bev_kernel(const __grid_constant__ struct bev_params p) {
  struct bev bev = find_bev(p);
  uint64_t first = ((uint64_t)blockIdx.x * BLOCK + threadIdx.x) / WARP, step = (uint64_t)gridDim.x * BLOCK / WARP;
  for (uint64_t number = first; number < p.tally->num_output_rows; number += step) {
    struct gathered_row row = find_row(p, (uint32_t)number);
    uint64_t place = cuda_place_of(p.planes, row.cloud, cell_of(p, row));
    if (p.halves) {
      write_row<uint16_t>(p, bev, number, place);
    } else {
      write_row<uint32_t>(p, bev, number, place);
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_SCATTERED], cuda_now());
  }
}

enum vx_status cuda_write_bev(const struct cuda_run *run, struct error *error) {
  struct bev_params p = {};
  static_cast<struct row_params &>(p) = row_params_of(run);
  p.plan = cuda_plan_of(run);
  p.encoded = run->scattered == VX_ENCODED_FEATURES;
  p.halves = run->params->feature_dtype == VX_FLOAT16;
  p.features = run->features;
  p.planes = {(uint64_t)cuda_sizes_of(run, 0).values, run->num_cells / (uint64_t)run->clouds.count};
  unsigned clear_blocks = cuda_looping_blocks(run, p.plan.own_bytes[VX_BEV_FEATURES] / sizeof(uint4), 4 * BLOCK, 8);
  CUDA_TRY(cuda_launch("clear_bev_kernel", clear_bev_kernel, clear_blocks, BLOCK, 0, run, p, error));
  unsigned write_blocks = cuda_looping_blocks(run, (uint64_t)run->row_capacity * WARP, BLOCK, 8);
  return cuda_launch("write_bev_kernel", write_bev_kernel, write_blocks, BLOCK, 0, run, p, error);
}

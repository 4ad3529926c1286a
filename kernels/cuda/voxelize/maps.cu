// From the points in range to dense maps.
//
//   clear   Clears the maps, which are one stretch of the image.
//   raise   Thread i writes cell i into the maps of cells, and adds the number of points in the cell to its pillar.
//           Then it raises the values of the pillar of point i by atomicMax, as words that have the order of the
//           heights and intensities, or for bev_min_height the reverse order; 0 is below all words.
//   settle  Turns these words into the maps' values.
//
// No map depends on the order of the threads. Of equally high points of a pillar, the first counts as the highest.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/clear.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/tensor_offsets.cuh"
#include "kernels/half.h"

enum { BLOCK = 256 };
static_assert((VX_CELL_MAPS | VX_PILLAR_MAPS) == VX_TENSOR_BIT(VX_BEV_DENSITY + 1) - VX_TENSOR_BIT(VX_BEV_FEATURES + 1),
              "the maps are consecutive tensors, so they are one stretch of the image");
#define MAPS_OF_POINTS (VX_PILLAR_MAPS & ~VX_TENSOR_BIT(VX_BEV_DENSITY))

// NULL: not requested. Unsettled words are uint32_t.
struct maps {
  unsigned char *begin;  // of the first map
  unsigned char *occupancy;
  int32_t *counts;
  uint32_t *packed;
  uint32_t *max_height, *min_height, *max_intensity, *top_intensity, *density;
};

// Called by a whole block. Waits for the previous kernel.
static __device__ struct maps find_maps(const struct voxel_view &v, const struct cuda_image_plan &plan) {
  __shared__ struct tensor_offsets offsets;
  cuda_read_plan(plan, &offsets);
  cuda_wait();
  cuda_find_offsets(plan, v.counters->num_output_rows, &offsets);
  __syncthreads();
  unsigned char *const *at = offsets.at;
  return {at[__ffsll((long long)(plan.tensors & (VX_CELL_MAPS | VX_PILLAR_MAPS))) - 1],
          at[VX_OCCUPANCY],
          (int32_t *)at[VX_OCCUPANCY_COUNTS],
          (uint32_t *)at[VX_OCCUPANCY_PACKED],
          (uint32_t *)at[VX_BEV_MAX_HEIGHT],
          (uint32_t *)at[VX_BEV_MIN_HEIGHT],
          (uint32_t *)at[VX_BEV_MAX_INTENSITY],
          (uint32_t *)at[VX_BEV_TOP_INTENSITY],
          (uint32_t *)at[VX_BEV_DENSITY]};
}

static __device__ void note_end(const struct voxel_view &v) {
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_GATHERED], cuda_now());
}

// ---- clear ----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    clear_maps_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan,
                      uint64_t map_bytes) {
  struct maps maps = find_maps(v, plan);
  uint64_t thread = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, threads = (uint64_t)gridDim.x * BLOCK;
  cuda_clear(maps.begin, maps.begin + map_bytes, thread, threads);
  for (uint64_t i = thread; v.tops && i < v.num_pillars; i += threads) v.tops[i] = 0;
}

// ---- raise ----------------------------------------------------------------------------------------------------------

static __device__ uint64_t pillar_of(const struct voxel_view &v, int32_t cloud, const int32_t cell[3]) {
  return ((uint64_t)cloud * v.ny + cell[1]) * v.nx + cell[0];
}

static __device__ void write_cell(const struct voxel_view &v, const struct maps &maps, uint32_t number) {
  uint4 record = *(const uint4 *)&v.records[number];
  uint32_t first_point = record.x, hits = record.y;
  const float *point = v.points + (uint64_t)first_point * v.columns;
  int32_t cell[3], cloud = cuda_cloud_of_point(v.clouds, first_point);
  (void)vx_cell_of_point(&v.map, point[0], point[1], point[2], cell);
  uint64_t line = ((uint64_t)cloud * v.nz + cell[2]) * v.ny + cell[1], place = line * v.nx + cell[0];
  if (maps.occupancy) maps.occupancy[place] = 1;
  if (maps.counts) maps.counts[place] = (int32_t)hits;
  if (maps.packed) {
    uint64_t byte = line * ((v.nx + UINT64_C(7)) / 8) + cell[0] / 8;
    atomicOr(&maps.packed[byte / 4], 1u << (byte % 4 * 8 + cell[0] % 8));  // little-endian, like every host with CUDA
  }
  if (maps.density) atomicAdd(&maps.density[pillar_of(v, cloud, cell)], hits);
}

static __device__ void raise_pillar(const struct voxel_view &v, const struct maps &maps, uint32_t point) {
  const float *row = v.points + (uint64_t)point * v.columns;
  int32_t cell[3];
  if (!vx_cell_of_point(&v.map, row[0], row[1], row[2], cell)) return;
  uint64_t pillar = pillar_of(v, cuda_cloud_of_point(v.clouds, point), cell);
  uint32_t height = cuda_ordered(row[2] + 0.0f);
  if (maps.max_height) atomicMax(&maps.max_height[pillar], height);
  if (maps.min_height) atomicMax(&maps.min_height[pillar], ~height);
  if (maps.max_intensity && vx_is_finite(row[v.intensity]))
    atomicMax(&maps.max_intensity[pillar], cuda_ordered(row[v.intensity] + 0.0f));
  if (v.tops) atomicMax((unsigned long long *)&v.tops[pillar], (unsigned long long)height << 32 | ~point);
}

static __global__ void __launch_bounds__(BLOCK)
    raise_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan) {
  struct maps maps = find_maps(v, plan);
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < v.clouds.num_points) {
    if (i < v.counters->num_cells) write_cell(v, maps, i);
    if ((plan.tensors & MAPS_OF_POINTS) != 0) raise_pillar(v, maps, i);
  }
  note_end(v);
}

// ---- settle ---------------------------------------------------------------------------------------------------------

static __device__ void settle_height(uint32_t *heights, uint64_t pillar, uint32_t flip) {
  if (heights && heights[pillar] != 0) heights[pillar] = vx_float_bits(cuda_unordered(heights[pillar] ^ flip));
}

static __global__ void __launch_bounds__(BLOCK)
    settle_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan) {
  struct maps maps = find_maps(v, plan);
  uint64_t begin = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * BLOCK;
  for (uint64_t pillar = begin; pillar < v.num_pillars; pillar += step) {
    settle_height(maps.max_height, pillar, 0);
    settle_height(maps.min_height, pillar, ~0u);
    settle_height(maps.max_intensity, pillar, 0);
    if (v.tops && v.tops[pillar] != 0) {
      uint32_t point = ~(uint32_t)v.tops[pillar];
      maps.top_intensity[pillar] = ((const uint32_t *)v.points)[(uint64_t)point * v.columns + v.intensity];
    }
    if (maps.density && maps.density[pillar] != 0)
      maps.density[pillar] = vx_float_bits(vx_density((int32_t)maps.density[pillar]));
  }
  note_end(v);
}

// ---- launches -------------------------------------------------------------------------------------------------------

enum vx_status cuda_write_maps(const struct cuda_run *run, struct error *error) {
  struct vx_layout dense;
  struct vx_sizes sizes = cuda_sizes_of(run, 0);
  CUDA_TRY(vx_layout_of(run->tensors & (VX_CELL_MAPS | VX_PILLAR_MAPS), &sizes, &dense, error));
  uint64_t map_bytes = dense.bytes;
  unsigned clear_blocks = cuda_looping_blocks(run, map_bytes / sizeof(uint4), 4 * BLOCK, 8);
  CUDA_TRY(cuda_launch("clear_maps_kernel", clear_maps_kernel, clear_blocks, BLOCK, 0, run, error, *run, run->plan,
                       map_bytes));
  unsigned point_blocks = cuda_blocks(run->clouds.num_points, BLOCK);
  CUDA_TRY(cuda_launch("raise_kernel", raise_kernel, point_blocks, BLOCK, 0, run, error, *run, run->plan));
  if ((run->tensors & VX_PILLAR_MAPS) == 0) return VX_OK;
  unsigned blocks = cuda_looping_blocks(run, run->num_pillars, BLOCK, 8);
  return cuda_launch("settle_kernel", settle_kernel, blocks, BLOCK, 0, run, error, *run, run->plan);
}

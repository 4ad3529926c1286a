// The rows of the output as kernels read them: each row's points, mean and offsets.
#ifndef VOXELD_CUDA_ROWS_CUH
#define VOXELD_CUDA_ROWS_CUH

#include "kernels/cuda/base/run.cuh"
#include "kernels/half.h"

enum { WARP = 32, PILLAR_EXTRA = VX_PILLAR_EXTRA };

struct gathered_row {
  uint32_t number, output_row, kept;
  int32_t cloud, cell[3];
  struct cuda_record record;
  const uint32_t *list;  // its points; once sorted, the kept points come first, in order
};

// Does not read the row's list, which may not be sorted yet.
static __device__ struct gathered_row find_row(const struct voxel_view &v, uint32_t output_row) {
  struct gathered_row row;
  uint32_t number = v.rows_in_order ? v.rows_in_order[output_row] : output_row;
  row.number = number;
  row.output_row = output_row;
  row.cloud = cuda_cloud_of_row(v.clouds, number);
  row.record = cuda_record_of_row(v.clouds, v.records, row.cloud, number);
  row.kept = min(row.record.hits, v.cap);
  row.list = v.lists + row.record.begin;
  const float *point = v.points + (uint64_t)row.record.first_point * v.columns;
  (void)vx_cell_of_point(&v.map, __ldcg(point), __ldcg(point + 1), __ldcg(point + 2), row.cell);
  return row;
}

// The number of the row's cell in the grid of its cloud.
static __device__ uint64_t cell_of(const struct voxel_view &v, const struct gathered_row &row) {
  return ((uint64_t)row.cell[2] * v.ny + row.cell[1]) * v.nx + row.cell[0];
}

// ---- chunks of points in shared memory, `stride` floats each --------------------------------------------------------
//
// A row has `width` neighbouring threads: a warp, or fewer threads if a row has at most `width` columns.

// The threads of the warp that have this thread's row.
template <int width> static __device__ uint32_t row_mask() {
  return width == WARP ? ~0u : ((1u << width % WARP) - 1) << threadIdx.x % WARP / width * width;
}

template <int width> static __host__ __device__ uint32_t chunk_of(const struct voxel_view &v) {
  return width == WARP ? v.chunk : width;
}

// Called by all threads of a row. Copies `count` listed points, at most one chunk.
template <int width>
static __device__ void load_chunk(const struct voxel_view &v, float *chunk, uint32_t stride, const uint32_t *list,
                                  uint32_t count) {
  uint32_t lane = threadIdx.x % width, mask = row_mask<width>(), columns = v.columns;
  uint32_t mine = lane < count ? list[lane] : 0;
  __syncwarp(mask);
  if (columns == 4) {
    if (lane < count) {
      float4 point = ((const float4 *)v.points)[mine];
      float *to = chunk + lane * stride;
      if (stride % 4 == 0)
        *(float4 *)to = point;
      else
        to[0] = point.x, to[1] = point.y, to[2] = point.z, to[3] = point.w;
    }
    __syncwarp(mask);
    return;
  }
  uint32_t k = lane / columns, c = lane % columns;
  for (uint32_t begin = 0; begin < count * columns; begin += width) {
    uint32_t point = __shfl_sync(mask, mine, k % width, width);
    if (begin + lane < count * columns) chunk[k * stride + c] = v.points[(uint64_t)point * columns + c];
    c += width % columns;
    k += width / columns;
    if (c >= columns) {
      c -= columns;
      k++;
    }
  }
  __syncwarp(mask);
}

// v.means must not be NULL.
static __device__ float known_mean(const struct voxel_view &v, const struct gathered_row &row, uint32_t column) {
  return v.means[(uint64_t)row.number * v.columns + column];
}

// The means of a thread's columns: columns l and l + 32 for thread l of a warp; with fewer threads, one column each.
template <int width> struct means_of_thread {
  enum { SLOTS = width == WARP ? VX_MAX_FEATURES / WARP : 1 };
  float of[SLOTS];
};

// Called by all threads of a row. Computes the means of the first `columns` columns. The last chunk stays in shared
// memory.
template <int width>
static __device__ struct means_of_thread<width> find_mean(const struct voxel_view &v, float *chunk, uint32_t stride,
                                                          const struct gathered_row &row, uint32_t columns) {
  struct means_of_thread<width> mean = {};
  uint32_t lane = threadIdx.x % width;
  for (uint32_t begin = 0; begin < row.kept; begin += chunk_of<width>(v)) {
    uint32_t count = min(row.kept - begin, chunk_of<width>(v));
    load_chunk<width>(v, chunk, stride, row.list + begin, count);
#pragma unroll
    for (int slot = 0; slot < mean.SLOTS; slot++) {
      uint32_t column = lane + slot * width;
      if (column < columns) {
        float sum = begin == 0 ? chunk[column] : mean.of[slot] + chunk[column];
#pragma unroll 4
        for (uint32_t k = 1; k < count; k++) sum += chunk[k * stride + column];
        mean.of[slot] = sum;
      }
    }
  }
#pragma unroll
  for (int slot = 0; slot < mean.SLOTS; slot++)
    if (slot * width < columns) mean.of[slot] = vx_canonical(mean.of[slot] / (float)row.kept);
  return mean;
}

// ---- pillars --------------------------------------------------------------------------------------------------------

struct pillar {
  float mean[3], centre[3];
};

// Called by all threads of a row. Without v.means, the last chunk of the row's points is in shared memory afterwards.
template <int width>
static __device__ struct pillar find_pillar(const struct voxel_view &v, float *chunk, uint32_t stride,
                                            const struct gathered_row &row) {
  struct pillar pillar;
  struct means_of_thread<width> mean = {};
  if (!v.means) mean = find_mean<width>(v, chunk, stride, row, 3);
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    pillar.mean[axis] = v.means ? known_mean(v, row, axis) : __shfl_sync(row_mask<width>(), mean.of[0], axis, width);
    pillar.centre[axis] = vx_cell_centre(&v.map, axis, row.cell[axis]);
  }
  return pillar;
}

// Called by all threads of a row. Writes the offsets of each point of a chunk after its columns.
template <int width>
static __device__ void add_offsets(const struct voxel_view &v, float *chunk, uint32_t stride, uint32_t count,
                                   const struct pillar &pillar) {
  uint32_t lane = threadIdx.x % width;
  if (lane < count) {
    float *point = chunk + lane * stride;
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
      point[v.columns + axis] = vx_canonical(point[axis] - pillar.mean[axis]);
      point[v.columns + 3 + axis] = vx_canonical(point[axis] - pillar.centre[axis]);
    }
  }
  __syncwarp(row_mask<width>());
}

#endif

// The parameters of the gather, and the writing of whole voxels: `voxels`, `pillar_features`, `voxel_point_mask`.
#ifndef VOXELD_CUDA_WHOLE_VOXELS_CUH
#define VOXELD_CUDA_WHOLE_VOXELS_CUH

#include <cuda_fp16.h>

#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/scatter/planes.cuh"
#include "kernels/cuda/voxelize/places.cuh"
#include "kernels/cuda/voxelize/sort.cuh"
#include "kernels/half.h"

enum { WARP = 32, PILLAR_EXTRA = 6, SUM_SLOTS = VX_MAX_FEATURES / WARP };

struct gather_params {
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  struct cuda_clouds clouds;
  const struct cuda_record *records;
  const uint32_t *lists;
  bool order_here;                                 // the gather puts the lists in order
  uint32_t publish_blocks, row_blocks, id_blocks;  // in this order; the first, if any, tells the host the sizes
  const uint32_t *rows;                            // [num_points]
  uint32_t row_capacity;
  const uint32_t *output_rows;    // or NULL: each row is its own output row
  const uint32_t *rows_in_order;  // or NULL
  const float *means;             // [row_capacity, columns], or NULL: not yet known
  bool half_features, fill_mean;
  uint32_t kept_cap;  // 0xFFFFFFFF if there is no cap
  uint32_t cap;       // of the tensors' second dimension
  uint32_t chunk;     // points of a row that a warp holds at once
  struct image_plan plan;
  struct cuda_planes planes;  // of bev_features
  uint32_t nx, ny;            // cells of the grid
  float *sample_rows;         // [num_rows, columns]: means to be sampled, or NULL
  struct cuda_tally *tally;
  struct publish_params publish;
};

// The tensors in the image; those that are not asked for are NULL.
struct places {
  int4 *coords;         // [num_rows]
  int32_t *num_points;  // [num_rows]
  float *voxels;        // [num_rows, cap, columns]
  void *features;       // [num_rows, columns]
  void *pillars;        // [num_rows, cap, columns + 6]
  int32_t *ids;         // [num_points]
  unsigned char *mask;  // [num_rows, cap]
  void *map;            // bev_features
};

// A row about to be written.
struct gathered_row {
  uint32_t output_row, kept;
  int32_t cell[3];
  const uint32_t *list;  // of its points, in order
};

static __device__ uint16_t half_bits(float value) {
  return value == value ? __half_as_ushort(__float2half_rn(value)) : (uint16_t)VX_HALF_NAN;
}

// --- chunks of points in shared memory, `stride` floats each ---

// As a warp: copies `count` listed points, at most a chunk.
static __device__ void load_chunk(const struct gather_params &p, float *chunk, uint32_t stride, const uint32_t *list,
                                  uint32_t count) {
  uint32_t lane = threadIdx.x % WARP, columns = p.columns;
  uint32_t mine = lane < count ? list[lane] : 0;
  __syncwarp();
  if (columns == 4) {
    if (lane < count) {
      float4 point = ((const float4 *)p.points)[mine];
      float *to = chunk + lane * stride;
      to[0] = point.x, to[1] = point.y, to[2] = point.z, to[3] = point.w;
    }
    __syncwarp();
    return;
  }
  uint32_t k = lane / columns, c = lane % columns;
  for (uint32_t begin = 0; begin < count * columns; begin += WARP) {
    uint32_t point = __shfl_sync(~0u, mine, k % WARP);
    if (begin + lane < count * columns) {
      chunk[k * stride + c] = p.points[(uint64_t)point * columns + c];
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

// As a warp: the mean of up to 64 columns. Lane l has columns l and l + 32. The last chunk stays in shared memory.
static __device__ void find_mean(const struct gather_params &p, float *chunk, uint32_t stride,
                                 const struct gathered_row &row, uint32_t columns, float mean[SUM_SLOTS]) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint32_t begin = 0; begin < row.kept; begin += p.chunk) {
    uint32_t count = min(row.kept - begin, p.chunk);
    load_chunk(p, chunk, stride, row.list + begin, count);
#pragma unroll
    for (int slot = 0; slot < SUM_SLOTS; slot++) {
      uint32_t column = lane + slot * WARP;
      if (column < columns) {
        float sum = begin == 0 ? chunk[column] : mean[slot] + chunk[column];
#pragma unroll 4
        for (uint32_t k = 1; k < count; k++) {
          sum += chunk[k * stride + column];
        }
        mean[slot] = sum;
      }
    }
  }
#pragma unroll
  for (int slot = 0; slot < SUM_SLOTS; slot++) {
    mean[slot] = vx_canonical(mean[slot] / (float)row.kept);
  }
}

// --- whole voxels ---

static __device__ void store_items(float *to, const float (&values)[4]) {
  *(float4 *)to = make_float4(values[0], values[1], values[2], values[3]);
}

static __device__ void store_items(uint16_t *to, const float (&values)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    words[i] = half_bits(values[2 * i]) | (uint32_t)half_bits(values[2 * i + 1]) << 16;
  }
  *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
}

static __device__ void store_item(float *to, float value) { *to = value; }
static __device__ void store_item(uint16_t *to, float value) { *to = half_bits(value); }

// As a warp: writes `count` items. The first `used` come from a chunk, the rest are zero. Writes 16 bytes at a time if
// all chunks begin and end at multiples of 16 bytes.
template <typename unit>
static __device__ void write_items(unit *to, uint32_t count, const float *chunk, uint32_t used) {
  constexpr uint32_t items = 16 / sizeof(unit);
  uint32_t lane = threadIdx.x % WARP;
  if (((uintptr_t)to | (uintptr_t)(count * sizeof(unit))) % 16 != 0) {
    for (uint32_t i = lane; i < count; i += WARP) {
      store_item(to + i, i < used ? chunk[i] : 0.0f);
    }
    return;
  }
  uint32_t i = lane * items;
  for (; i < used; i += WARP * items) {
    float values[items];
#pragma unroll
    for (uint32_t n = 0; n < items; n++) {
      values[n] = i + n < used ? chunk[i + n] : 0.0f;
    }
    store_items(to + i, values);
  }
  for (; i < count; i += WARP * items) {
    *(uint4 *)(to + i) = make_uint4(0, 0, 0, 0);
  }
}

// As a warp. `chunk` has room for a chunk and one row more, for the mean that pads.
static __device__ void write_voxel(const struct gather_params &p, float *voxels, float *chunk,
                                   const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % WARP, kept = row.kept, columns = p.columns;
  bool padded = p.fill_mean && kept < p.cap;
  float mean[SUM_SLOTS] = {0.0f, 0.0f}, *padding = chunk + p.chunk * columns;
  if (padded) {
    find_mean(p, chunk, columns, row, columns, mean);
  }
  for (uint32_t column = lane, slot = 0; padded && column < columns; column += WARP, slot++) {
    padding[column] = slot == 0 ? mean[0] : mean[1];
  }
  for (uint32_t begin = 0; begin < p.cap; begin += p.chunk) {
    uint32_t length = min(p.cap - begin, p.chunk), count = begin < kept ? min(kept - begin, p.chunk) : 0;
    if (begin < kept) {
      load_chunk(p, chunk, columns, row.list + begin, count);
    }
    for (uint32_t i = count * columns + lane; padded && i < length * columns; i += WARP) {
      chunk[i] = padding[i % columns];
    }
    __syncwarp();
    write_items(voxels + ((uint64_t)row.output_row * p.cap + begin) * columns, length * columns, chunk,
                (padded ? length : count) * columns);
    __syncwarp();
  }
}

// Writes the offsets of a chunk's points behind their columns, one point per thread.
static __device__ void add_offsets(const struct gather_params &p, float *chunk, uint32_t count, const float mean[3],
                                   const float centre[3]) {
  uint32_t lane = threadIdx.x % WARP;
  if (lane < count) {
    float *point = chunk + lane * (p.columns + PILLAR_EXTRA);
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
      point[p.columns + axis] = vx_canonical(point[axis] - mean[axis]);
      point[p.columns + 3 + axis] = vx_canonical(point[axis] - centre[axis]);
    }
  }
  __syncwarp();
}

static __device__ void write_pillar(const struct gather_params &p, void *pillars, float *chunk,
                                    const struct gathered_row &row) {
  uint32_t kept = row.kept, width = p.columns + PILLAR_EXTRA;
  float mean[SUM_SLOTS] = {0.0f, 0.0f}, means[3], centre[3];
  find_mean(p, chunk, width, row, 3, mean);
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    means[axis] = __shfl_sync(~0u, mean[0], axis);
    centre[axis] = vx_cell_centre(&p.map, axis, row.cell[axis]);
  }
  for (uint32_t begin = 0; begin < p.cap; begin += p.chunk) {
    uint32_t length = min(p.cap - begin, p.chunk), count = begin < kept ? min(kept - begin, p.chunk) : 0;
    if (kept > p.chunk && begin < kept) {
      load_chunk(p, chunk, width, row.list + begin, count);
    }
    add_offsets(p, chunk, count, means, centre);
    uint64_t at = ((uint64_t)row.output_row * p.cap + begin) * width;
    if (p.half_features) {
      write_items((uint16_t *)pillars + at, length * width, chunk, count * width);
    } else {
      write_items((float *)pillars + at, length * width, chunk, count * width);
    }
    __syncwarp();
  }
}

static __device__ void write_mask(const struct gather_params &p, unsigned char *mask, const struct gathered_row &row) {
  for (uint32_t k = threadIdx.x % WARP; k < p.cap; k += WARP) {
    mask[(uint64_t)row.output_row * p.cap + k] = k < row.kept;
  }
}

#endif

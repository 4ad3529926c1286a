// What the gather is given, and the writing of whole voxels: `voxels`, `pillar_features`, `voxel_point_mask`.
#ifndef VOXELD_CUDA_GATHER_CUH
#define VOXELD_CUDA_GATHER_CUH

#include <cuda_fp16.h>

#include "kernels/cuda/sort.cuh"
#include "kernels/half.h"

enum { WARP = 32, PILLAR_EXTRA = 6, SUM_SLOTS = VX_MAX_FEATURES / WARP };

struct gather_params {
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  uint32_t columns;
  struct cuda_clouds clouds;
  const struct cuda_record *records;
  const uint32_t *lists;
  bool order_here;       // the lists are not in order yet
  uint32_t row_blocks;   // those of points follow
  const uint32_t *rows;  // [num_points]
  uint32_t row_capacity;
  const uint32_t *output_rows;    // or NULL: each row is its own output row
  const uint32_t *rows_in_order;  // or NULL
  const float *means;             // [row_capacity, columns], or NULL: not yet known
  bool half_features, fill_mean;
  uint32_t kept_cap;  // 0xFFFFFFFF if there is no cap
  uint32_t cap;       // of the tensors' second dimension
  uint32_t chunk;     // points of a row that a warp holds at once
  uint32_t tensors;
  uint64_t ids_bytes, row_bytes[VX_TENSOR_COUNT];
  unsigned char *image;
  struct cuda_tally *tally;
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

// --- chunks ---

// Copies `count` listed points (a chunk at most) into shared memory, as a warp.
static __device__ void load_chunk(const struct gather_params &p, float *chunk, const uint32_t *list, uint32_t count) {
  uint32_t lane = threadIdx.x % WARP, columns = p.columns;
  uint32_t mine = lane < count ? list[lane] : 0;
  __syncwarp();
  if (columns == 4) {
    if (lane < count) {
      ((float4 *)chunk)[lane] = ((const float4 *)p.points)[mine];
    }
    __syncwarp();
    return;
  }
  uint32_t k = lane / columns, c = lane % columns;
  for (uint32_t begin = 0; begin < count * columns; begin += WARP) {
    uint32_t point = __shfl_sync(~0u, mine, k % WARP);
    if (begin + lane < count * columns) {
      chunk[begin + lane] = p.points[(uint64_t)point * columns + c];
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

// The mean of up to 64 columns: lane l has columns l and l + 32. The last chunk stays in shared memory.
static __device__ void find_mean(const struct gather_params &p, float *chunk, const struct gathered_row &row,
                                 uint32_t columns, float mean[SUM_SLOTS]) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint32_t begin = 0; begin < row.kept; begin += p.chunk) {
    uint32_t count = min(row.kept - begin, p.chunk);
    load_chunk(p, chunk, row.list + begin, count);
#pragma unroll
    for (int slot = 0; slot < SUM_SLOTS; slot++) {
      uint32_t column = lane + slot * WARP;
      if (column < columns) {
        float sum = begin == 0 ? chunk[column] : mean[slot] + chunk[column];
#pragma unroll 8
        for (uint32_t k = 1; k < count; k++) {
          sum += chunk[k * p.columns + column];
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

// --- values of a chunk, by point and column ---

struct voxel_values {
  const float *chunk, *padding;  // padding: [columns], or NULL for zeros
  uint32_t columns, count;       // points of the chunk
  __device__ float at(uint32_t k, uint32_t c) const {
    return k < count ? chunk[k * columns + c] : padding != NULL ? padding[c] : 0.0f;
  }
};

struct pillar_values {
  const float *chunk;
  uint32_t columns, count;
  float mean[3], centre[3];
  __device__ float at(uint32_t k, uint32_t c) const {
    if (k >= count) {
      return 0.0f;
    }
    if (c < columns) {
      return chunk[k * columns + c];
    }
    uint32_t extra = c - columns, axis = extra % 3;
    float from_mean = axis == 0 ? mean[0] : axis == 1 ? mean[1] : mean[2];
    float from_centre = axis == 0 ? centre[0] : axis == 1 ? centre[1] : centre[2];
    return vx_canonical(chunk[k * columns + axis] - (extra < 3 ? from_mean : from_centre));
  }
};

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

// As a warp: writes `count` items, rows of `width`, 16 bytes at a time where all rows begin and end at such.
template <typename unit, typename values>
static __device__ void write_items(unit *to, uint32_t count, uint32_t width, const values &from) {
  constexpr uint32_t items = 16 / sizeof(unit);
  uint32_t each = ((uintptr_t)to | (uintptr_t)(count * sizeof(unit))) % 16 == 0 ? items : 1;
  uint32_t i = threadIdx.x % WARP * each, step = WARP * each, k = i / width, c = i % width;
  uint32_t k_step = step / width, c_step = step % width;
  for (; i < count; i += step) {
    if (each == 1) {
      store_item(to + i, from.at(k, c));
    } else {
      float item[items];
      uint32_t row = k, column = c;
#pragma unroll
      for (uint32_t n = 0; n < items; n++) {
        item[n] = from.at(row, column);
        bool end = ++column == width;
        row += end;
        column = end ? 0 : column;
      }
      store_items(to + i, item);
    }
    c += c_step;
    k += k_step;
    if (c >= width) {
      c -= width;
      k++;
    }
  }
}

// --- whole voxels ---

// As a warp. `chunk` has room for a chunk and one row, for the mean that pads.
static __device__ void write_voxel(const struct gather_params &p, const struct places &places, float *chunk,
                                   const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % WARP, kept = row.kept, width = p.columns + PILLAR_EXTRA;
  bool padded_mean = places.voxels != NULL && p.fill_mean && kept < p.cap;
  float mean[SUM_SLOTS] = {0.0f, 0.0f}, *padding = chunk + p.chunk * p.columns;
  if (places.pillars != NULL || padded_mean) {
    find_mean(p, chunk, row, padded_mean ? p.columns : 3, mean);
  }
  for (uint32_t column = lane, slot = 0; padded_mean && column < p.columns; column += WARP, slot++) {
    padding[column] = slot == 0 ? mean[0] : mean[1];
  }
  struct voxel_values voxel = {chunk, padded_mean ? padding : NULL, p.columns, 0};
  struct pillar_values pillar = {chunk, p.columns, 0, {}, {}};
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    pillar.mean[axis] = __shfl_sync(~0u, mean[0], axis);
    pillar.centre[axis] = vx_cell_centre(&p.map, axis, row.cell[axis]);
  }
  bool loaded = (places.pillars != NULL || padded_mean) && kept <= p.chunk;
  for (uint32_t begin = 0; begin < p.cap; begin += p.chunk) {
    uint32_t length = min(p.cap - begin, p.chunk);
    voxel.count = pillar.count = begin < kept ? min(kept - begin, p.chunk) : 0;
    if (!loaded && begin < kept) {
      load_chunk(p, chunk, row.list + begin, voxel.count);
    }
    __syncwarp();
    uint64_t at = (uint64_t)row.output_row * p.cap + begin;
    if (places.voxels != NULL) {
      write_items(places.voxels + at * p.columns, length * p.columns, p.columns, voxel);
    }
    if (places.pillars != NULL && p.half_features) {
      write_items((uint16_t *)places.pillars + at * width, length * width, width, pillar);
    } else if (places.pillars != NULL) {
      write_items((float *)places.pillars + at * width, length * width, width, pillar);
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

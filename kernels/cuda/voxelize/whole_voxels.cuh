// Writes `voxels`, `pillar_features` and `voxel_point_mask`, which have a place for each point of a voxel.
#ifndef VOXELD_CUDA_WHOLE_VOXELS_CUH
#define VOXELD_CUDA_WHOLE_VOXELS_CUH

#include "kernels/cuda/base/number.cuh"
#include "kernels/cuda/voxelize/rows.cuh"

// Called by all threads of a row. Writes `count` items: the first `used` from `chunk`, then zeros. Writes 16 bytes at a
// time if the items begin and end at multiples of 16 bytes.
template <int width, typename number>
static __device__ void write_items(typename number::stored *to, uint32_t count, const float *chunk, uint32_t used) {
  constexpr uint32_t items = number::PER_PART;
  uint32_t lane = threadIdx.x % width;
  if (((uintptr_t)to | (uintptr_t)(count * sizeof *to)) % 16 != 0) {
    for (uint32_t i = lane; i < count; i += width) to[i] = number::store(i < used ? chunk[i] : 0.0f);
    return;
  }
  uint32_t i = lane * items;
  for (; i < used; i += width * items) {
    float values[items];
#pragma unroll
    for (uint32_t n = 0; n < items; n++) values[n] = i + n < used ? chunk[i + n] : 0.0f;
    *(uint4 *)(to + i) = number::pack(values);
  }
  for (; i < count; i += width * items) *(uint4 *)(to + i) = make_uint4(0, 0, 0, 0);
}

// Called by all threads of a row. Writes a voxel, padded with zeros.
template <int width>
static __device__ void write_small_voxel(const struct voxel_view &v, float *voxels, const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % width, columns = v.columns;
  float *to = voxels + (uint64_t)row.output_row * v.cap * columns;
  if (columns == 4) {
    float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint32_t k = lane; k < v.cap; k += width)
      ((float4 *)to)[k] = k < row.kept ? ((const float4 *)v.points)[row.list[k]] : none;
    return;
  }
  for (uint32_t i = lane; i < v.cap * columns; i += width) {
    uint32_t k = i / columns;
    to[i] = k < row.kept ? v.points[(uint64_t)row.list[k] * columns + (i - k * columns)] : 0.0f;
  }
}

// Called by all threads of a row. `chunk` has room for a chunk and, if v.fill_mean, for the mean that pads voxels.
template <int width>
static __device__ void write_voxel(const struct voxel_view &v, float *voxels, float *chunk,
                                   const struct gathered_row &row) {
  uint32_t lane = threadIdx.x % width, mask = row_mask<width>(), kept = row.kept, columns = v.columns;
  uint32_t most = chunk_of<width>(v);
  bool padded = v.fill_mean && kept < v.cap;
  float *padding = chunk + most * columns;
  if (padded) {
    struct means_of_thread<width> mean = find_mean<width>(v, chunk, columns, row, columns);
#pragma unroll
    for (int slot = 0; slot < mean.SLOTS; slot++)
      if (lane + slot * width < columns) padding[lane + slot * width] = mean.of[slot];
  }
  for (uint32_t begin = 0; begin < v.cap; begin += most) {
    uint32_t length = min(v.cap - begin, most), count = begin < kept ? min(kept - begin, most) : 0;
    if (begin < kept) load_chunk<width>(v, chunk, columns, row.list + begin, count);
    for (uint32_t i = count * columns + lane; padded && i < length * columns; i += width)
      chunk[i] = padding[i % columns];
    __syncwarp(mask);
    write_items<width, cuda_float32>(voxels + ((uint64_t)row.output_row * v.cap + begin) * columns, length * columns,
                                     chunk, (padded ? length : count) * columns);
    __syncwarp(mask);
  }
}

template <int width>
static __device__ void write_pillar(const struct voxel_view &v, void *pillars, float *chunk,
                                    const struct gathered_row &row) {
  uint32_t kept = row.kept, stride = v.columns + PILLAR_EXTRA, most = chunk_of<width>(v);
  struct pillar pillar = find_pillar<width>(v, chunk, stride, row);
  for (uint32_t begin = 0; begin < v.cap; begin += most) {
    uint32_t length = min(v.cap - begin, most), count = begin < kept ? min(kept - begin, most) : 0;
    if (kept > most && begin < kept) load_chunk<width>(v, chunk, stride, row.list + begin, count);
    add_offsets<width>(v, chunk, stride, count, pillar);
    uint64_t at = ((uint64_t)row.output_row * v.cap + begin) * stride;
    cuda_with_float(v.feature_dtype, [&](auto number) {
      typedef decltype(number) type;
      write_items<width, type>((typename type::stored *)pillars + at, length * stride, chunk, count * stride);
    });
    __syncwarp(row_mask<width>());
  }
}

template <int width>
static __device__ void write_mask(const struct voxel_view &v, unsigned char *mask, const struct gathered_row &row) {
  for (uint32_t k = threadIdx.x % width; k < v.cap; k += width)
    mask[(uint64_t)row.output_row * v.cap + k] = k < row.kept;
}

#endif

// The clouds of a batch and their cells, as kernels see them.
#ifndef VOXELD_CUDA_CLOUDS_CUH
#define VOXELD_CUDA_CLOUDS_CUH

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// For one cloud all arrays are NULL.
struct cuda_clouds {
  int32_t count;
  uint32_t num_points;
  uint32_t max_rows;            // of one cloud: max_voxels
  const uint32_t *first_point;  // [count + 1]
  uint32_t *first_cell;         // [count]; undefined for empty clouds at the end
  uint32_t *first_row;          // [count]
};

// A slot of the table of cells. All bits are set while the cell has no point.
struct __align__(8) cuda_cell {
  uint32_t first;  // first point of the cell, later the cell's number
  uint32_t hits;   // points of the cell minus 1; later where its part of the list begins
};
static_assert(sizeof(struct cuda_cell) == 8 && offsetof(struct cuda_cell, hits) == 4,
              "cuda_count_hits takes both in one atomic operation, with the hits as the upper half");

// A cell, by its number. Its points are lists[begin .. begin + hits).
struct __align__(16) cuda_record {
  uint32_t first_point, hits, begin, slot;
};

// The last cell that max_voxels keeps in a cloud. `digits`: the highest digits of its rank, as far as they are known.
// `left`: how many of the cells with these digits are kept.
struct cuda_last_cell {
  uint32_t digits, left;
};

// The index of the last of `count` ascending items that is <= value. The first item must be <= value.
__device__ static inline int32_t cuda_last_at_most(const uint32_t *items, int32_t count, uint32_t value) {
  int32_t low = 0, high = count;
  while (high - low > 1) {
    int32_t middle = (low + high) / 2;
    if (items[middle] <= value)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ static inline int32_t cuda_cloud_of_point(const struct cuda_clouds &clouds, uint32_t point) {
  return clouds.count == 1 ? 0 : cuda_last_at_most(clouds.first_point, clouds.count, point);
}

__device__ static inline bool cuda_begins_cloud(const struct cuda_clouds &clouds, uint32_t point) {
  return clouds.count == 1 ? point == 0 : clouds.first_point[cuda_cloud_of_point(clouds, point)] == point;
}

__device__ static inline int32_t cuda_cloud_of_row(const struct cuda_clouds &clouds, uint32_t row) {
  return clouds.count == 1 ? 0 : cuda_last_at_most(clouds.first_row, clouds.count, row);
}

// The row of one of the cloud's cells; `none` if max_voxels drops it.
__device__ static inline uint32_t cuda_row_of_cell(const struct cuda_clouds &clouds, int32_t cloud, uint32_t number,
                                                   uint32_t none) {
  uint32_t within = clouds.count == 1 ? number : number - clouds.first_cell[cloud];
  return within >= clouds.max_rows ? none : clouds.count == 1 ? within : clouds.first_row[cloud] + within;
}

__device__ static inline struct cuda_record
cuda_record_of_row(const struct cuda_clouds &clouds, const struct cuda_record *records, int32_t cloud, uint32_t row) {
  uint64_t number = clouds.count == 1 ? row : clouds.first_cell[cloud] + (row - clouds.first_row[cloud]);
  uint4 bits = __ldcg((const uint4 *)&records[number]);  // gather_kernel reads this before its own wait
  return {bits.x, bits.y, bits.z, bits.w};
}

#endif

// One voxelize job on its way through the stages of the CUDA backend, and the stages themselves.
//
// A job's points get a slot of the hash table and a place among the points of their cell each (insert), its cells a
// number by first appearance and a part of the list (number), its points a row (assign); the lists are put in input
// order (lists); then rows may be taken out (filter) and reordered (order); then the tensors are written into an
// image of the whole output block (gather), which one copy brings to the host.
//
// Numbers: a *cell number* counts the distinct cells of all clouds by first appearance; a *row* counts those that
// max_voxels lets in, in the same order; an *output row* is a row after block filter and ordering. Without several
// clouds, filter or ordering the three are the same and the arrays between them are NULL.
//
// All kernels of a job run in the lane's stream, each with one params struct; pointers are to device memory unless
// they say host. Integers that count points are 32 bits wide (VX_MAX_POINTS), sizes and offsets 64.
#ifndef VOXELD_CUDA_RUN_CUH
#define VOXELD_CUDA_RUN_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/check.cuh"
#include "kernels/grid.h"
#include "kernels/kernels.h"

#define CUDA_NO_SLOT 0xFFFFFFFFu   // of a point that is not finite or out of range; the table has at most 2^31 slots
#define CUDA_NO_POINT 0xFFFFFFFFu  // after the last of a list
#define CUDA_NO_ROW 0xFFFFFFFFu    // of a row that the block filter took out

enum {
  CUDA_TILE = 1024,       // points of one block of the numbering
  CUDA_SHORT_CAP = 32,    // under caps up to this only the first points of a list are put in order
  CUDA_SUM_GROUP = 64,    // points summed in sequence where there is no cap
  CUDA_BIG_BLOCKS = 264,  // blocks that share the rows of more points than that
};

// What the device counts; zeroed for each job, copied to the host at its end. `cloud_rows` follows it in memory.
struct cuda_tally {
  uint32_t not_finite, out_of_range, over_max_voxels, over_voxel_cap, kept, block_filtered;
  uint32_t num_cells;        // distinct, of all clouds
  uint32_t num_rows;         // let in by max_voxels
  uint32_t num_output_rows;  // left by the block filter
  uint32_t unplaced;         // points that found no slot: none, as the table is larger than the scan
  uint32_t ticket;           // next tile of the numbering
  uint32_t num_big;          // rows whose sum is taken by a whole block
};

// The clouds of a batch. With one cloud all arrays are NULL.
struct cuda_clouds {
  int32_t count;
  uint32_t num_points;
  const uint32_t *first_point;  // [count + 1]
  uint32_t *first_cell;         // [count]; undefined for empty clouds at the end
  uint32_t *first_row;          // [count]
};

// The points of each row: hits[row] of them, from points[begins[row]] on, the first min(hits, cap) in input order.
struct cuda_lists {
  uint32_t *points;  // [num_points]
  uint32_t *begins;  // [row_capacity]
  uint32_t *hits;    // [row_capacity]
  uint32_t cap;      // 0xFFFFFFFF if there is none
};

// A slot of the hash table. All bits set: free.
struct __align__(16) cuda_slot {
  uint64_t
      first;      // 17 bits epoch, 16 bits of the cell's hash, 31 bits first point of the cell, later the cell's number
  uint32_t hits;  // of the cell, less one; all bits set again when its job has numbered it
  uint32_t begin;  // of the cell's part of the list
};

enum { CUDA_EPOCH_BITS = 17, CUDA_TAG_BITS = 16, CUDA_INDEX_BITS = 31 };
#define CUDA_INDEX_MASK 0x7FFFFFFFu
#define CUDA_EPOCH_NONE ((1u << CUDA_EPOCH_BITS) - 1)  // of slots that were never used

struct cuda_arena {
  unsigned char *memory;  // NULL: takes are only measured
  size_t used;            // SIZE_MAX once a size did not fit
};

struct cuda_memory {
  unsigned char *memory;
  size_t bytes;
};

// What belongs to one worker.
struct vx_lane {
  struct vx_device *device;
  cudaStream_t stream;
  cudaEvent_t marks[VX_STAGE_COUNT + 1];
  uint64_t seed[2];            // of the hash
  uint32_t epoch;              // of the table's entries; goes down, so that a newer entry is always the smaller one
  struct cuda_memory table;    // never cleared between jobs
  struct cuda_memory scratch;  // arrays of one job
  struct cuda_memory image;    // output block of one job
  struct cuda_tally *result;   // host, pinned: a tally and VX_MAX_CLOUDS counts of rows
  uint32_t *cloud_points;      // host, pinned: [VX_MAX_CLOUDS + 1]
};

struct vx_device {
  int index;
  bool overlap;  // whether a kernel can be started while the one before it ends
  struct vx_description description;
};

struct cuda_run {
  struct vx_lane *lane;
  struct vx_voxelize_job *job;
  const struct vx_voxelize_params *params;
  cudaStream_t stream;
  struct vx_cell_map map;
  struct vx_grid grid;
  uint32_t columns;       // C
  uint32_t num_points;    // of all clouds
  uint32_t row_capacity;  // most rows that all clouds can have
  bool lists_wanted;      // whether anything reads the kept points voxel by voxel
  bool sorted_lists;      // listed by sorting all points rather than cell by cell

  // Arrays of the job, in the lane's scratch; those not needed are NULL.
  void *input;              // [num_points, columns] as the client sent it
  float *points;            // [num_points, columns]
  struct cuda_slot *table;  // [table_slots]
  uint64_t table_slots;     // a power of two
  uint2 *places;            // [num_points]: slot, and how many points of the cell came to it before
  uint64_t *tiles;          // [num_tiles]: the numbering's look-back
  uint32_t num_tiles;
  uint32_t *first_points;  // [num_points]: of each cell number
  uint32_t *cell_hits;     // [num_points]: of each cell number
  uint32_t *rows;          // [num_points]: row of each point, row_capacity if it has none
  uint32_t *numbers;       // [num_points]: 0, 1, 2, ... for sorting
  uint32_t *sorted_rows;   // [num_points]
  struct cuda_clouds clouds;
  struct cuda_lists lists;
  struct cuda_tally *tally;
  uint32_t *cloud_rows;        // [num_clouds]: output rows of each cloud
  uint32_t *output_rows;       // [row_capacity]: of each row, or CUDA_NO_ROW
  uint32_t *rows_in_order;     // [row_capacity]: row of each output row
  uint32_t *rows_unordered;    // [row_capacity]
  uint64_t *order_keys[2];     // [row_capacity]
  uint64_t *block_keys;        // [block_slots]: hash table of the filter's blocks
  uint32_t *block_heights;     // [block_slots, 2]: lowest and highest z
  unsigned char *block_stays;  // [block_slots]
  uint32_t *block_of;          // [row_capacity]: slot of a row's block
  uint32_t *stays;             // [row_capacity]: 0 or 1, for the scan
  uint64_t block_slots;
  void *cub;  // temporary storage of cub
  size_t cub_bytes;
  uint32_t *big;    // [row_capacity]: rows whose sum is taken by a whole block
  float *big_sums;  // see write_big_mean
};

// --- stages; each only enqueues work ---

VX_WARN_UNUSED enum vx_status cuda_widen(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_insert(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_number(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_assign(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_order_lists(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_sort_lists(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_filter(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_order(const struct cuda_run *run, uint32_t num_rows, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_gather(const struct cuda_run *run, const struct vx_layout *layout, uint32_t num_rows,
                                          unsigned char *image, struct vx_error *error);

// Bytes of temporary storage that cub asks for in any stage of this job.
VX_WARN_UNUSED enum vx_status cuda_measure_cub(const struct cuda_run *run, size_t *bytes, struct vx_error *error);

VX_WARN_UNUSED enum vx_status cuda_voxelize(struct vx_lane *lane, struct vx_voxelize_job *job, struct vx_error *error);

// --- what several stages use ---

static inline unsigned cuda_blocks(uint64_t items, unsigned per_block) {
  return (unsigned)((items + per_block - 1) / per_block);
}

// Launches a kernel of one params struct. Where the device can, its blocks are brought up while the kernel before it
// still runs; cuda_wait in the kernel then waits for that one's end, so it must come before any access to memory.
template <typename params>
static inline enum vx_status cuda_launch(const char *name, void (*kernel)(params), uint64_t blocks, unsigned threads,
                                         size_t shared_bytes, const struct cuda_run *run, const params &p,
                                         struct vx_error *error) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = run->stream;
  config.attrs = &attribute;
  config.numAttrs = run->lane->device->overlap ? 1 : 0;
  return cuda_check(cudaLaunchKernelEx(&config, kernel, p), name, error);
}

__device__ static inline void cuda_wait() {
#if __CUDA_ARCH__ >= 900
  // The runtime's names for these two came with CUDA 12.
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The last of `count` ascending items that is <= value; the first is.
__device__ static inline int32_t cuda_last_at_most(const uint32_t *items, int32_t count, uint32_t value) {
  int32_t low = 0, high = count;
  while (high - low > 1) {
    int32_t middle = (low + high) / 2;
    if (items[middle] <= value) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ static inline int32_t cuda_cloud_of_point(const struct cuda_clouds &clouds, uint32_t point) {
  return clouds.count == 1 ? 0 : cuda_last_at_most(clouds.first_point, clouds.count, point);
}

__device__ static inline int32_t cuda_cloud_of_row(const struct cuda_clouds &clouds, uint32_t row) {
  return clouds.count == 1 ? 0 : cuda_last_at_most(clouds.first_row, clouds.count, row);
}

// The first point of a row of that cloud.
__device__ static inline uint32_t cuda_first_of_row(const struct cuda_clouds &clouds, const uint32_t *first_points,
                                                    int32_t cloud, uint32_t row) {
  return first_points[clouds.count == 1 ? row : clouds.first_cell[cloud] + (row - clouds.first_row[cloud])];
}

__device__ static inline const uint32_t *cuda_list_of(const struct cuda_lists &lists, uint32_t row) {
  return lists.points + lists.begins[row];
}

__device__ static inline uint32_t cuda_kept_of(const struct cuda_lists &lists, uint32_t row) {
  return min(lists.hits[row], lists.cap);
}

#endif

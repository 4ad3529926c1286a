// One job on its way through the stages of the CUDA backend, and the stages themselves.
//
// A job's points come from the host and get a slot of the table of cells and a rank among the points of their cell
// each (insert); its cells get a number by first appearance and a part of the list (number); its points write
// themselves into their cell's part (assign). Whole lists are put in input order where something needs that (lists);
// rows may be taken out (filter) and reordered (order). Then the tensors are written into an image of the output block
// (gather), short lists being ordered on the way, and the image goes to the host (transfer). What a job leaves in the
// table is taken out at its end (transfer), when nobody waits for it.
//
// The host is told sizes and the end through memory of its own that the device writes (struct cuda_report), and no copy
// engine takes part: a kernel that follows a copy, or a copy that follows a kernel, starts 10 us late on an H200.
//
// A job that samples goes on to fps.cuh, or does nothing else. A transform has stages of its own (transform.cu) between
// the points' way from the host and the image's way to it.
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
#include <stddef.h>

#include "kernels/cuda/base/check.cuh"
#include "kernels/cuda/base/clouds.cuh"
#include "kernels/cuda/base/lane.cuh"
#include "kernels/grid.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

struct cuda_fps_box;

// Of a job that samples; rows of clouds follow on each other, and so do their samples.
struct cuda_fps {
  uint32_t num_rows, num_samples, largest_cloud;
  float *rows;                    // [num_rows, columns]: what is chosen from
  struct cuda_fps_cloud *clouds;  // [num_clouds]
  struct cuda_fps_box *boxes;     // [num_clouds]
  uint64_t *keys, *sorted_keys;   // [num_rows]
  uint32_t *ids, *sorted_ids;     // [num_rows]
  float4 *places;                 // [num_rows]: x, y, z, number of the row in its cloud; along a curve
  float *far_distances;           // [num_rows]: see fps_sample.cu
  int32_t *indices;               // [num_samples]
  float *distances;               // [num_samples]: squared
  void *cub;                      // temporary storage of the sort
  size_t cub_bytes;
};

struct cuda_run {
  struct vx_lane *lane;
  struct vx_job *job;
  const struct vx_operation *operation;
  const struct vx_voxelize *params;    // NULL unless voxels are made
  const struct vx_sampling *sampling;  // NULL if nothing is sampled
  uint32_t tensors;                    // to write
  bool halves;                         // the points are float16
  cudaStream_t stream;
  struct vx_cell_map map;
  struct vx_grid grid;
  uint64_t num_cells;     // of the grid, of all clouds
  uint32_t columns;       // C
  uint32_t num_points;    // of all clouds
  uint32_t row_capacity;  // most rows that all clouds can have
  uint32_t cap;           // points that a row keeps; 0xFFFFFFFF if there is no cap
  uint32_t num_tiles;     // of the numbering
  size_t image_capacity;  // bytes of the output block for row_capacity rows
  bool direct;            // each cell of the grid has its own slot
  bool lists_wanted;      // whether anything reads the kept points voxel by voxel
  bool whole_lists;       // lists are ordered before the gather, not in it
  bool means_wanted;      // sums are trees and taken where the lists are ordered
  bool eager;             // the gather is enqueued before the host knows any size
  int64_t num_samples;    // asked for, of all clouds

  // What the host learned.
  struct cuda_tally sizes;
  struct vx_layout layout;  // of the output
  void *output;             // the caller's, once the layout is known

  // Arrays of the job; those not needed are NULL.
  const void *source;           // [num_points, columns] as the client sent it; host memory, or a copy of it
  void *source_copy;            // where `source` cannot be read by the device
  float *points;                // [num_points, columns]
  uint64_t *keys;               // [table_slots], or NULL if direct
  struct cuda_cell *cells;      // [table_slots]
  uint64_t table_slots;         // a power of two, or the cells of the grid
  uint32_t *slots;              // [num_points]: of each point
  uint32_t *ranks;              // [num_points]: how many points of its cell came to it before
  struct cuda_record *records;  // [num_points]: of each cell number
  uint32_t *lists;              // [num_points]: points, cell by cell
  uint32_t *rows;               // [num_points]: row of each point, row_capacity if it has none
  struct cuda_clouds clouds;
  struct cuda_control *control;
  struct cuda_tally *tally;
  uint32_t *output_rows;       // [row_capacity]: of each row, or CUDA_NO_ROW
  uint32_t *rows_in_order;     // [row_capacity]: row of each output row
  uint32_t *queue;             // [row_capacity]: rows that a warp orders from the front, those of a block from the end
  float *means;                // [row_capacity, columns]: where sums are trees
  float *tree_sums;            // see tree_mean
  uint64_t *block_keys;        // [block_slots]: hash table of the filter's blocks
  uint32_t *block_heights;     // [block_slots, 2]: lowest and highest z
  unsigned char *block_stays;  // [block_slots]
  uint32_t *block_of;          // [row_capacity]: slot of a row's block
  uint32_t *stays;             // [row_capacity]: 0 or 1, for the scan
  uint64_t block_slots;
  void *filter_cub;  // temporary storage of the filter's scan
  size_t filter_cub_bytes;
  struct cuda_fps fps;
};

// What the shapes of the job's tensors follow from, if it has so many output rows.
static inline struct vx_sizes cuda_sizes_of(const struct cuda_run *run, int64_t rows) {
  struct vx_sizes sizes = vx_sizes_of(run->job);
  sizes.voxels = rows;
  sizes.samples = run->num_samples;
  return sizes;
}

#endif

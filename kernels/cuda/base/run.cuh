// The state of one job on a GPU. All kernels of a job run in the lane's stream.
//
// The stages of a voxelization:
//   insert    Brings the points from the host. Each gets the slot of its cell and a rank within the cell.
//   number    Each cell gets a number, by first appearance, and its part of the list of points.
//   choose    If max_voxels does not keep the first cells: gives the lowest numbers to the cells that it keeps.
//   assign    Each point writes itself into its cell's part of the list.
//   pick      If rows do not keep their first points: moves the kept points to the front of each list.
//   lists     Sorts whole lists into input order, if something needs that.
//   filter    Removes rows, if there is a block filter.
//   sections  Counts the fates of points by section, if the cloud has sections.
//   order     Sorts the rows, if the job asks for that.
//   gather    Writes the tensors into an image of the output block. Sorts short lists on the way.
//   maps      Clears and fills the dense tensors except bev_features.
//   encode    Encodes the points of each row, if there is an encoder.
//   bev       Makes bev_features from the rows' features.
//   transfer  Sends the image to the host. Then clears what the job left in the table; the host does not wait for this.
//
// If the device can, a kernel starts before the previous one has ended, and waits for that end (device.cuh). Before
// they wait, assign reads what insert wrote, and the gather what insert, number and choose wrote. This is safe because
// number and assign use cuda_wait_in_turn: the kernel after number starts only when insert has ended, and the kernel
// after assign only when the kernel before assign has ended.
//
// Sampling is in fps.cuh. Other operations have their own stages between the copy of the inputs and the transfer.
//
// The device tells the host the sizes and the end of the job by writing host memory (struct cuda_device_status). Copy
// engines are avoided: a kernel after a copy, or a copy after a kernel, starts 10 us late on an H200.
//
// A *cell number* counts the cells of all clouds by first appearance; chosen cells of a cloud have lower numbers than
// its others. A *row* counts the cells that max_voxels allows, in that order. An *output row* is a row after block
// filter and ordering. With one cloud, no filter and no ordering, the three are the same, and the arrays between them
// are NULL.
//
// Pointers are to device memory unless they say host. Integers that count points have 32 bits (VX_MAX_POINTS), sizes
// and offsets 64.
#ifndef VOXELD_CUDA_RUN_CUH
#define VOXELD_CUDA_RUN_CUH

#include <cuda_runtime.h>
#include <stddef.h>

#include "kernels/cuda/base/check.cuh"
#include "kernels/cuda/base/clouds.cuh"
#include "kernels/cuda/base/lane.cuh"
#include "kernels/cuda/base/stop.cuh"
#include "kernels/grid.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

struct cuda_fps_box;

// An input of a job whose first input is not points: host.cuh.
struct cuda_input {
  const void *data;  // host memory, or a copy of it; NULL if the input is absent or empty
  void *copy;        // if the device cannot read the host's memory
  size_t bytes;
};

// Rows of columns, and where kernels read them: bring.cuh.
struct cuda_points {
  const void *source;  // [num_points, columns] as the client sent it; host memory, or a copy
  float *points;       // [num_points, columns]
  uint32_t columns;
  enum vx_dtype dtype;  // of the source
};

// A hash table of keys: table.cuh.
struct cuda_table {
  uint64_t *keys;  // [slots]; NULL: a key is its own slot
  uint64_t slots;  // a power of two, or the cells of the grid
  uint64_t seed[2];
  uint32_t *unplaced;
};

// A job as its kernels see it, for any operation. Arrays that a job does not need are NULL.
struct cuda_view : cuda_points {
  struct cuda_control *control;
  struct cuda_counters *counters;             // the job's, in `control`
  struct cuda_device_status *status;          // host
  const struct cuda_host_commands *commands;  // host
  uint32_t sequence;
  struct cuda_stop stop;
  uint32_t num_tiles;                 // of the numbering
  uint32_t section_words;             // counters in `control` that the job's sections use
  struct cuda_chain_counters *chain;  // of the chain that left the operation's points; NULL: there is none
  struct cuda_clouds clouds;
  struct cuda_table table;      // of cells
  struct cuda_cell *cells;      // [table.slots]
  uint32_t *marks;              // see voxelize.cuh; NULL if rows are not ordered by marks
  uint32_t *slots;              // [num_points]: slot of each point
  struct cuda_record *records;  // [num_points]: one per cell number
};

// A voxelization as its kernels see it.
struct voxel_view : cuda_view {
  struct vx_cell_map map;
  uint32_t nx, ny, nz;          // cells of the grid
  uint32_t row_capacity;        // maximum rows that all clouds can have
  uint32_t cap;                 // maximum points that a row keeps; CUDA_NO_CAP without a cap
  uint32_t chunk;               // points of a row that a warp holds at once
  enum vx_dtype feature_dtype;  // of all kinds of features
  uint32_t intensity;           // the column with the intensity, for the maps
  bool filtered;                // there is a block filter: output_rows says which rows are kept
  bool picked;                  // a row keeps random points: the list of a row has these first
  bool encoded;
  bool fill_mean;        // the mean pads `voxels`
  uint64_t num_cells;    // of all clouds' grids
  uint64_t num_pillars;  // of all clouds' grids: columns of cells
  uint32_t *ranks;       // [num_points]: number of the cell's points inserted before it
  uint32_t *lists;       // [num_points]: points, cell by cell
  uint32_t *rows;        // [num_points]: row of each point, row_capacity if it has none
  uint32_t *queue;   // [row_capacity]: rows to sort: from the front, rows for a warp; from the end, rows for a block
  float *means;      // [row_capacity, columns]: by tree_mean, for rows without a cap
  float *tree_sums;  // see tree_mean
  uint32_t *marks_before;   // [groups of marks]: marks before each group that has any
  uint32_t *output_rows;    // [row_capacity]: output row of each row, or CUDA_NO_ROW
  uint32_t *rows_in_order;  // [row_capacity]: row of each output row
  uint64_t *tops;           // [num_pillars]: highest point of each pillar, see maps.cu
  unsigned char *features;  // [row_capacity, feature_bytes]: the rows that are scattered, unless a tensor has them
};

// A job that samples its points, or the means of its voxels. The rows of all clouds form one list, and so do their
// samples.
struct cuda_fps : cuda_points {
  uint32_t num_rows, num_samples, largest_cloud;
  uint32_t start;                 // the search for the first sample begins at this point
  bool of_points;                 // the rows are the job's points, so their fates are counted
  const int32_t *row_of;          // the chain's (chain.cuh), if `start` counts only the rows that it left; or NULL
  uint32_t bucket;                // rows, a multiple of 32
  uint32_t near_rows;             // rows whose distances fit in shared memory
  struct cuda_fps_cloud *clouds;  // [num_clouds]
  struct cuda_fps_box *boxes;     // [num_clouds]
  uint64_t *keys, *sorted_keys;   // [num_rows]
  uint32_t *ids, *sorted_ids;     // [num_rows]
  float4 *places;                 // [num_rows]: x, y, z, number of the row in its cloud; in the order of the curve
  float *far_distances;           // [num_rows]: squared distances to the samples, if they do not fit in shared memory
  int32_t *indices;               // [num_samples]
  float *distances;               // [num_samples]: squared
};

// The sections of a lone cloud's points: sections.cuh.
struct cuda_sections {
  int32_t count;                       // 0: the job has none
  uint32_t ends[VX_MAX_SECTIONS - 1];  // end of each section but the last: the point after it
};

// The arrays of the choice of cells: choose.cu.
struct cuda_choice {
  enum vx_voxels_by by;
  uint32_t per_cloud;           // blocks of each cloud
  uint32_t *digits;             // [clouds, CUDA_RANK_DIGITS, 1 << CUDA_DIGIT_BITS]: all are 0 between jobs
  struct cuda_last_cell *last;  // [clouds, CUDA_RANK_DIGITS]
  uint32_t *ranks;              // [num_points]: vx_voxel_rank by cell number
  uint2 *counts;                // [clouds * per_cloud]: cells of lower rank than the last kept cell, and of its rank
  struct cuda_record *records;  // [num_points]: as `number` made them
};

// The arrays of the block filter: filter.cu.
struct cuda_block_filter {
  struct vx_block_filter params;
  int64_t grid_blocks[2];      // along x and y
  struct cuda_table blocks;    // blocks that hold a kept point
  uint32_t *heights;           // [blocks.slots, 2]: lowest and highest z
  unsigned char *block_stays;  // [blocks.slots]
  uint32_t *block_of;          // [row_capacity]: slot of each row's block
  uint32_t num_tiles;          // of the scan of the rows
  uint64_t *tiles;             // [num_tiles + 1]: look-back states of the scan, and its ticket
};

// Determines, with the number of rows, where a voxelization's tensors lie in the image: tensor_offsets.cuh.
struct cuda_image_plan {
  unsigned char *memory;
  vx_tensor_set tensors;
  uint64_t row_bytes[VX_TENSOR_COUNT];  // bytes per output row of each tensor
  uint64_t own_bytes[VX_TENSOR_COUNT];  // bytes of each tensor without rows
};

// A job: the view that its kernels take, and what only the host reads.
struct cuda_run : voxel_view {
  struct vx_lane *lane;
  struct vx_job *job;
  const struct vx_operation *operation;
  const struct vx_voxelize *params;    // NULL unless voxels are made
  const struct vx_sampling *sampling;  // NULL if nothing is sampled
  vx_tensor_set tensors;
  struct vx_input input;  // what an operation on points reads: the job's points, or what its chain left
  cudaStream_t stream;
  struct vx_grid grid;
  size_t image_capacity;  // bytes of the output block for row_capacity rows
  bool direct;            // each cell of the grid has its own slot
  bool all_cells;         // `cells` has the keys of pixels (image.cu): the job's end clears all of it
  bool marked;            // rows are ordered by marks
  bool lists_wanted;      // something reads the kept points voxel by voxel
  bool whole_lists;       // lists are sorted before the gather, not during it
  bool means_wanted;      // tree_mean computes the means when the lists are sorted
  bool eager;             // the gather is enqueued before the host knows any size
  bool resident;          // the image is not sent: later stages read it on the device
  int64_t num_samples;    // requested, of all clouds

  // The stage that ends at CUDA_GATHERED. Operations whose kernels note that moment set it.
  enum vx_stage gathers;

  // The tensor whose rows become bev_features; VX_TENSOR_COUNT if bev_features is not requested.
  enum vx_tensor scattered;

  // What the device told the host.
  struct cuda_counters sizes;
  struct vx_layout layout;
  void *output;  // the caller's memory, once the layout is known

  bool slow;                                // a kernel may take long, but reads `stop`, so the caller can stop the job
  struct cuda_input inputs[VX_MAX_INPUTS];  // unused if the first input is points
  // The rows as they arrive, if the first kernel makes them cylindrical (cuda_is_folded); else without columns.
  struct cuda_points arriving;

  // Arguments of some kernels in addition to the view.
  struct cuda_sections sections;
  struct cuda_image_plan plan;
  struct cuda_choice choice;
  struct cuda_block_filter filter;
  struct cuda_fps fps;

  void *source_copy;  // if the device cannot read `source`
  void *fps_cub;      // temporary storage of the sort before sampling
  size_t fps_cub_bytes;
  size_t feature_bytes;
  const float *weights;  // of the encoder: encode.cuh
  float *encoder_room;   // [num_rooms, room_floats]: room of the warps that encode, unless it is in shared memory
  uint64_t num_rooms, room_floats;
};

// Whether the operation's first kernel de-skews the points. In a job with a chain, the chain's first kernel does.
static inline bool cuda_deskews(const struct cuda_run *run) { return run->job->deskew && !run->lane->chain; }

static inline void cuda_read_deskew(struct vx_job *job, const struct cuda_deskew_counts *told) {
  job->deskew->moved = job->counts.received - told->unmoved;
  job->deskew->clamped = told->clamped;
}

static __host__ __device__ inline uint64_t cuda_mark_groups(uint64_t num_cells) {
  return (num_cells + 32 * CUDA_MARK_WORDS - 1) / (32 * CUDA_MARK_WORDS);
}

static inline struct vx_sizes cuda_sizes_of(const struct cuda_run *run, int64_t rows) {
  struct vx_sizes sizes = vx_sizes_of(run->job);
  sizes.voxels = rows;
  sizes.samples = run->num_samples;
  return sizes;
}

#endif

// One job on its way through the stages of the CUDA backend.
//
// The stages of a voxelization:
//   insert    Brings the points from the host. Each point gets the slot of its cell and a rank within the cell.
//   number    Each cell gets a number, by first appearance, and its part of the list of points.
//   assign    Each point writes itself into its cell's part of the list.
//   lists     Puts whole lists in input order, if something needs that.
//   filter    Removes rows, if there is a block filter.
//   sections  Counts the fates of points by section, if the cloud has sections.
//   order     Sorts the rows, if that is asked for.
//   gather    Writes the tensors into an image of the output block. Orders short lists on the way.
//   maps      Clears the dense tensors but bev_features, and fills them.
//   encode    Encodes the points of each row, if there is an encoder.
//   bev       Makes bev_features of the rows' features.
//   transfer  Sends the image to the host, then removes the job's traces from the table, when nobody waits any more.
//
// Where the device can, a kernel starts before the one ahead has ended and waits for that end (device.cuh). Two kernels
// read something before they wait: assign what insert wrote, the gather what number and insert wrote. They can, as
// number and assign wait in turn: what comes behind either starts when the kernel ahead of it has ended.
//
// A job that samples goes on to fps.cuh, or does only that. Other operations have their own stages (transform.cu,
// scatter.cu, nms.cu, boxes.cuh) between the inputs' way from the host and the image's way to it.
//
// The device tells the host sizes and the end of the job by writing host memory (struct cuda_device_status). No copy
// engine takes part: a kernel after a copy, or a copy after a kernel, starts 10 us late on an H200.
//
// Numbers: a *cell number* counts the distinct cells of all clouds by first appearance. A *row* counts the cells that
// max_voxels lets in, in the same order. An *output row* is a row after block filter and ordering. With one cloud, no
// filter and no ordering the three are the same, and the arrays between them are NULL.
//
// All kernels of a job run in the lane's stream. The host fills the job's view, and its kernels take the view whole.
// Pointers are to device memory unless they say host. Integers that count points are 32 bits wide (VX_MAX_POINTS),
// sizes and offsets 64.
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

// An input of the job as kernels read it, of those operations whose inputs are not points: host.cuh.
struct cuda_input {
  const void *data;  // host memory, or a copy of it; NULL if the input is not given or is empty
  void *copy;        // if the device cannot read the host's memory
  size_t bytes;
};

// Rows of columns on their way to where kernels read them: bring.cuh.
struct cuda_points {
  const void *source;   // [num_points, columns] as the client sent it; host memory, or a copy of it
  float *points;        // [num_points, columns]
  uint32_t columns;     // C
  enum vx_dtype dtype;  // of the source
};

// A hash table of keys: table.cuh.
struct cuda_table {
  uint64_t *keys;  // [slots]; NULL: a key's slot is the key
  uint64_t slots;  // a power of two, or the cells of the grid
  uint64_t seed[2];
  uint32_t *unplaced;
};

// A job as its kernels see it, whatever the operation. Arrays that a job does not need are NULL.
struct cuda_view : cuda_points {
  struct cuda_control *control;
  struct cuda_counters *counters;             // the job's, in `control`
  struct cuda_device_status *status;          // host
  const struct cuda_host_commands *commands;  // host
  uint32_t sequence;                          // of the job
  uint32_t num_tiles;                         // of the numbering
  uint32_t section_words;                     // counters in `control` that the job's sections use
  struct cuda_clouds clouds;
  struct cuda_table table;      // of cells
  struct cuda_cell *cells;      // [table.slots]
  uint32_t *marks;              // see voxelize.cuh; NULL unless marked
  uint32_t *slots;              // [num_points]: of each point
  struct cuda_record *records;  // [num_points]: of each cell number
};

// A voxelization as its kernels see it.
struct voxel_view : cuda_view {
  struct vx_cell_map map;
  uint32_t nx, ny, nz;          // cells of the grid
  uint32_t row_capacity;        // most rows that all clouds can have
  uint32_t cap;                 // points that a row keeps; CUDA_NO_CAP if there is no cap
  uint32_t chunk;               // points of a row that a warp holds at once
  enum vx_dtype feature_dtype;  // of features of every kind
  uint32_t intensity;           // the column that the maps of intensity are made of
  bool filtered;                // there is a block filter: output_rows says which rows are left
  bool encoded;                 // the encoder makes something
  bool fill_mean;               // what pads `voxels`
  uint64_t num_cells;           // of the grid, of all clouds
  uint64_t num_pillars;         // likewise: its columns of cells
  uint32_t *ranks;              // [num_points]: number of the cell's points that were inserted before
  uint32_t *lists;              // [num_points]: points, cell by cell
  uint32_t *rows;               // [num_points]: row of each point, row_capacity if it has none
  uint32_t *queue;              // [row_capacity]: from the front rows for a warp to order, from the end for a block
  float *means;                 // [row_capacity, columns]: if sums are trees
  float *tree_sums;             // see tree_mean
  uint32_t *marks_before;       // [groups of marks]: marks before each, if it has any
  uint32_t *output_rows;        // [row_capacity]: of each row, or CUDA_NO_ROW
  uint32_t *rows_in_order;      // [row_capacity]: row of each output row
  uint64_t *tops;               // [num_pillars]: of each the highest point, see maps.cu
  unsigned char *features;      // [row_capacity, feature_bytes]: the rows that are scattered, if no tensor has them
};

// The arrays of a job that samples. The rows of all clouds are one list, and so are their samples. Its points are those
// of the job, or its voxels' means.
struct cuda_fps : cuda_points {
  uint32_t num_rows, num_samples, largest_cloud;
  uint32_t start;                 // number of the point at which the search for the first sample begins
  bool of_points;                 // the rows are the job's points: their fates are counted
  uint32_t bucket;                // rows, a multiple of 32
  uint32_t near_rows;             // rows whose distances shared memory has room for
  struct cuda_fps_cloud *clouds;  // [num_clouds]
  struct cuda_fps_box *boxes;     // [num_clouds]
  uint64_t *keys, *sorted_keys;   // [num_rows]
  uint32_t *ids, *sorted_ids;     // [num_rows]
  float4 *places;                 // [num_rows]: x, y, z, number of the row in its cloud; along a curve
  float *far_distances;           // [num_rows]: squared, to the samples; if they do not fit in shared memory
  int32_t *indices;               // [num_samples]
  float *distances;               // [num_samples]: squared
};

// The sections of a lone cloud's points (struct vx_sections): sections.cuh.
struct cuda_sections {
  int32_t count;                       // 0: the job has none
  uint32_t ends[VX_MAX_SECTIONS - 1];  // of each but the last: the point behind it
};

// The arrays of the block filter: filter.cu.
struct cuda_block_filter {
  struct vx_block_filter params;
  int64_t grid_blocks[2];      // along x and y
  struct cuda_table blocks;    // that hold a kept point
  uint32_t *heights;           // [blocks.slots, 2]: lowest and highest z
  unsigned char *block_stays;  // [blocks.slots]
  uint32_t *block_of;          // [row_capacity]: slot of a row's block
  uint32_t *stays;             // [row_capacity]: 0 or 1, for the scan
};

// What the places of a voxelization's tensors in its image follow from, once the number of rows is known:
// tensor_offsets.cuh.
struct cuda_image_plan {
  unsigned char *memory;
  vx_tensor_set tensors;
  uint64_t row_bytes[VX_TENSOR_COUNT];  // that each output row adds to a tensor
  uint64_t own_bytes[VX_TENSOR_COUNT];  // that it has without any
};

// A job: the view that its kernels take, and what the host alone reads.
struct cuda_run : voxel_view {
  struct vx_lane *lane;
  struct vx_job *job;
  const struct vx_operation *operation;
  const struct vx_voxelize *params;    // NULL unless voxels are made
  const struct vx_sampling *sampling;  // NULL if nothing is sampled
  vx_tensor_set tensors;               // to write
  cudaStream_t stream;
  struct vx_grid grid;
  size_t image_capacity;  // bytes of the output block for row_capacity rows
  bool direct;            // each cell of the grid has its own slot
  bool marked;            // rows are ordered by marks
  bool lists_wanted;      // something reads the kept points voxel by voxel
  bool whole_lists;       // lists are ordered before the gather, not during it
  bool means_wanted;      // sums are trees, taken when the lists are ordered
  bool eager;             // the gather is enqueued before the host knows any size
  bool resident;          // the image is not sent: the host's next stages find it on the device
  int64_t num_samples;    // asked for, of all clouds

  // The stage that ends at CUDA_GATHERED. An operation whose kernels note that moment sets it.
  enum vx_stage gathers;

  // Whose rows bev_features has; VX_TENSOR_COUNT if it is not wanted.
  enum vx_tensor scattered;

  // What the host learned.
  struct cuda_counters sizes;
  struct vx_layout layout;  // of the output
  void *output;             // the caller's, once the layout is known

  const volatile uint32_t *long_word;  // the host's wait for this word may be long, so it may stop the job; or NULL
  struct cuda_input inputs[VX_MAX_INPUTS];  // unused if the job is about points

  // What some kernels take beside the view.
  struct cuda_sections sections;
  struct cuda_image_plan plan;
  struct cuda_block_filter filter;
  struct cuda_fps fps;

  void *source_copy;  // if the device cannot read `source`
  void *filter_cub;   // temporary storage of the filter's scan
  size_t filter_cub_bytes;
  void *fps_cub;  // of the sort of what is sampled
  size_t fps_cub_bytes;
  size_t feature_bytes;
  const float *weights;  // of the encoder: encode.cuh
  float *encoder_room;   // [num_rooms, room_floats]: of the warps that encode, if it is not in shared memory
  uint64_t num_rooms, room_floats;
};

// Groups of marks of that many cells.
static __host__ __device__ inline uint64_t cuda_mark_groups(uint64_t num_cells) {
  return (num_cells + 32 * CUDA_MARK_WORDS - 1) / (32 * CUDA_MARK_WORDS);
}

// The sizes that the shapes of the job's tensors follow from, with `rows` output rows.
static inline struct vx_sizes cuda_sizes_of(const struct cuda_run *run, int64_t rows) {
  struct vx_sizes sizes = vx_sizes_of(run->job);
  sizes.voxels = rows;
  sizes.samples = run->num_samples;
  return sizes;
}

#endif

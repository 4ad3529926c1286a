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

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/clouds.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/lane.cuh"
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

// --- memory (memory.cu) ---

struct cuda_arena {
  unsigned char *memory;  // NULL: takes are only measured
  size_t used;            // SIZE_MAX once a size did not fit
};

void *cuda_take(struct cuda_arena *arena, uint64_t count, size_t size);
// An array of `count` items, aligned for any access; NULL while the arena is only measured.
template <typename type> static inline void take(struct cuda_arena *arena, type **array, uint64_t count) {
  *array = (type *)cuda_take(arena, count, sizeof(type));
}

// Makes room for at least that many bytes; what was there is lost if it grows.
VX_WARN_UNUSED enum vx_status cuda_reserve(struct cuda_memory *memory, size_t bytes, struct vx_error *error);
// The places of the points, and of the first point of each cloud.
void cuda_take_points(struct cuda_run *run, struct cuda_arena *arena);
void cuda_take_clouds(struct cuda_run *run, struct cuda_arena *arena);
// The control block of a lane that is clean, for a job that makes no voxels; with run->num_tiles tiles.
VX_WARN_UNUSED enum vx_status cuda_prepare_control(struct cuda_run *run, struct vx_error *error);
// Gives all arrays of the job their place, in a lane that is clean.
VX_WARN_UNUSED enum vx_status cuda_prepare_memory(struct cuda_run *run, struct vx_error *error);
// Room for jobs of a usual size, so that the first ones allocate nothing.
VX_WARN_UNUSED enum vx_status cuda_presize(struct vx_lane *lane, struct vx_error *error);
// Gives back what a job of unusual size took.
VX_WARN_UNUSED enum vx_status cuda_trim(struct vx_lane *lane, struct vx_error *error);
void cuda_free_all(struct vx_lane *lane);

// --- stages; each only enqueues work ---

VX_WARN_UNUSED enum vx_status cuda_insert(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_number(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_assign(const struct cuda_run *run, struct vx_error *error);
// Orders whole lists and takes the sums that are trees. `sorted`: the lists are in order already.
VX_WARN_UNUSED enum vx_status cuda_order_lists(const struct cuda_run *run, bool sorted, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_filter(const struct cuda_run *run, struct vx_error *error);
// Tells the host the sizes.
VX_WARN_UNUSED enum vx_status cuda_publish(const struct cuda_run *run, uint32_t sequence, struct vx_error *error);
// Writes the image; tells the host the sizes if it does not know them yet.
VX_WARN_UNUSED enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct vx_error *error);
// `output`: host memory as the device sees it.
VX_WARN_UNUSED enum vx_status cuda_send(const struct cuda_run *run, void *output, size_t bytes, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_clean(const struct cuda_run *run, struct vx_error *error);
// Enqueues the bringing of so many words: `from` is host memory as the device sees it.
VX_WARN_UNUSED enum vx_status cuda_fetch(const struct cuda_run *run, const void *from, void *to, uint32_t words,
                                         struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_fetch_clouds(const struct cuda_run *run, struct vx_error *error);
// By cub: lists that are too long for any block; rows of hashed cells, once run->sizes is known.
VX_WARN_UNUSED enum vx_status cuda_sort_lists(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_sort_rows(const struct cuda_run *run, struct vx_error *error);
// Orders rows by their slots, where each cell has its own.
VX_WARN_UNUSED enum vx_status cuda_order_rows(const struct cuda_run *run, struct vx_error *error);

VX_WARN_UNUSED enum vx_status cuda_measure_filter(const struct cuda_run *run, size_t *bytes, struct vx_error *error);

// --- sampling (fps.cu) ---

// Gives the arrays their place, for clouds of so many rows: [num_clouds].
VX_WARN_UNUSED enum vx_status cuda_fps_reserve(struct cuda_run *run, const int32_t *rows, struct vx_error *error);
// As if they had been reserved for these rows, which are no more.
void cuda_fps_measure(struct cuda_run *run, const int32_t *rows);
// Enqueues the count of the rows that can be chosen, and their ordering where any are to be.
VX_WARN_UNUSED enum vx_status cuda_fps_sort(const struct cuda_run *run, struct vx_error *error);
// Waits for that count. VX_REFUSED where there are too few.
VX_WARN_UNUSED enum vx_status cuda_fps_check(struct cuda_run *run, struct vx_error *error);
// Enqueues the choice, and the writing of its tensors into the image.
VX_WARN_UNUSED enum vx_status cuda_fps_sample(const struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_fps_write(const struct cuda_run *run, struct vx_error *error);

// --- the host's part (host.cu) ---

// Host memory as the device sees it, or NULL if it does not.
VX_WARN_UNUSED enum vx_status cuda_see(const void *memory, size_t bytes, void **seen, struct vx_error *error);
size_t cuda_input_bytes(const struct cuda_run *run);
// Enqueues the copy of points that the device cannot read where they are.
VX_WARN_UNUSED enum vx_status cuda_copy_source(const struct cuda_run *run, struct vx_error *error);
// Waits until the device has written `sequence`, or failed; VX_STOPPED if the job was to end early, and has.
VX_WARN_UNUSED enum vx_status cuda_await(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                                         struct vx_error *error);
// Asks the caller for the output's memory; the sizes are known.
VX_WARN_UNUSED enum vx_status cuda_take_output(struct cuda_run *run, struct vx_error *error);
// Sends the image there, cleans the lane, and waits for the output to have come.
VX_WARN_UNUSED enum vx_status cuda_finish_output(const struct cuda_run *run, struct vx_error *error);

// --- jobs ---

VX_WARN_UNUSED enum vx_status cuda_voxelize(struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_transform(struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_sample_points(struct cuda_run *run, struct vx_error *error);
VX_WARN_UNUSED enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, struct vx_error *error);
bool cuda_runs(enum vx_op op);

// --- what several stages use ---

static inline unsigned cuda_blocks(uint64_t items, unsigned per_block) {
  return (unsigned)((items + per_block - 1) / per_block);
}

// What the shapes of the job's tensors follow from, if it has so many output rows.
static inline struct vx_sizes cuda_sizes_of(const struct cuda_run *run, int64_t rows) {
  struct vx_sizes sizes = vx_sizes_of(run->job);
  sizes.voxels = rows;
  sizes.samples = run->num_samples;
  return sizes;
}

// Blocks of a kernel that goes through its items in a loop: no more than the device runs at once.
static inline unsigned cuda_looping_blocks(const struct cuda_run *run, uint64_t items, unsigned per_block,
                                           unsigned per_multiprocessor) {
  uint64_t blocks = (items + per_block - 1) / per_block, most = run->lane->device->multiprocessors * per_multiprocessor;
  return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// Launches a kernel of one params struct. Where the device can, its blocks are brought up while the kernel before it
// still runs; cuda_wait in the kernel then waits for that one's end, so it must come before any access to what that one
// writes.
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

#endif

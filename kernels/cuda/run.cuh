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
#include "kernels/grid.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

#define CUDA_NO_SLOT 0xFFFFFFFFu   // of a point that is not finite or out of range; the table has at most 2^31 slots
#define CUDA_NO_POINT 0xFFFFFFFFu  // after the last of a list; first point of a cell that has none
#define CUDA_NO_ROW 0xFFFFFFFFu    // of a row that the block filter took out
#define CUDA_NO_KEY UINT64_MAX     // of a free slot; keys are below VX_MAX_GRID_CELLS

enum {
  CUDA_TILE = 1024,            // items of one block of a scan
  CUDA_SHORT_CAP = 32,         // under caps up to this only the first points of a list are put in order
  CUDA_TINY_LIST = 8,          // longest whole list that a few threads put in order
  CUDA_WARP_LIST = 256,        // longest that a warp does
  CUDA_SHARED_LIST = 4096,     // longest list that a block sorts in shared memory
  CUDA_SUM_GROUP = 64,         // points summed in sequence where there is no cap
  CUDA_DIRECT_CELLS = 1 << 22  // up to this many cells each has its own slot, without hashing
};

// Moments of a job, as the device's clock has them, in ns.
enum cuda_moment {
  CUDA_BEGUN,
  CUDA_ARRIVED,
  CUDA_FOUND,
  CUDA_GATHERED,
  CUDA_SAMPLED,
  CUDA_SENDING,
  CUDA_SENT,
  CUDA_MOMENTS
};

// What the device counts; zero when a job begins. Fates that no job has both of share a word.
struct cuda_tally {
  uint32_t not_finite;
  union {
    uint32_t out_of_range, out_of_crop;
  };
  union {
    uint32_t over_max_voxels, cut_out;
  };
  uint32_t over_voxel_cap, kept, block_filtered;
  uint32_t num_cells;                    // distinct, of all clouds
  uint32_t num_rows;                     // let in by max_voxels
  uint32_t num_output_rows;              // left by the block filter
  uint32_t longest;                      // points of the row that has most
  uint32_t unplaced;                     // points that found no slot: none, as the table is larger than the scan
  uint32_t number_ticket, order_ticket;  // next tile of the scans
  uint32_t send_ticket;                  // blocks that are done
  uint32_t num_short, num_long;          // rows whose lists a warp or a block puts in order
  uint32_t short_ticket;                 // next of the former
  uint64_t moments[CUDA_MOMENTS];
};
static_assert(sizeof(struct cuda_tally) == 128, "each of a lane's tallies has a line of the cache for itself");

// Host memory that the device writes. A job believes only its own sequence numbers.
struct cuda_report {
  uint32_t sized, sent;  // sequence number of the last job whose tally and rows, whose output and moments are here
  struct cuda_tally tally;
  uint32_t cloud_rows[VX_MAX_CLOUDS];
};

// The lane's; a job finds its tally and the tiles all zero. Two tallies take turns, so that a job's end can clear the
// next one's while it still reads its own.
struct cuda_control {
  struct cuda_tally tallies[2];
  uint32_t cloud_rows[VX_MAX_CLOUDS];                   // [num_clouds]: output rows of each cloud
  uint64_t order_tiles[CUDA_DIRECT_CELLS / CUDA_TILE];  // look-back of the ordering
  uint64_t tiles[];                                     // [num_tiles]: of the numbering
};

// The clouds of a batch. With one cloud all arrays are NULL.
struct cuda_clouds {
  int32_t count;
  uint32_t num_points;
  uint32_t max_rows;            // let in of one cloud
  const uint32_t *first_point;  // [count + 1]
  uint32_t *first_cell;         // [count]; undefined for empty clouds at the end
  uint32_t *first_row;          // [count]
};

// Of each slot of the table; all bits set: no point yet.
struct __align__(8) cuda_cell {
  uint32_t first;  // point of the cell, later the cell's number
  uint32_t hits;   // of the cell, less one; later where its part of the list begins
};

// Of each cell number: points[begin .. begin + hits) are the cell's.
struct __align__(16) cuda_record {
  uint32_t first_point, hits, begin, slot;
};

struct cuda_memory {
  unsigned char *memory;
  size_t bytes;
};

// A cloud that is sampled: its rows among those of all clouds, its samples among theirs.
struct cuda_fps_cloud {
  uint32_t first_row, num_rows, num_samples, first_sample;
};

// Host memory that the device reads.
struct cuda_orders {
  uint32_t stop;  // sequence number of a job that is to end early
  uint32_t cloud_points[VX_MAX_CLOUDS + 1];
  struct cuda_fps_cloud fps_clouds[VX_MAX_CLOUDS];
  float matrices[VX_MAX_CLOUDS * VX_MATRIX_VALUES];
};

// What belongs to one worker.
struct vx_lane {
  struct vx_device *device;
  cudaStream_t stream;
  uint64_t seed[2];   // of the hash
  uint32_t sequence;  // of the last job, which has this and the next three; a multiple of four
  bool clean;         // whether control, keys and cells are as a job has to find them
  struct cuda_memory control, keys, cells;
  struct cuda_memory scratch;           // arrays of one job
  struct cuda_memory sorting;           // arrays of one job that are needed only where something is sorted by cub
  struct cuda_memory sampling;          // arrays of one job that samples
  struct cuda_memory image;             // output block of one job
  volatile struct cuda_report *report;  // host, pinned
  struct cuda_report *device_report;    // the same, as the device sees it
  struct cuda_orders *orders;           // host, pinned
  struct cuda_orders *device_orders;    // the same, as the device sees it
};

struct vx_device {
  int index;
  bool overlap;              // whether a kernel can be started while the one before it ends
  unsigned multiprocessors;  // streaming multiprocessors
  unsigned largest_cluster;  // blocks in which samples can be taken together; 1 where clusters are not known
  size_t shared_bytes;       // that such a block can have
  struct vx_description description;
};

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

// Lets the blocks of the next kernel come up; they take the room of others, so not long before this one's end.
__device__ static inline void cuda_let_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ static inline void cuda_wait_alone() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");  // the runtime's name for it came with CUDA 12
#endif
}

__device__ static inline void cuda_wait() {
  cuda_let_next();
  cuda_wait_alone();
}

__device__ static inline uint64_t cuda_now() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ static inline uint32_t cuda_warp_add(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(~0u, value);
#else
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(~0u, value, offset);
  }
  return value;
#endif
}

__device__ static inline uint32_t cuda_warp_max(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, value);
#else
  for (int offset = 16; offset > 0; offset /= 2) {
    value = max(value, __shfl_xor_sync(~0u, value, offset));
  }
  return value;
#endif
}

// As a block, once it has done its part: whether it is the last of `blocks` to do so. Then all others' writes are seen.
__device__ static inline bool cuda_last_block(uint32_t *ticket, uint32_t blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(ticket, 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
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

// The row of a cell of that cloud, or `none`.
__device__ static inline uint32_t cuda_row_of_cell(const struct cuda_clouds &clouds, int32_t cloud, uint32_t number,
                                                   uint32_t none) {
  uint32_t within = clouds.count == 1 ? number : number - clouds.first_cell[cloud];
  return within >= clouds.max_rows ? none : clouds.count == 1 ? within : clouds.first_row[cloud] + within;
}

__device__ static inline struct cuda_record
cuda_record_of_row(const struct cuda_clouds &clouds, const struct cuda_record *records, int32_t cloud, uint32_t row) {
  uint64_t number = clouds.count == 1 ? row : clouds.first_cell[cloud] + (row - clouds.first_row[cloud]);
  uint4 bits = *(const uint4 *)&records[number];
  return {bits.x, bits.y, bits.z, bits.w};
}

#endif

// A device, which all threads share and which does not change; a lane, which belongs to one thread at a time; and the
// memory through which host and device communicate.
#ifndef VOXELD_CUDA_LANE_CUH
#define VOXELD_CUDA_LANE_CUH

#include <cuda_runtime.h>
#include <stddef.h>

#include "kernels/ops.h"

#define CUDA_NO_SLOT 0xFFFFFFFFu   // slot of a point that is not finite or out of range; slots are below 2^31
#define CUDA_NO_POINT 0xFFFFFFFFu  // end of a list; first point of an empty cell
#define CUDA_NO_ROW 0xFFFFFFFFu    // a row that the block filter removed
#define CUDA_NO_KEY UINT64_MAX     // a free slot; keys are below VX_MAX_GRID_CELLS
#define CUDA_NO_CAP UINT32_MAX     // rows keep all points

enum {
  CUDA_TILE = 1024,             // items of one block of a scan
  CUDA_SHORT_CAP = 32,          // up to this cap, only the first points of a list are sorted
  CUDA_TINY_LIST = 8,           // longest whole list that a thread sorts
  CUDA_WARP_LIST = 256,         // longest list that a warp sorts
  CUDA_SHARED_LIST = 4096,      // longest list that a block sorts in shared memory
  CUDA_SUM_GROUP = 64,          // without a cap: points of a group that is summed in sequence
  CUDA_DIRECT_CELLS = 1 << 22,  // in a grid with up to this many cells, each cell has its own slot, without hashing
  CUDA_MARKED_CELLS = 1 << 29,  // in a grid with up to this many cells, marks order the rows, without sorting
  CUDA_MARK_WORDS = 16,         // words of 32 marks in a group, whose marks are counted together
  CUDA_MOVED_FATES = 4,         // of a transform: not_finite, out_of_crop, cut_out, out_of_distance
  CUDA_DIGIT_BITS = 11,         // bits of a digit of a cell's rank (choose.cu)
  CUDA_RANK_DIGITS = 3          // digits of a rank
};

// The fates of a voxelization are the first fates of the table. Each section has one counter for each of them.
enum { CUDA_SECTION_FATES = VX_FATE_BLOCK_FILTERED + 1, CUDA_SECTION_WORDS = VX_MAX_SECTIONS * CUDA_SECTION_FATES };

// Moments of a job on the device's clock, in ns.
enum cuda_moment {
  CUDA_BEGUN,
  CUDA_ARRIVED,
  CUDA_FOUND,
  CUDA_GATHERED,
  CUDA_ENCODED,
  CUDA_SCATTERED,
  CUDA_SAMPLED,
  CUDA_DECODED = CUDA_SAMPLED,  // no job does both
  CUDA_SENDING,
  CUDA_SENT,
  CUDA_MOMENTS
};

// `unmoved`: points whose coordinates or time are not finite. `clamped`: points whose time was clamped.
struct cuda_deskew_counts {
  uint32_t unmoved, clamped;
};

// What the device counts. All counters are zero when a job begins. Two counts share a word if no job has both.
struct __align__(128) cuda_counters {
  union {
    uint32_t not_finite, invalid;
  };
  union {
    uint32_t out_of_range, over_pre_max;
  };
  union {
    uint32_t over_max_voxels, suppressed;
  };
  union {
    uint32_t over_voxel_cap, over_post_max;
  };
  union {
    uint32_t num_inside;  // points in cells
    uint32_t kept;
  };
  uint32_t num_cells;  // distinct cells of all clouds
  union {
    uint32_t num_rows;  // rows that max_voxels allows
    uint32_t outside;
  };
  uint32_t num_output_rows;  // rows that the block filter keeps
  union {
    uint32_t block_filtered, below_threshold;
  };
  union {
    uint32_t longest;  // points of the longest list above CUDA_WARP_LIST
    uint32_t over_max_objects;
  };
  uint32_t unplaced;                     // keys without a slot: 0, since a table has room for all keys
  uint32_t number_ticket, order_ticket;  // next tile of the scans; in some jobs order_ticket counts finished blocks
  uint32_t send_ticket;                  // finished blocks
  uint32_t num_short, num_long;          // rows whose lists a warp sorts; rows whose lists a block sorts
  struct cuda_deskew_counts deskew;
  uint32_t moved_fates[CUDA_MOVED_FATES];  // rows that a folded transform dropped: chain.cuh
  uint64_t moments[CUDA_MOMENTS];
};
static_assert(sizeof(struct cuda_counters) == 256,
              "each of a lane's sets of counters has lines of the cache for itself");
static_assert(offsetof(struct cuda_counters, num_inside) % 16 == 0 &&
                  offsetof(struct cuda_counters, num_output_rows) == offsetof(struct cuda_counters, num_inside) + 12,
              "one load reads the four numbers");

// What the device counts over a chain's rows.
struct cuda_chain_counters {
  uint32_t fates[VX_MAX_STEPS + 1][VX_FATE_COUNT];         // of dropped rows, by step; step 0: the operation
  uint32_t section_fates[VX_MAX_SECTIONS][VX_FATE_COUNT];  // of dropped rows, by section
  uint32_t cloud_rows[VX_MAX_CLOUDS];                      // rows left before each cloud; set by cuda_note_clouds
  struct cuda_deskew_counts deskew;
  uint32_t told;   // sequence of the job, if a thread of a step has found it stopped
  uint64_t begun;  // when the first kernel has begun
  // When each step has ended; [0]: when the rows have arrived. 0: the step ended together with a later one.
  uint64_t ended[VX_MAX_STEPS + 1];
};

// Further moments of a detection.
enum cuda_note {
  CUDA_BACKBONE_BEGUN,
  CUDA_BACKBONE_DONE,
  CUDA_NETWORK_BEGUN,
  CUDA_NETWORK_DONE,
  CUDA_SHOW_BEGUN,
  CUDA_SHOWN,
  CUDA_NOTES
};

// Host memory that the device writes. A job accepts only its own sequence numbers.
struct cuda_device_status {
  // The sequence of the last job whose sizes (`sized`), or whose output and moments (`sent`), the device has written.
  uint32_t sized, sent;
  struct cuda_counters counters;
  uint64_t notes[CUDA_NOTES];
  uint32_t cloud_rows[VX_MAX_CLOUDS];
  uint32_t section_fates[CUDA_SECTION_WORDS];
  struct cuda_chain_counters chain;
  uint64_t sparse[16];  // sizes that sparse convolution (sparse.cuh) or serialize has found
};

// A job's counters and scan states. When a job begins, its counters, section_fates and the tiles are zero. Jobs
// alternate between two sets of counters, so that a job's end can clear the next set while its own is read.
struct cuda_control {
  struct cuda_counters counters[2];
  uint32_t told;                               // sequence of the last job that the host stopped
  uint32_t cloud_rows[VX_MAX_CLOUDS];          // [num_clouds]: output rows of each cloud
  uint32_t section_fates[CUDA_SECTION_WORDS];  // see sections.cuh
  // Look-back states of the ordering.
  uint64_t order_tiles[CUDA_MARKED_CELLS / (32 * CUDA_MARK_WORDS) / CUDA_TILE];
  uint64_t tiles[];  // [num_tiles]: look-back states of the numbering
};

struct cuda_memory {
  unsigned char *memory;
  size_t bytes;
};

// A cloud's part of all rows and samples.
struct cuda_fps_cloud {
  uint32_t first_row, num_rows, num_samples, first_sample;
};

struct cuda_sparse_input {
  const int4 *coords;     // [num_rows]
  const float *features;  // [num_rows, channels]
  uint64_t num_rows;
};

// Host memory that the device reads.
struct cuda_host_commands {
  uint32_t stop;  // sequence of the job that must end early
  uint32_t cloud_points[VX_MAX_CLOUDS + 1];
  struct cuda_fps_cloud fps_clouds[VX_MAX_CLOUDS];
  float matrices[VX_MAX_CLOUDS * VX_MATRIX_VALUES];
  struct vx_segment segments[VX_MAX_SEGMENTS];
  struct cuda_sparse_input sparse;
};

struct cuda_chain;
struct cuda_sparse_kept;

struct vx_lane {
  struct vx_device *device;
  cudaStream_t stream;
  uint64_t seed[2];   // of the hash
  uint32_t sequence;  // of the last job: a multiple of 4. The job uses the numbers sequence .. sequence + 3.
  bool clean;         // control, keys, cells, marks and digits are as a job expects them
  bool freed;         // freed blocks are not yet given back to the driver
  bool chain_clean;   // chain_control is cleared
  uint32_t uses;      // times that step_cells was used since it was cleared; 0: it is not cleared
  struct cuda_memory control, keys, cells, marks, digits;
  struct cuda_memory chain_control, chain_rows;   // of a chain of steps: its counters; its rows
  struct cuda_memory step_cells;                  // of steps: their table of cells
  struct cuda_chain *chain;                       // of the job that the lane runs; NULL: it has none
  struct cuda_memory deskew;                      // of one job: times of points, segments of their motion
  struct cuda_memory scratch;                     // arrays of one job
  struct cuda_memory sorting;                     // of one job: arrays for cub; a copy of narrow points to sample
  struct cuda_memory sampling;                    // arrays of one job that samples
  struct cuda_memory image;                       // output block of one job
  struct cuda_memory features, maps;              // what the stages of one detection leave for each other
  struct cuda_memory levels, sparse;              // of a sparse convolution: bitmaps; cells, tables and features
  struct cuda_sparse_kept *sparse_kept;           // of the last sparse convolution; NULL until the first
  struct cuda_memory backbone;                    // the weights of the last backbone
  uint64_t backbone_number;                       // vx_detector.backbone_number; 0 if there are none
  struct cuda_memory weights;                     // of the last encoder
  float *host_weights;                            // host: a copy, to compare with the next encoder's weights
  size_t num_weights;                             // of weights and of host_weights; 0: none
  volatile struct cuda_device_status *status;     // host, pinned
  struct cuda_device_status *status_on_device;    // the same, as the device sees it
  struct cuda_host_commands *commands;            // host, pinned
  struct cuda_host_commands *commands_on_device;  // the same, as the device sees it
  struct cuda_pieces *pieces;                     // host, pinned: of pieces.cu; NULL until its first call
};

struct vx_device {
  int index;
  cudaMemPool_t pool;  // where the lanes' blocks come from; NULL if the device has no pool
  bool overlap;        // a kernel can start while the previous one ends
  bool graphs;         // a graph can hold the kernels
  unsigned multiprocessors;
  unsigned largest_cluster;  // blocks that can take samples together; 1 without clusters
  size_t shared_bytes;       // shared memory of such a block
  struct vx_description description;
};

#endif

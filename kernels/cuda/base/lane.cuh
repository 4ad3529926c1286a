// A device and a lane: what one worker keeps between its jobs, and the memory through which host and device
// communicate.
//
// A lane belongs to one thread at a time. The device is shared and does not change.
#ifndef VOXELD_CUDA_LANE_CUH
#define VOXELD_CUDA_LANE_CUH

#include <cuda_runtime.h>
#include <stddef.h>

#include "kernels/ops.h"

#define CUDA_NO_SLOT 0xFFFFFFFFu   // of a point that is not finite or out of range; the table has at most 2^31 slots
#define CUDA_NO_POINT 0xFFFFFFFFu  // after the last of a list; first point of a cell that has none
#define CUDA_NO_ROW 0xFFFFFFFFu    // of a row that the block filter took out
#define CUDA_NO_KEY UINT64_MAX     // of a free slot; keys are below VX_MAX_GRID_CELLS
#define CUDA_NO_CAP UINT32_MAX     // points that a row keeps if there is no cap

enum {
  CUDA_TILE = 1024,             // items of one block of a scan
  CUDA_SHORT_CAP = 32,          // up to this cap only the first points of a list are put in order
  CUDA_TINY_LIST = 8,           // longest whole list that a few threads put in order
  CUDA_WARP_LIST = 256,         // longest that a warp does
  CUDA_SHARED_LIST = 4096,      // longest list that a block sorts in shared memory
  CUDA_SUM_GROUP = 64,          // points summed in sequence if there is no cap
  CUDA_DIRECT_CELLS = 1 << 22,  // in a grid of up to this many cells each has its own slot, without hashing
  CUDA_MARKED_CELLS = 1 << 29,  // in a grid of up to this many cells rows are ordered by marks, without sorting
  CUDA_MARK_WORDS = 16          // of 32 marks: a group, whose marks are counted together
};

// Of the points of a section: those fates that come first in the table. Each section has a counter for each.
enum { CUDA_SECTION_FATES = VX_FATE_CUT_OUT + 1, CUDA_SECTION_WORDS = VX_MAX_SECTIONS * CUDA_SECTION_FATES };

// Moments of a job, as the device's clock has them, in ns.
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

// What the device counts; zero when a job begins. Fates share a word if no job has two of them.
struct __align__(128) cuda_counters {
  union {
    uint32_t not_finite, invalid;
  };
  union {
    uint32_t out_of_range, out_of_crop, over_pre_max;
  };
  union {
    uint32_t over_max_voxels, cut_out, suppressed;
  };
  union {
    uint32_t over_voxel_cap, over_post_max;
  };
  // These four are read together (gather.cu).
  union {
    uint32_t num_inside;  // points in cells
    uint32_t kept;
  };
  uint32_t num_cells;  // distinct, of all clouds
  union {
    uint32_t num_rows;  // let in by max_voxels
    uint32_t outside;
  };
  uint32_t num_output_rows;  // left by the block filter
  union {
    uint32_t block_filtered, below_threshold;
  };
  union {
    uint32_t longest;  // points of the longest list beyond CUDA_WARP_LIST
    uint32_t over_max_objects;
  };
  uint32_t unplaced;                     // points without a slot: 0, as the table is larger than the scan
  uint32_t number_ticket, order_ticket;  // next tile of the scans
  uint32_t send_ticket;                  // blocks that are done
  uint32_t num_short, num_long;          // rows whose lists a warp or a block puts in order
  uint32_t short_ticket;                 // next of the former
  uint64_t moments[CUDA_MOMENTS];
};
static_assert(sizeof(struct cuda_counters) == 256,
              "each of a lane's sets of counters has lines of the cache for itself");
static_assert(offsetof(struct cuda_counters, num_inside) % 16 == 0 &&
                  offsetof(struct cuda_counters, num_output_rows) == offsetof(struct cuda_counters, num_inside) + 12,
              "one load reads the four numbers");

// Further moments of a detection.
enum cuda_note { CUDA_NETWORK_BEGUN, CUDA_NETWORK_DONE, CUDA_SHOW_BEGUN, CUDA_SHOWN, CUDA_NOTES };

// Host memory that the device writes. A job accepts only its own sequence numbers.
struct cuda_device_status {
  uint32_t sized, sent;  // sequence number of the last job whose counters and rows, whose output and moments are here
  struct cuda_counters counters;
  uint64_t notes[CUDA_NOTES];
  uint32_t cloud_rows[VX_MAX_CLOUDS];
  uint32_t section_fates[CUDA_SECTION_WORDS];
};

// What a job counts and scans. A job finds its counters, the fates of sections and the tiles all zero. Two sets of
// counters take turns, so that the end of a job can clear those of the next job while its own are still read.
struct cuda_control {
  struct cuda_counters counters[2];
  uint32_t told;                               // sequence of the last job that was told to end
  uint32_t cloud_rows[VX_MAX_CLOUDS];          // [num_clouds]: output rows of each cloud
  uint32_t section_fates[CUDA_SECTION_WORDS];  // see sections.cuh
  // Look-back of the ordering.
  uint64_t order_tiles[CUDA_MARKED_CELLS / (32 * CUDA_MARK_WORDS) / CUDA_TILE];
  uint64_t tiles[];  // [num_tiles]: of the numbering
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
struct cuda_host_commands {
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
  bool clean;         // control, keys, cells and marks are as a job expects them
  bool freed;         // blocks were freed, and not yet given back to the driver
  struct cuda_memory control, keys, cells, marks;
  struct cuda_memory scratch;                     // arrays of one job
  struct cuda_memory sorting;                     // arrays of one job, if cub sorts something
  struct cuda_memory sampling;                    // arrays of one job that samples
  struct cuda_memory image;                       // output block of one job
  struct cuda_memory features, maps;              // what the stages of one detection leave to each other
  struct cuda_memory weights;                     // of the last encoder
  float *host_weights;                            // host: the same, to compare the next encoder's with
  size_t num_weights;                             // in both; 0 if there are none
  volatile struct cuda_device_status *status;     // host, pinned
  struct cuda_device_status *status_on_device;    // the same, as the device sees it
  struct cuda_host_commands *commands;            // host, pinned
  struct cuda_host_commands *commands_on_device;  // the same, as the device sees it
};

struct vx_device {
  int index;
  cudaMemPool_t pool;        // of the lanes' blocks; NULL if the device has none
  bool overlap;              // a kernel can start while the previous one ends
  unsigned multiprocessors;  // streaming multiprocessors
  unsigned largest_cluster;  // blocks that can take samples together; 1 without clusters
  size_t shared_bytes;       // shared memory of such a block
  struct vx_description description;
};

#endif

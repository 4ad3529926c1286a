// The one C interface to the computation: what a job is, and what a backend must do.
//
// A job is one operation (enum vx_op) on inputs. ops.h has one row per operation, and each operation has a header:
// voxelize.h (with maps.h and encode.h), fps.h, range_image.h, serialize.h, steps.h, boxes.h, decode.h, center.h,
// scatter.h, detect.h. A backend is a table of function pointers (struct vx_backend): kernels/cpu has one, kernels/cuda
// another.
//
// Threads: all threads may share a device; a lane belongs to one thread at a time. A call that can fail returns a
// vx_status and fills the caller's struct error, if it takes one.
#ifndef VOXELD_KERNELS_H
#define VOXELD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/center.h"
#include "kernels/decode.h"
#include "kernels/deskew.h"
#include "kernels/detect.h"
#include "kernels/encode.h"
#include "kernels/error.h"
#include "kernels/fps.h"
#include "kernels/maps.h"
#include "kernels/range_image.h"
#include "kernels/scatter.h"
#include "kernels/serialize.h"
#include "kernels/stop.h"
#include "kernels/tensor.h"
#include "kernels/voxelize.h"

enum {
  VX_MIN_FEATURES = 3,   // x, y, z come first
  VX_MAX_FEATURES = 64,  // maximum columns of a row
  VX_MAX_CLOUDS = 1024,  // maximum clouds of a batch
  VX_MAX_SECTIONS = 64,  // maximum sections of a cloud
  VX_MAX_STEPS = 8,      // maximum steps of a chain
};
#define VX_MAX_POINTS INT64_C(2147483647)  // maximum points of a job, because point_voxel_ids is int32

enum vx_op {
  VX_VOXELIZE,
  VX_FPS,
  VX_POINTS_OP,
  VX_TRANSFORM,
  VX_NMS,
  VX_DECODE,
  VX_SCATTER,
  VX_DECODE_CENTER,
  VX_DETECT,
  VX_BACKBONE,
  VX_SERIALIZE,
  VX_RANGE_IMAGE_OP,
  VX_OPS
};

// Indices of vx_job.inputs. For most operations the first input is `points`: [N, C], with x, y and z first. ops.h has
// the inputs of each operation.
enum { VX_POINTS, VX_MATRIX };
enum { VX_MAX_INPUTS = 7 };

// [rows, columns].
static inline struct vx_input vx_points_of(enum vx_dtype dtype, int64_t rows, int32_t columns, const void *data) {
  struct vx_input input = {dtype, 2, {rows, columns, 0}, data};
  return input;
}

// In the order of struct vx_counts.
enum vx_fate {
  VX_FATE_KEPT,
  VX_FATE_NOT_FINITE,
  VX_FATE_OUT_OF_RANGE,
  VX_FATE_OVER_VOXEL_CAP,
  VX_FATE_OVER_MAX_VOXELS,
  VX_FATE_BLOCK_FILTERED,
  VX_FATE_OUT_OF_CROP,
  VX_FATE_CUT_OUT,
  VX_FATE_BELOW_THRESHOLD,
  VX_FATE_OVER_MAX_OBJECTS,
  VX_FATE_INVALID,
  VX_FATE_OUTSIDE,
  VX_FATE_OVER_PRE_MAX,
  VX_FATE_SUPPRESSED,
  VX_FATE_OVER_POST_MAX,
  VX_FATE_DUPLICATE,
  VX_FATE_OUT_OF_DISTANCE,
  VX_FATE_MERGED,
  VX_FATE_SPARSE_VOXEL,
  VX_FATE_OUT_OF_LATTICE,
  VX_FATE_SKIPPED,
  VX_FATE_RING_OUTLIER,
  VX_FATE_NO_RING,
  VX_FATE_RADIUS_OUTLIER,
  VX_FATE_STATISTICAL_OUTLIER,
  VX_FATE_OCCLUDED,
  VX_FATE_OUTSIDE_IMAGE,
  VX_FATE_COUNT
};
#define VX_FATE_BIT(fate) (1u << (fate))
enum { VX_VOXEL_FATES = 3 };  // kept, dropped, block_filtered

// Each row of the first input has one fate, so the counts of the fates add up to `received`. If an operation samples
// points, `kept` counts the candidates.
struct vx_counts {
  int64_t received;
  union {
    int64_t fates[VX_FATE_COUNT];
    struct {
      int64_t kept, not_finite, out_of_range, over_voxel_cap, over_max_voxels, block_filtered;
      int64_t out_of_crop, cut_out;
      int64_t below_threshold, over_max_objects, invalid, outside, over_pre_max, suppressed, over_post_max;
      int64_t duplicate;
      int64_t out_of_distance, merged, sparse_voxel, out_of_lattice, skipped;
      int64_t ring_outlier, no_ring, radius_outlier, statistical_outlier;
      int64_t occluded, outside_image;
    };
  };
  union {
    int64_t voxels[VX_VOXEL_FATES];
    struct {
      int64_t voxels_kept, voxels_dropped, voxels_block_filtered;
    };
  };
  int64_t sampled;
  int64_t level_rows[VX_MAX_SPARSE_LEVELS];  // rows of each level of a backbone, or of each stage of pooling
  int64_t depth;                             // of the codes of a serialization
};

// Sections of a lone cloud, such as joined sweeps: consecutive stretches of its points, with separate counts of fates.
// Voxels and samples are not counted by section.
struct vx_sections {
  int32_t count;             // 0..VX_MAX_SECTIONS; 0: no sections
  const int32_t *points;     // [count]: points of each section; their sum is N
  struct vx_counts *counts;  // out; [count], caller's memory
};

struct vx_chain_report {
  int64_t left;                                    // rows that remain after the chain
  int64_t fates[VX_MAX_STEPS + 1][VX_FATE_COUNT];  // [i]: of the rows that step i dropped; [0]: of all other rows
  int64_t step_ns[VX_MAX_STEPS];
  // For the run only.
  const uint32_t (*section_fates)[VX_FATE_COUNT];  // [sections]: fates of the rows that the chain dropped
  bool settled;                                    // the job's counts include the steps
  void *output;                                    // the caller's memory for the tensors
};

enum vx_stage {
  VX_STAGE_COPY_IN,
  VX_STAGE_STEPS,
  VX_STAGE_VOXELIZE,
  VX_STAGE_FEATURES,
  VX_STAGE_ENCODER,
  VX_STAGE_SCATTER,
  VX_STAGE_SAMPLE,
  VX_STAGE_SERIALIZE,
  VX_STAGE_PROJECT,
  VX_STAGE_BACKBONE,
  VX_STAGE_NETWORK,
  VX_STAGE_DECODE,
  VX_STAGE_NMS,
  VX_STAGE_COPY_OUT,
  VX_STAGE_COUNT
};
#define VX_STAGE_BIT(stage) (1u << (stage))

// Scratch that an arena of a CPU lane keeps between jobs.
#define VX_SCRATCH_KEPT ((size_t)64 << 20)

struct vx_chain;  // steps.h
struct vx_device;
struct vx_lane;

// A thread that works on a job, with a lane of its own: the worker that runs the job, or a helper.
struct vx_worker {
  struct vx_lane *lane;
  struct vx_stop *stop;  // like vx_caller.stopped; for a helper, also true once the helper has other work
};

// Parts of a job's work. Workers do them in any order and at the same time. A task writes its own memory and the
// scratch of its worker's lane.
struct vx_tasks {
  int32_t count;
  // If a helper returns anything but VX_OK, another worker does the whole task again.
  enum vx_status (*run)(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error);
  void *ctx;
};

// What a job asks of its caller. Each function gets the job's `ctx` and is called on the lane's thread; `stopped` also
// on the threads of helpers.
struct vx_caller {
  // Called once, when the sizes, the job's counts and row_counts are known; not called if the job has no tensors. Sets
  // *block to layout->bytes bytes of memory from vx_backend.host_alloc, aligned to VX_TENSOR_ALIGNMENT. If it fails,
  // the run returns its status.
  //
  // If the backend can pin and the job has rows, the memory may instead come from host_pin, or from block_open of the
  // lane's device, with any alignment. The call then sets the job's `pinned` if the whole block lies in such memory, or
  // its `output_ptrs` if single tensors do. With a detector `output_ptrs` stays NULL. For a block of block_open the
  // call may also set `head`.
  enum vx_status (*output)(void *ctx, const struct vx_layout *layout, void **block, struct error *error);
  // Called before an arena of a CPU lane grows to `bytes` beyond VX_SCRATCH_KEPT. The lane frees the excess before the
  // run returns. If the answer is false, the lane asks for the least that it needs; if that is refused too, the run
  // returns VX_OUT_OF_MEMORY. May be NULL.
  bool (*scratch)(void *ctx, size_t bytes);
  // If it returns true, the run ends early with VX_STOPPED. May be NULL.
  //
  // The CPU calls it at least once per 2 * VX_STRIDE rows of its passes (stop.h). The GPU backend calls it in jobs that
  // may take long, once the host has waited for a millisecond; then kernels that may take long end early
  // (cuda/base/stop.cuh). A detection also calls it before the backbone, and before each run of the network.
  bool (*stopped)(void *ctx);
  // Like vx_parallel_for, for two or more tasks. NULL: the run's own worker does the tasks in turn.
  enum vx_status (*parallel_for)(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                 struct error *error);
  // On a GPU: called, perhaps several times, while the host would only wait for kernels. On the CPU: called before
  // points are moved in place. May be NULL.
  void (*waiting)(void *ctx);
};

struct vx_job {
  // In. All memory is the caller's and outlives the run.
  enum vx_op op;
  union {
    struct vx_voxelize voxelize;
    struct vx_fps fps;
    struct vx_range_image image;
    struct vx_nms nms;
    struct vx_decode decode;
    struct vx_scatter scatter;
    struct vx_decode_center center;
    struct vx_detect detect;  // also of VX_BACKBONE
    struct vx_serialize serialize;
  } params;                               // of the operation
  struct vx_input inputs[VX_MAX_INPUTS];  // in the order of the operation's row
  vx_tensor_set tensors;                  // to write; empty: only the counts
  const struct vx_chain *chain;           // steps before the operation; NULL: none, which `points` does not allow
  // How the points move before the chain; NULL: they stay. A CPU moves them in the memory of the input, so it can run
  // the job only once. A GPU moves its copy.
  struct vx_deskew *deskew;
  int32_t num_clouds;            // 1..VX_MAX_CLOUDS
  const int32_t *point_counts;   // [num_clouds]: rows of the first input; sum N. Unused if rows_carry_cloud_index
  struct vx_sections sections;   // only if the job has one cloud, and a chain or an operation that is `sectioned`
  const int32_t *sample_counts;  // [num_clouds], 0 or more each; may be NULL if nothing is sampled
  const struct vx_caller *caller;
  void *ctx;
  // The points or the output block may lie in memory of host_pin or block_open, which the CPU must not touch. `output`
  // may set this.
  bool pinned;
  // [VX_TENSOR_COUNT], or NULL: memory of host_pin or block_open for single tensors. `output` may set this. Tensors
  // with a NULL pointer are in the block, as vx_layout_pack lays them out.
  void *const *output_ptrs;
  // [head_bytes] of the host, which a voxelization copies to the bytes right before its block. NULL: nothing.
  const void *head;
  size_t head_bytes;
  // How many other workers are idle when the run begins, and could do tasks of the job. The run sizes its tasks by it.
  int32_t helpers;
  struct vx_stop *stop;  // set by the run, on the CPU

  // Out.
  int32_t *row_counts;  // [num_clouds], caller's memory: output rows of each cloud, if known only after the run
  struct vx_counts counts;
  struct vx_track_counts tracked;  // filled by the caller of a detection
  struct vx_chain_report *report;  // caller's memory, if the job has a chain
  int64_t stage_ns[VX_STAGE_COUNT];
};

// What a lane is opened for. Any lane runs any job. Jobs that sample, search for neighbours (step.h), or compare many
// boxes, can take long, so they have lanes of their own, with a lower priority than the quick lanes.
enum vx_lane_use { VX_LANE_QUICK, VX_LANE_LONG, VX_LANE_DETECT, VX_LANE_USES };

struct vx_description {
  char name[128];          // "CPU: AMD EPYC ...", "NVIDIA H200"
  int64_t memory_bytes;    // the device's memory; 0 if the device uses the host's
  int compute_capability;  // 90 for 9.0; 0 on a CPU
  bool integrated;         // a GPU that shares the host's memory, such as a Jetson
};

// Device memory that another process has allocated.
struct vx_block {
  char *memory;  // address for the device, not for the CPU
  size_t bytes;
};
enum { VX_HANDLE_SIZE = 64 };  // bytes of the handle of such memory

// Bytes of a block to copy to the host: from byte `from` of the block to byte `to` of the host's copy.
struct vx_piece {
  uint64_t from;
  uint32_t to, bytes;
};
enum { VX_MAX_PIECES = 2304, VX_MAX_PIECES_BYTES = 768 << 10 };  // of one copy

struct vx_backend {
  const char *name;  // "cpu", "cuda"

  // Counts the devices. If there is none, fails and says why: no driver, a driver that is too old, or no device.
  VX_WARN_UNUSED enum vx_status (*count)(int *count, struct error *error);
  // On success *device belongs to the caller until close.
  VX_WARN_UNUSED enum vx_status (*open)(int index, struct vx_device **device, struct error *error);
  void (*close)(struct vx_device *device);
  void (*describe)(const struct vx_device *device, struct vx_description *description);

  // A lane holds the scratch of one worker, which grows to what the jobs need and is not cleared as a whole.
  VX_WARN_UNUSED enum vx_status (*lane_open)(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                             struct error *error);
  void (*lane_close)(struct vx_lane *lane);
  // The stream in which sessions of networks run on this lane. NULL: networks run on the host's processors.
  void (*device_stream)(const struct vx_lane *lane, struct vx_device_stream *stream);
  // Whether the backend can do the job's operation and tensors. `run` requires such a job. The CPU can do all; a GPU
  // needs a session for a detection.
  bool (*runs)(const struct vx_job *job);
  VX_WARN_UNUSED enum vx_status (*run)(struct vx_lane *lane, struct vx_job *job, struct error *error);

  // Memory for the input and output of jobs, aligned to 4096 bytes; NULL if there is none left. A GPU backend pins it
  // for all of its devices, if it can.
  void *(*host_alloc)(struct vx_device *device, size_t bytes);
  void (*host_release)(struct vx_device *device, void *memory, size_t bytes);

  // Pins whole pages that the caller has mapped, for all devices of the backend. Devices then read and write the pages
  // in place, even if the owner of the shared memory truncates it. The CPU must not touch the pages, since an access
  // would then raise a signal. A backend that can pin also writes zeros between the tensors of an output. NULL: the
  // backend cannot pin.
  VX_WARN_UNUSED enum vx_status (*host_pin)(struct vx_device *device, void *memory, size_t bytes, struct error *error);
  // False if a device may still use these addresses. Then the pages must stay mapped.
  VX_WARN_UNUSED bool (*host_unpin)(struct vx_device *device, void *memory);

  // Opens a block of this device's memory by its handle, [VX_HANDLE_SIZE]. The block stays until block_close, even if
  // its owner frees it or ends. Opening a block again gives the same address. NULL: the backend has no such memory.
  VX_WARN_UNUSED enum vx_status (*block_open)(struct vx_device *device, const void *handle, struct vx_block *block,
                                              struct error *error);
  // Call this when no kernel uses the block any more.
  void (*block_close)(struct vx_device *device, void *memory);
  // Copies between a block and the host's memory, and waits for the copy.
  VX_WARN_UNUSED enum vx_status (*block_copy)(struct vx_device *device, void *to, const void *from, size_t bytes,
                                              struct error *error);
  // Begins to copy up to VX_MAX_PIECES pieces of a block to the host, with up to VX_MAX_PIECES_BYTES together. The
  // lane's job may run meanwhile.
  VX_WARN_UNUSED enum vx_status (*block_sample)(struct vx_lane *lane, const void *memory, const struct vx_piece *piece,
                                                int32_t count, struct error *error);
  // Waits for the copy that the lane began last. *out then points to the host's copy, until the next one begins.
  VX_WARN_UNUSED enum vx_status (*block_await)(struct vx_lane *lane, const char **out, struct error *error);
};

#endif

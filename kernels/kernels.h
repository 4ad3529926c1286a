// The one C interface to the computation: what a job is, what a backend must do.
//
// A job is one operation (enum vx_op) on inputs. voxelize.h, fps.h, transform.h, boxes.h, decode.h, center.h and
// scatter.h say what each operation means, maps.h and encode.h what voxelize adds; ops.h has a row for each. A backend
// is a table of function pointers (struct vx_backend): kernels/cpu fills one, kernels/cuda another. Nothing in here
// knows HTTP, JSON or sockets, and nothing outside kernels/cuda includes a CUDA header.
//
// Threads: all threads may share a device; a lane belongs to one thread at a time. Errors are values: a call that can
// fail returns a vx_status and fills the caller's struct error, if it takes one.
#ifndef VOXELD_KERNELS_H
#define VOXELD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/center.h"
#include "kernels/decode.h"
#include "kernels/detect.h"
#include "kernels/encode.h"
#include "kernels/error.h"
#include "kernels/fps.h"
#include "kernels/maps.h"
#include "kernels/scatter.h"
#include "kernels/stop.h"
#include "kernels/tensor.h"
#include "kernels/transform.h"
#include "kernels/voxelize.h"

enum {
  VX_MIN_FEATURES = 3,   // x, y, z come first
  VX_MAX_FEATURES = 64,  // columns of one row
  VX_MAX_CLOUDS = 1024,  // clouds of one batch
  VX_MAX_SECTIONS = 64,  // of a cloud
};
#define VX_MAX_POINTS INT64_C(2147483647)  // points of one job: point_voxel_ids is int32

enum vx_op { VX_VOXELIZE, VX_FPS, VX_TRANSFORM, VX_NMS, VX_DECODE, VX_SCATTER, VX_DECODE_CENTER, VX_DETECT, VX_OPS };

// The inputs of a job; the number of each is its place in the operation's row. The first has a row for each thing that
// the operation is about. That of most operations is `points`: [N, C], x, y and z first.
enum { VX_POINTS, VX_MATRIX };
enum { VX_MAX_INPUTS = 6 };

// The input `points`, [rows, columns].
static inline struct vx_input vx_points_of(enum vx_dtype dtype, int64_t rows, int32_t columns, const void *data) {
  struct vx_input input = {dtype, 2, {rows, columns, 0}, data};
  return input;
}

// Each row of the first input has one fate; the counts of the fates add up to `received`. If an operation samples
// points, `kept` counts the candidates.
struct vx_counts {
  int64_t received, kept, not_finite, out_of_range, over_voxel_cap, over_max_voxels, block_filtered;
  int64_t out_of_crop, cut_out;
  int64_t below_threshold, over_max_objects, invalid, outside, over_pre_max, suppressed, over_post_max;
  int64_t duplicate;
  int64_t voxels_kept, voxels_dropped, voxels_block_filtered;
  int64_t sampled;
};

// Sections of a lone cloud, such as the sweeps that it is joined of: stretches of its points, one behind the other,
// whose fates are counted apart. The counts of all sections add up to the job's, but those of voxels and samples.
struct vx_sections {
  int32_t count;             // 0..VX_MAX_SECTIONS; 0 = none is counted apart
  const int32_t *points;     // [count]: of each; their sum is N
  struct vx_counts *counts;  // out; [count], caller's memory
};

enum vx_stage {
  VX_STAGE_COPY_IN,
  VX_STAGE_VOXELIZE,
  VX_STAGE_FEATURES,
  VX_STAGE_ENCODER,
  VX_STAGE_SCATTER,
  VX_STAGE_SAMPLE,
  VX_STAGE_TRANSFORM,
  VX_STAGE_NETWORK,
  VX_STAGE_DECODE,
  VX_STAGE_NMS,
  VX_STAGE_COPY_OUT,
  VX_STAGE_COUNT
};
#define VX_STAGE_BIT(stage) (1u << (stage))

// A CPU lane keeps at most this much scratch between jobs. Scans of several hundred thousand points need no more.
#define VX_SCRATCH_KEPT ((size_t)64 << 20)

struct vx_device;
struct vx_lane;

// A thread at work on a job, with a lane of its own. The first is that of the job's run; others may help.
struct vx_worker {
  struct vx_lane *lane;
  struct vx_stop *stop;  // as vx_caller.stopped; for a worker that helps, true also once the worker has other work
};

// Parts of a job's work, which workers do in any order and at the same time. What a task writes is its own, scratch
// aside.
struct vx_tasks {
  int32_t count;
  // Does one task. If a worker that helps comes to anything but VX_OK, another does the task from its beginning.
  enum vx_status (*run)(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error);
  void *ctx;
};

// What a job asks of its caller. Each function is called with the job's `ctx`, on the lane's thread; `stopped` also on
// the threads of other workers.
struct vx_caller {
  // Called once, when the sizes are known; not called if the job has no tensors. Gives layout->bytes bytes of
  // VX_TENSOR_ALIGNMENT-aligned memory (from vx_backend.host_alloc), or a status other than VX_OK, which the run then
  // returns. The job's counts and row_counts are already filled.
  //
  // If the backend can pin and the job has rows, it may be memory of host_pin, aligned in any way: for the block, with
  // the job's `pinned` set, or for single tensors, with its `output_ptrs` set. A detection has none.
  enum vx_status (*output)(void *ctx, const struct vx_layout *layout, void **block, struct error *error);
  // Called before a CPU lane takes more than VX_SCRATCH_KEPT bytes of scratch. It gives back what is above that before
  // the run returns. If the answer is false, the lane asks for the least that it needs; if that is refused too, the run
  // returns VX_OUT_OF_MEMORY. May be NULL.
  bool (*scratch)(void *ctx, size_t bytes);
  // If it returns true, the run ends early with VX_STOPPED. May be NULL.
  //
  // The CPU calls it at least once per 2 * VX_STRIDE rows of its passes, whatever the operation (stop.h). A GPU calls
  // it while samples are chosen or boxes compared, since all other kernels are short; a network is asked between its
  // runs.
  bool (*stopped)(void *ctx);
  // As vx_parallel_for, for two tasks and more. May be NULL: the run's own worker does them in turn.
  enum vx_status (*parallel_for)(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                 struct error *error);
  // As vx_workers; may be NULL: one.
  int32_t (*workers)(void *ctx);
};

struct vx_job {
  // In; all memory is the caller's and outlives the call.
  enum vx_op op;
  union {
    struct vx_voxelize voxelize;
    struct vx_fps fps;
    struct vx_transform transform;
    struct vx_nms nms;
    struct vx_decode decode;
    struct vx_scatter scatter;
    struct vx_decode_center center;
    struct vx_detect detect;
  } params;                               // of the operation
  struct vx_input inputs[VX_MAX_INPUTS];  // as the operation's row has them
  vx_tensor_set tensors;                  // to write; none = only the counts
  int32_t num_clouds;                     // 1..VX_MAX_CLOUDS
  const int32_t *point_counts;   // [num_clouds]: rows of the first input; their sum is N. Unused if rows name it
  struct vx_sections sections;   // only of a lone cloud, and of an operation that is `sectioned`
  const int32_t *sample_counts;  // [num_clouds], 0 or more each; may be NULL if nothing is sampled
  const struct vx_caller *caller;
  void *ctx;
  bool pinned;  // points or block may lie in memory of host_pin, which the device alone touches; `output` may set it
  // [VX_TENSOR_COUNT], or NULL: the tensors that go to memory of host_pin, each by itself. `output` may set it. The
  // others, whose pointer is NULL, are in the block, as vx_layout_pack lays them out.
  void *const *output_ptrs;
  struct vx_stop *stop;  // of the run, on the CPU: set by it

  // Out.
  int32_t *row_counts;  // [num_clouds], caller's memory: rows of each cloud, if only the run shows their number
  struct vx_counts counts;
  int64_t stage_ns[VX_STAGE_COUNT];
};

// What a lane is opened for. Any lane runs any job. Jobs that sample or compare many boxes can take long, so they go to
// lanes of their own, which give way to the quick ones. Detections take longer than quick jobs too.
enum vx_lane_use { VX_LANE_QUICK, VX_LANE_LONG, VX_LANE_DETECT, VX_LANE_USES };

struct vx_description {
  char name[128];          // "CPU: AMD EPYC ...", "NVIDIA H200"
  int64_t memory_bytes;    // of the device; 0 if it is the host's
  int compute_capability;  // 90 for 9.0; 0 on a CPU
  bool integrated;         // a GPU that shares the host's memory, as a Jetson's does
};

struct vx_backend {
  const char *name;  // "cpu", "cuda"

  // Counts the devices. If there is none, the error says why: no driver, a driver that is too old, no device.
  VX_WARN_UNUSED enum vx_status (*count)(int *count, struct error *error);
  // Opens device number `index`. On success *device is the caller's until close.
  VX_WARN_UNUSED enum vx_status (*open)(int index, struct vx_device **device, struct error *error);
  void (*close)(struct vx_device *device);
  void (*describe)(const struct vx_device *device, struct vx_description *description);

  // A lane holds the scratch of one worker. The scratch grows to what the jobs need and is reused, never cleared whole.
  VX_WARN_UNUSED enum vx_status (*lane_open)(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                             struct error *error);
  void (*lane_close)(struct vx_lane *lane);
  // Says where networks can have a session on the lane: fills `device` and `stream`. NULL: the lanes have no such
  // place, and networks run on the host's processors.
  void (*device_stream)(const struct vx_lane *lane, struct vx_device_stream *stream);
  // Whether the backend has the job's operation and tensors. The CPU has all; others need a session for a detection.
  // `run` expects a job that the backend has.
  bool (*runs)(const struct vx_job *job);
  VX_WARN_UNUSED enum vx_status (*run)(struct vx_lane *lane, struct vx_job *job, struct error *error);

  // Memory for the input and output of jobs, aligned to 4096 bytes; NULL if there is none. A GPU backend pins it for
  // all of its devices, if it can.
  void *(*host_alloc)(struct vx_device *device, size_t bytes);
  void (*host_free)(struct vx_device *device, void *memory, size_t bytes);

  // Pins whole pages that the caller has mapped, for all devices of the backend. Devices then read and write them in
  // place, even if others take the pages out of the mapping, as the owner of shared memory can. The CPU would get a
  // signal there, so neither the backend nor its driver touches them on the CPU. A backend that can pin writes zeros
  // between the tensors of an output, too. NULL: it cannot.
  VX_WARN_UNUSED enum vx_status (*host_pin)(struct vx_device *device, void *memory, size_t bytes, struct error *error);
  // False if a device may still reach the pages by these addresses: then they must stay mapped.
  VX_WARN_UNUSED bool (*host_unpin)(struct vx_device *device, void *memory);
};

#endif

// The one C interface to the computation: what a job is, what a backend must do.
//
// A backend is a table of function pointers (struct vx_backend); kernels/cpu fills one, kernels/cuda another.
// Nothing in here knows HTTP, JSON or sockets, and nothing outside kernels/cuda includes a CUDA header.
//
// Threads: a device may be shared by all threads; a lane belongs to one thread at a time. Errors are values:
// every call that can fail returns a vx_status and, where it takes one, fills a caller-owned struct vx_error.
#ifndef VOXELD_KERNELS_H
#define VOXELD_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VX_WARN_UNUSED __attribute__((warn_unused_result))

enum {
  VX_MIN_FEATURES = 3,             // x, y, z come first
  VX_MAX_FEATURES = 64,            // columns of one row
  VX_MAX_POINTS_PER_VOXEL = 1024,  // the largest cap; 0 means none
  VX_MAX_VOXELS = 1 << 24,         // per cloud
  VX_MAX_CLOUDS = 1024,            // clouds of one batch
  VX_MAX_BLOCK_SIZE = 32,          // window of the block filter, in blocks
  VX_TENSOR_ALIGNMENT = 64,        // bytes
};
#define VX_MAX_AXIS_CELLS INT64_C(2147483647)  // cells along one axis
#define VX_MAX_GRID_CELLS (INT64_C(1) << 62)   // cells of the grid times clouds of the batch
#define VX_MAX_POINTS INT64_C(2147483647)      // points of one job: point_voxel_ids is int32

// Why a call failed; the classes a caller can act on.
enum vx_status {
  VX_OK,
  VX_REFUSED,        // the request cannot be satisfied; error text says why
  VX_OUT_OF_MEMORY,  // host or device; the same job may succeed later
  VX_DEVICE_LOST,    // nothing more may be run on this device
  VX_STOPPED,        // the job's own `stopped` said so
  VX_STATUS_COUNT,
};

struct vx_error {
  char text[256];
};

enum vx_dtype { VX_FLOAT32, VX_FLOAT16, VX_INT32, VX_UINT8 };
enum vx_order { VX_ORDER_FIRST, VX_ORDER_KEY };  // voxels by first appearance, or by ascending (x, y, z) in each cloud
enum vx_fill { VX_FILL_ZERO, VX_FILL_MEAN };     // what pads `voxels`

// spconv's block filter: the grid's x-y plane is cut into blocks of factor x factor cells; a voxel stays if the heights (z)
// of the kept points in the size x size blocks around it span more than `low` and less than `high` metres. The window of
// block b is [b - size/2, b + size - size/2) on both axes, clipped to the grid.
struct vx_block_filter {
  bool enabled;
  int32_t factor;  // >= 1
  int32_t size;    // 1..VX_MAX_BLOCK_SIZE, in blocks
  float low, high;
};

// What farthest point sampling chooses from.
enum vx_sampling {
  VX_SAMPLE_NONE,    // nothing is sampled
  VX_SAMPLE_POINTS,  // the points of each cloud; no voxels are made
  VX_SAMPLE_VOXELS,  // the mean of each voxel, as float32, in the order of the rows
};

// The tensors that a job can write. Their names, dtypes and shapes stand in one table (tensors.c).
enum vx_tensor {
  VX_VOXEL_COORDS,
  VX_VOXEL_NUM_POINTS,
  VX_VOXELS,
  VX_VOXEL_FEATURES,
  VX_PILLAR_FEATURES,
  VX_POINT_VOXEL_IDS,
  VX_VOXEL_POINT_MASK,
  VX_SAMPLED_INDICES,
  VX_SAMPLED_POINTS,
  VX_SAMPLED_DISTANCES,
  VX_TENSOR_COUNT,
};
#define VX_TENSOR_BIT(tensor) (1u << (tensor))
#define VX_VOXEL_TENSORS (VX_TENSOR_BIT(VX_SAMPLED_INDICES) - 1)
#define VX_SAMPLED_TENSORS (VX_TENSOR_BIT(VX_TENSOR_COUNT) - VX_TENSOR_BIT(VX_SAMPLED_INDICES))

// Farthest point sampling, of each cloud on its own, among its candidates: those of its points or voxel means whose x, y
// and z are finite. The first sample is the first candidate from number `start` on or, where none follows, of all. Each next
// one is the candidate of the largest distance to those chosen before it, the first of these if there are several;
// distances are float32, squared: (dx*dx + dy*dy) + dz*dz. Numbers count the cloud's points or voxels from 0, the others
// that are not candidates included.
struct vx_sampling_params {
  enum vx_sampling from;
  int32_t start;
  bool stacked;      // all clouds' samples follow on each other; else each cloud has as many, and a row of them
  int64_t max_work;  // the most that points (or voxels) times samples, summed over the clouds, may be
};

struct vx_params {
  float range_min[3], range_max[3];  // x, y, z; metres
  float voxel_size[3];               // x, y, z; metres
  int32_t num_features;              // C
  int32_t max_points_per_voxel;      // P; 0 = no cap
  int32_t max_voxels;                // per cloud
  enum vx_dtype input_dtype;         // VX_FLOAT32 or VX_FLOAT16
  enum vx_dtype feature_dtype;       // of voxel_features and pillar_features
  enum vx_order order;
  enum vx_fill fill;
  struct vx_block_filter block_filter;
  struct vx_sampling_params sampling;
  uint32_t tensors;  // VX_TENSOR_BIT of each tensor to write; 0 = only the counts
};

// The grid that follows from range and voxel size, in float32, halves away from zero: cells[a] = round((max[a] - min[a]) / size[a]).
struct vx_grid {
  int32_t cells[3];  // x, y, z
};

// Fills `grid`. VX_REFUSED with a reason if an axis has no cell or more than VX_MAX_AXIS_CELLS, or if
// cells x num_clouds exceeds VX_MAX_GRID_CELLS. Expects finite ranges and finite positive voxel sizes.
VX_WARN_UNUSED enum vx_status vx_grid_of(const struct vx_params *params, int32_t num_clouds, struct vx_grid *grid,
                                         struct vx_error *error);

struct vx_shape {
  enum vx_dtype dtype;
  int rank;         // 1..3
  int64_t dims[3];  // outermost first
  size_t bytes;
};

// Where each requested tensor lies in the one output block, VX_TENSOR_ALIGNMENT bytes apart or more.
struct vx_layout {
  uint32_t tensors;                        // those present
  struct vx_shape shape[VX_TENSOR_COUNT];  // of those present
  size_t offset[VX_TENSOR_COUNT];          // from the block's start
  size_t bytes;                            // of the whole block, up to the end of its last tensor
};

const char *vx_tensor_name(enum vx_tensor tensor);
const char *vx_dtype_name(enum vx_dtype dtype);  // as safetensors spells it: F32, F16, I32, U8
size_t vx_dtype_size(enum vx_dtype dtype);

// What the shapes of a job's tensors follow from; each of all clouds together.
struct vx_sizes {
  int64_t points, voxels, clouds, samples;
};

// Lays out the tensors of `params`. VX_REFUSED if the block would not fit a size_t.
VX_WARN_UNUSED enum vx_status vx_layout_of(const struct vx_params *params, const struct vx_sizes *sizes,
                                           struct vx_layout *layout, struct vx_error *error);

// VX_REFUSED with a reason unless every cloud that is to be sampled has as many points (or voxels) as samples and one of
// number `start`, and all work is within max_work. `from` and `samples` are [num_clouds].
VX_WARN_UNUSED enum vx_status vx_check_samples(const struct vx_sampling_params *sampling, int32_t num_clouds,
                                               const int32_t *from, const int32_t *samples, struct vx_error *error);
// The same of one cloud, once it is known how many of its points (or voxels) are candidates.
VX_WARN_UNUSED enum vx_status vx_check_candidates(const struct vx_sampling_params *sampling, int32_t cloud,
                                                  int64_t candidates, int32_t samples, struct vx_error *error);

// Every point has one fate: received = kept + not_finite + out_of_range + over_voxel_cap + over_max_voxels + block_filtered.
// Where no voxels are made, kept are those that may be sampled.
struct vx_counts {
  int64_t received, kept, not_finite, out_of_range, over_voxel_cap, over_max_voxels, block_filtered;
  int64_t voxels_kept, voxels_dropped, voxels_block_filtered;
  int64_t sampled;
};

enum vx_stage {
  VX_STAGE_COPY_IN,
  VX_STAGE_VOXELIZE,
  VX_STAGE_FEATURES,
  VX_STAGE_SAMPLE,
  VX_STAGE_COPY_OUT,
  VX_STAGE_COUNT
};
const char *vx_stage_name(enum vx_stage stage);  // copy_in, voxelize, features, sample, copy_out

// What a CPU lane keeps of its scratch between jobs, at most. Scans of several hundred thousand points need no more.
#define VX_SCRATCH_KEPT ((size_t)64 << 20)

struct vx_job {
  // In; all memory is the caller's and outlives the call.
  struct vx_params params;
  const void *points;            // [N, C] params.input_dtype, little-endian, 64-byte aligned; N = sum of point_counts
  int32_t num_clouds;            // 1..VX_MAX_CLOUDS
  const int32_t *point_counts;   // [num_clouds]
  const int32_t *sample_counts;  // [num_clouds], 0 or more each; may be NULL where nothing is sampled
  // Called once, on the lane's thread, when the sizes are known: gives layout->bytes bytes of VX_TENSOR_ALIGNMENT-aligned
  // memory (from vx_backend.host_alloc) or sets a status other than VX_OK, which the run then returns. The job's counts and
  // voxel_counts are already filled. Not called when params.tensors is 0.
  enum vx_status (*output)(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error);
  void *output_cls;
  // Asked before a CPU lane takes more than VX_SCRATCH_KEPT bytes of scratch, which it gives back before the run returns; where
  // the answer is false it asks once more, for what it cannot do without, and then returns VX_OUT_OF_MEMORY. May be NULL.
  bool (*scratch)(void *cls, size_t bytes);
  void *scratch_cls;
  // Asked now and then while samples are chosen, which may take long; true: the run ends early with VX_STOPPED. May be NULL.
  bool (*stopped)(void *cls);
  void *stopped_cls;

  // Out.
  int32_t *voxel_counts;  // [num_clouds], caller's memory: rows of each cloud
  struct vx_counts counts;
  int64_t stage_ns[VX_STAGE_COUNT];
};

// As vx_check_samples, for a job whose clouds have `from` points (or voxels) each; fills counts.sampled.
VX_WARN_UNUSED enum vx_status vx_begin_samples(struct vx_job *job, const int32_t *from, struct vx_error *error);

struct vx_device;
struct vx_lane;

// What a lane is opened for. It runs jobs of any kind, but those that sample may keep it busy for long: they then go to
// lanes that give way to others.
enum vx_lane_use { VX_LANE_VOXELIZE, VX_LANE_SAMPLE, VX_LANE_USES };

struct vx_description {
  char name[128];          // "CPU: AMD EPYC ...", "NVIDIA H200"
  int64_t memory_bytes;    // of the device; 0 if it is the host's
  int compute_capability;  // 90 for 9.0; 0 on a CPU
  bool integrated;         // a GPU that shares the host's memory, as a Jetson's does
};

struct vx_backend {
  const char *name;  // "cpu", "cuda"

  // How many devices there are to open; without any, an error that says why (no driver, one that is too old, no device).
  VX_WARN_UNUSED enum vx_status (*count)(int *count, struct vx_error *error);
  // Opens device number `index`. On success *device is the caller's until close.
  VX_WARN_UNUSED enum vx_status (*open)(int index, struct vx_device **device, struct vx_error *error);
  void (*close)(struct vx_device *device);
  void (*describe)(const struct vx_device *device, struct vx_description *description);

  // A lane holds the scratch of one worker; it grows to what its jobs need and is reused, never cleared whole.
  VX_WARN_UNUSED enum vx_status (*lane_open)(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                             struct vx_error *error);
  void (*lane_close)(struct vx_lane *lane);
  VX_WARN_UNUSED enum vx_status (*run)(struct vx_lane *lane, struct vx_job *job, struct vx_error *error);

  // Memory for input and output of jobs, aligned to 4096 bytes; for a GPU pinned, for all devices of the backend, where that
  // can be had. NULL when there is none.
  void *(*host_alloc)(struct vx_device *device, size_t bytes);
  void (*host_free)(struct vx_device *device, void *memory, size_t bytes);
};

extern const struct vx_backend vx_cpu_backend;  // always there
// The backends of this build, the fastest first; NULL ends them.
extern const struct vx_backend *const vx_backends[];
// NULL if this build has none of that name.
const struct vx_backend *vx_backend_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif

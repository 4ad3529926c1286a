// The CUDA backend.
//
// Threads share an open device, which does not change. A lane belongs to one thread at a time. It has a stream, scratch
// that it keeps, and a little pinned memory that host and device share.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "kernels/backends.h"
#include "kernels/cuda/base/block.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/pieces.cuh"
#include "kernels/cuda/boxes/boxes.cuh"
#include "kernels/cuda/detect/detect.cuh"
#include "kernels/cuda/fps/fps.cuh"
#include "kernels/cuda/image/image.cuh"
#include "kernels/cuda/scatter/scatter.cuh"
#include "kernels/cuda/serialize/serialize.cuh"
#include "kernels/cuda/sparse/sparse.h"
#include "kernels/cuda/steps/steps.cuh"
#include "kernels/cuda/voxelize/voxelize.cuh"

enum { LEAST_CAPABILITY = 75, PAGE = 4096 };

// Never launched. Its attributes show whether this program has code for the device.
static __global__ void probe_kernel() {}

// CUDA gives the same error for a missing driver and for a driver that is too old.
static void explain_driver(struct error *error) {
  int driver = 0;
  bool known = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
  (void)cudaGetLastError();
  if (known) {
    (void)vx_refuse(error, "the NVIDIA driver is too old: it supports CUDA %d.%d, this program needs %d.%d",
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  } else {
    (void)vx_refuse(error, "there is no NVIDIA driver on this machine");
  }
}

static enum vx_status count_devices(int *count, struct error *error) {
  // Loads all kernels when a device is opened, not in the first job. Must precede the first CUDA call.
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  *count = 0;
  cudaError_t result = cudaGetDeviceCount(count);
  enum vx_status status = cuda_check(result, "cudaGetDeviceCount", error);
  if (result == cudaErrorInsufficientDriver) explain_driver(error);
  return status;
}

static enum vx_status inspect(int index, struct vx_device *device, struct error *error) {
  struct vx_description *description = &device->description;
  int count = 0;
  CUDA_TRY(count_devices(&count, error));
  if (index < 0 || index >= count) return vx_refuse(error, "there is no CUDA device %d: there are %d", index, count);
  struct cudaDeviceProp properties;
  CUDA_CALL(cudaGetDeviceProperties(&properties, index), error);
  snprintf(description->name, sizeof description->name, "%.120s", properties.name);
  description->integrated = properties.integrated != 0;
  description->memory_bytes = description->integrated ? 0 : (int64_t)properties.totalGlobalMem;
  description->compute_capability = 10 * properties.major + properties.minor;
  if (description->compute_capability < LEAST_CAPABILITY)
    return vx_refuse(error, "%.120s has compute capability %d.%d; 7.5 or later is needed", properties.name,
                     properties.major, properties.minor);
  struct cudaFuncAttributes attributes;
  CUDA_CALL(cudaSetDevice(index), error);
  CUDA_CALL(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), error);  // long waits sleep: see cuda_await
  CUDA_CALL(cudaFuncGetAttributes(&attributes, probe_kernel), error);
  // cuda_wait does nothing in code that was compiled for older devices, even if a newer device runs it.
  device->overlap = description->compute_capability >= 90 && attributes.ptxVersion >= 90;
  int driver = 0;
  CUDA_CALL(cudaDriverGetVersion(&driver), error);
  // Since CUDA 12.3 a graph can hold kernels that overlap.
  device->graphs = !device->overlap || (CUDART_VERSION >= 12030 && driver >= 12030);
  device->index = index;
  device->multiprocessors = (unsigned)properties.multiProcessorCount;
  CUDA_TRY(cuda_find_pool(device, error));
  return cuda_fps_prepare_device(device, error);
}

static enum vx_status open_device(int index, struct vx_device **device, struct error *error) {
  struct vx_device inspected = {};
  CUDA_TRY(inspect(index, &inspected, error));
  *device = (struct vx_device *)malloc(sizeof **device);
  if (!*device) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for CUDA device %d", index);
  **device = inspected;
  return VX_OK;
}

static void close_device(struct vx_device *device) { free(device); }

static void describe(const struct vx_device *device, struct vx_description *description) {
  *description = device->description;
}

static void close_lane(struct vx_lane *lane) {
  if (!lane) return;
  // Errors are ignored: on a lost device all of these calls fail.
  (void)cudaSetDevice(lane->device->index);
  if (lane->stream) (void)cudaStreamSynchronize(lane->stream);
  cuda_sparse_release(lane);
  cuda_release_all(lane);
  (void)cudaFreeHost((void *)lane->status);
  (void)cudaFreeHost(lane->commands);
  (void)cudaFreeHost(lane->pieces);
  if (lane->stream) (void)cudaStreamDestroy(lane->stream);
  (void)cudaGetLastError();
  free(lane);
}

static enum vx_status fill_lane(struct vx_lane *lane, enum vx_lane_use use, struct error *error) {
  if (getrandom(lane->seed, sizeof lane->seed, 0) != (ssize_t)sizeof lane->seed)
    return vx_refuse(error, "no random numbers: %s", strerror(errno));
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  int lowest, highest;
  CUDA_CALL(cudaDeviceGetStreamPriorityRange(&lowest, &highest), error);
  int priority = use == VX_LANE_LONG ? lowest : highest;
  CUDA_CALL(cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, priority), error);
  void *status;
  CUDA_CALL(cudaHostAlloc(&status, sizeof(struct cuda_device_status), cudaHostAllocMapped), error);
  memset(status, 0, sizeof(struct cuda_device_status));
  lane->status = (volatile struct cuda_device_status *)status;
  CUDA_CALL(cudaHostGetDevicePointer((void **)&lane->status_on_device, status, 0), error);
  CUDA_CALL(cudaHostAlloc((void **)&lane->commands, sizeof *lane->commands, cudaHostAllocMapped), error);
  memset(lane->commands, 0, sizeof *lane->commands);
  CUDA_CALL(cudaHostGetDevicePointer((void **)&lane->commands_on_device, lane->commands, 0), error);
  return cuda_presize(lane, error);
}

static enum vx_status open_lane(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                struct error *error) {
  struct vx_lane *opened = (struct vx_lane *)calloc(1, sizeof *opened);
  if (!opened) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a CUDA lane");
  opened->device = device;
  enum vx_status status = fill_lane(opened, use, error);
  if (status != VX_OK) {
    close_lane(opened);
    return status;
  }
  *lane = opened;
  return VX_OK;
}

static void device_stream(const struct vx_lane *lane, struct vx_device_stream *stream) {
  stream->device = lane->device->index;
  stream->handle = lane->stream;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

// NULL for VX_DETECT and VX_BACKBONE, which cuda_detect runs.
static cuda_operation *operation_of(enum vx_op op) {
  switch (op) {
    case VX_VOXELIZE: return cuda_voxelize;
    case VX_FPS: return cuda_sample_points;
    case VX_POINTS_OP:
    case VX_TRANSFORM: return cuda_points;
    case VX_NMS: return cuda_nms;
    case VX_DECODE: return cuda_decode;
    case VX_SCATTER: return cuda_scatter;
    case VX_SERIALIZE: return cuda_serialize;
    case VX_DECODE_CENTER: return cuda_decode_center;
    case VX_RANGE_IMAGE_OP: return cuda_range_image;
    case VX_DETECT:
    case VX_BACKBONE:
    case VX_OPS: break;
  }
  return NULL;
}

static bool runs(const struct vx_job *job) {
  return vx_operations[job->op].needs_detector ? cuda_detects(job) : operation_of(job->op) != NULL;
}

static enum vx_status run_operation(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  return vx_operations[job->op].needs_detector ? cuda_detect(lane, job, error)
                                               : cuda_run_job(lane, job, operation_of(job->op), NULL, error);
}

// De-skews the points in a chain without steps, for operations whose first kernels do not.
static enum vx_status run_moved(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_chain none = {};
  struct vx_chain_report unread = {}, *report = job->report;
  job->chain = &none;
  job->report = &unread;
  enum vx_status status = cuda_run_chain(lane, job, run_operation, error);
  job->chain = NULL;
  job->report = report;
  return status;
}

static enum vx_status run_job(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  if (job->deskew) job->deskew->moved = job->deskew->clamped = 0;
  bool apart = job->deskew && !job->chain && (job->op == VX_FPS || job->op == VX_RANGE_IMAGE_OP);
  CUDA_TRY(apart        ? run_moved(lane, job, error)
           : job->chain ? cuda_run_chain(lane, job, run_operation, error)
                        : run_operation(lane, job, error));
  return cuda_trim(lane, error);
}

// ---- memory of the host ---------------------------------------------------------------------------------------------

// Whole pages, because CUDA pins pages. CUDA's own allocator of pinned memory does not promise page alignment.
static size_t mapped(size_t bytes) { return bytes > SIZE_MAX - PAGE ? 0 : (bytes / PAGE + 1) * PAGE; }

// Memory that cannot be pinned, as on a lost device, is still usable, though copies are slower. On an integrated GPU,
// registering only gives the pages device addresses.
static void *alloc_host(struct vx_device *device, size_t bytes) {
  if (mapped(bytes) == 0) return NULL;
  void *memory = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  (void)cudaSetDevice(device->index);
  (void)cudaHostRegister(memory, mapped(bytes), cudaHostRegisterPortable);
  (void)cudaGetLastError();
  return memory;
}

static void release_host(struct vx_device *device, void *memory, size_t bytes) {
  if (memory) {
    // If the device is lost, other devices may still map these addresses to the present pages. So the addresses are not
    // given back.
    if (cuda_unpin(device, memory)) munmap(memory, mapped(bytes));
  }
}

static constexpr struct vx_backend backend() {
  struct vx_backend table = {};
  table.name = "cuda";
  table.count = count_devices;
  table.open = open_device;
  table.close = close_device;
  table.describe = describe;
  table.lane_open = open_lane;
  table.lane_close = close_lane;
  table.device_stream = device_stream;
  table.runs = runs;
  table.run = run_job;
  table.host_alloc = alloc_host;
  table.host_release = release_host;
  table.host_pin = cuda_pin;
  table.host_unpin = cuda_unpin;
  table.block_open = cuda_open_block;
  table.block_close = cuda_close_block;
  table.block_copy = cuda_copy_block;
  table.block_sample = cuda_sample_block;
  table.block_await = cuda_await_block;
  return table;
}

extern "C" const struct vx_backend vx_cuda_backend = backend();

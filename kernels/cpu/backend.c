// The CPU backend: its table, device, lanes and host memory.
//
// A device is constant, so all threads share it. A lane belongs to one thread at a time.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "kernels/backends.h"
#include "kernels/cpu/base/base.h"
#include "kernels/cpu/boxes/boxes.h"
#include "kernels/cpu/detect/detect.h"
#include "kernels/cpu/fps/fps.h"
#include "kernels/cpu/image/image.h"
#include "kernels/cpu/scatter/scatter.h"
#include "kernels/cpu/serialize/serialize.h"
#include "kernels/cpu/steps/steps.h"
#include "kernels/cpu/voxelize/voxelize.h"
#include "kernels/ops.h"

struct vx_device {
  struct vx_description description;
};

// From /proc/cpuinfo, which has it on x86.
static void name_processor(char *name, size_t size) {
  snprintf(name, size, "CPU");
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  char line[256], model[112];
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "model name : %111[^\n]", model) == 1) {
      snprintf(name, size, "CPU: %s", model);
      break;
    }
  }
  fclose(file);
}

static enum vx_status count_devices(int *count, struct error *error) {
  (void)error;
  *count = 1;
  return VX_OK;
}

static enum vx_status open_device(int index, struct vx_device **device, struct error *error) {
  if (index != 0) return vx_refuse(error, "there is no CPU device %d: all processors are device 0", index);
  *device = calloc(1, sizeof **device);
  if (!*device) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for the CPU device");
  name_processor((*device)->description.name, sizeof(*device)->description.name);
  return VX_OK;
}

static void close_device(struct vx_device *device) { free(device); }

static void describe(const struct vx_device *device, struct vx_description *description) {
  *description = device->description;
}

static enum vx_status open_lane(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                struct error *error) {
  (void)device, (void)use;
  *lane = calloc(1, sizeof **lane);
  if (!*lane) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a CPU lane");
  if (getrandom((*lane)->seed, sizeof(*lane)->seed, 0) != (ssize_t)sizeof(*lane)->seed) {
    enum vx_status status = vx_refuse(error, "no random numbers: %s", strerror(errno));
    free(*lane);
    return status;
  }
  (*lane)->base = (uint32_t)(*lane)->seed[0];  // random, so that zeroed slots rarely look like numbers (cell_index.h)
  return VX_OK;
}

static void close_lane(struct vx_lane *lane) {
  cpu_arena_trim(&lane->scratch, 0);
  cpu_arena_trim(&lane->chain, 0);
  cpu_arena_trim(&lane->between, 0);
  cpu_arena_trim(&lane->levels, 0);
  cpu_arena_trim(&lane->sparse, 0);
  free(lane);
}

static cpu_operation *const operations[VX_OPS] = {
    [VX_VOXELIZE] = cpu_voxelize,
    [VX_FPS] = cpu_sample_points,
    [VX_POINTS_OP] = cpu_points,
    [VX_TRANSFORM] = cpu_points,
    [VX_NMS] = cpu_nms,
    [VX_DECODE] = cpu_decode,
    [VX_SCATTER] = cpu_scatter,
    [VX_DECODE_CENTER] = cpu_decode_center,
    [VX_DETECT] = cpu_detect,
    [VX_BACKBONE] = cpu_detect,
    [VX_SERIALIZE] = cpu_serialize,
    [VX_RANGE_IMAGE_OP] = cpu_range_image,
};

static bool runs(const struct vx_job *job) { return operations[job->op] != NULL; }

// `waiting` comes first, so that the caller can still read the points as they were sent.
static enum vx_status deskew(const struct vx_job *job, struct error *error) {
  const struct vx_input *points = &job->inputs[VX_POINTS];
  if (job->caller && job->caller->waiting) job->caller->waiting(job->ctx);
  job->deskew->moved = job->deskew->clamped = 0;
  vx_deskew_rows(job->deskew, (int32_t)points->dims[1], points->dims[0], job->stop, (float *)points->data);
  return vx_stop_status(job->stop, error);
}

static enum vx_status run(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_caller *caller = job->caller;
  struct vx_stop stop = {caller ? caller->stopped : NULL, job->ctx, 0, false};
  enum vx_status status = vx_begin_job(job, error);
  job->stop = &stop;
  lane->points = job->inputs[VX_POINTS];
  if (status == VX_OK && job->deskew) status = deskew(job, error);
  if (status == VX_OK)
    status = job->chain ? cpu_run_chain(lane, job, operations[job->op], error) : operations[job->op](lane, job, error);
  job->stop = NULL;
  if (status == VX_STOPPED && !vx_operations[job->op].needs_detector) status = vx_end_stopped(job, error);
  cpu_arena_trim(&lane->scratch, VX_SCRATCH_KEPT);
  cpu_arena_trim(&lane->chain, VX_SCRATCH_KEPT - lane->scratch.bytes);  // together at most VX_SCRATCH_KEPT
  cpu_arena_trim(&lane->between, VX_SCRATCH_KEPT);
  cpu_arena_trim(&lane->levels, VX_SCRATCH_KEPT);
  cpu_arena_trim(&lane->sparse, VX_SCRATCH_KEPT);
  return status;
}

// mmap takes at least one byte.
static size_t mapped(size_t bytes) { return bytes == 0 ? 1 : bytes; }

static void *alloc_host(struct vx_device *device, size_t bytes) {
  (void)device;
  void *memory = mmap(NULL, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void release_host(struct vx_device *device, void *memory, size_t bytes) {
  (void)device;
  if (memory) munmap(memory, mapped(bytes));
}

const struct vx_backend vx_cpu_backend = {
    .name = "cpu",
    .count = count_devices,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .lane_open = open_lane,
    .lane_close = close_lane,
    .runs = runs,
    .run = run,
    .host_alloc = alloc_host,
    .host_release = release_host,
};

// A stand-in for the CUDA backend, for machines without a GPU: it has its name, computes on the CPU, and fails on
// request.
//
// The sanitizer flavours are built with it, so that the server is tested with several devices, and with failing ones,
// everywhere. VOXELD_STANDIN_DEVICES says how many devices there are; without it there is none. With
// VOXELD_STANDIN_INTEGRATED they share the host's memory; VOXELD_STANDIN_LACKS names an operation or a tensor that
// they do not have. See inject.h for faults: opening a lane makes one checked call, and each job three, before, amid
// (in the callback for its output) and after its run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/support/standin/inject.h"

enum { MEGABYTE = 1 << 20 };

struct vx_device {
  int index;
  struct vx_device *cpu;
};

static enum vx_status count_devices(int *count, struct vx_error *error) {
  const char *text = getenv("VOXELD_STANDIN_DEVICES");
  *count = text == NULL ? 0 : atoi(text);
  if (*count > 0) {
    return VX_OK;
  }
  snprintf(error->text, sizeof error->text, "this build has a stand-in for CUDA, and no device is asked of it");
  return VX_REFUSED;
}

static enum vx_status open_device(int index, struct vx_device **device, struct vx_error *error) {
  int count;
  enum vx_status status = count_devices(&count, error);
  if (status != VX_OK) {
    return status;
  }
  if (index < 0 || index >= count) {
    snprintf(error->text, sizeof error->text, "there is no CUDA device %d: there are %d", index, count);
    return VX_REFUSED;
  }
  *device = malloc(sizeof **device);
  if (*device == NULL) {
    return VX_OUT_OF_MEMORY;
  }
  (*device)->index = index;
  status = vx_cpu_backend.open(0, &(*device)->cpu, error);
  if (status != VX_OK) {
    free(*device);
  }
  return status;
}

static void close_device(struct vx_device *device) {
  vx_cpu_backend.close(device->cpu);
  free(device);
}

static void describe(const struct vx_device *device, struct vx_description *description) {
  bool integrated = getenv("VOXELD_STANDIN_INTEGRATED") != NULL;
  *description = (struct vx_description){
      .memory_bytes = integrated ? 0 : MEGABYTE, .compute_capability = 10, .integrated = integrated};
  snprintf(description->name, sizeof description->name, "stand-in %d", device->index);
}

static enum vx_status checked(const char *call, struct vx_error *error) {
  enum vx_status status = inject_next();
  if (status != VX_OK) {
    snprintf(error->text, sizeof error->text, "%s: a fault was asked for", call);
  }
  return status;
}

static enum vx_status open_lane(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                struct vx_error *error) {
  enum vx_status status = checked("lane", error);
  return status == VX_OK ? vx_cpu_backend.lane_open(device->cpu, use, lane, error) : status;
}

// The job's own caller, which the checked one stands in front of.
struct behind {
  const struct vx_caller *caller;
  void *cls;
};

static enum vx_status checked_output(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  const struct behind *behind = cls;
  enum vx_status status = behind->caller->output(behind->cls, layout, block, error);
  return status == VX_OK ? checked("output", error) : status;
}

static bool ask_scratch(void *cls, size_t bytes) {
  const struct behind *behind = cls;
  return behind->caller->scratch(behind->cls, bytes);
}

static bool ask_stopped(void *cls) {
  const struct behind *behind = cls;
  return behind->caller->stopped(behind->cls);
}

static const struct vx_caller checked_caller = {checked_output, ask_scratch, ask_stopped};

static bool runs(const struct vx_job *job) {
  const char *lacking = getenv("VOXELD_STANDIN_LACKS");
  bool lacks = lacking != NULL && strcmp(lacking, vx_operation_of(job->op)->name) == 0;
  for (enum vx_tensor tensor = 0; lacking != NULL && tensor < VX_TENSOR_COUNT; tensor++) {
    lacks |= (job->tensors & VX_TENSOR_BIT(tensor)) != 0 && strcmp(lacking, vx_tensor_name(tensor)) == 0;
  }
  return !lacks;
}

static enum vx_status run(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  struct behind behind = {job->caller, job->cls};
  enum vx_status status = checked("begin", error);
  if (status == VX_OK) {
    job->caller = &checked_caller;
    job->cls = &behind;
    status = vx_cpu_backend.run(lane, job, error);
    job->caller = behind.caller;
    job->cls = behind.cls;
  }
  return status == VX_OK ? checked("end", error) : status;
}

static void *alloc_host(struct vx_device *device, size_t bytes) {
  return vx_cpu_backend.host_alloc(device->cpu, bytes);
}

static void free_host(struct vx_device *device, void *memory, size_t bytes) {
  vx_cpu_backend.host_free(device->cpu, memory, bytes);
}

static void close_lane(struct vx_lane *lane) { vx_cpu_backend.lane_close(lane); }

const struct vx_backend vx_cuda_backend = {
    .name = "cuda",
    .count = count_devices,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .lane_open = open_lane,
    .lane_close = close_lane,
    .runs = runs,
    .run = run,
    .host_alloc = alloc_host,
    .host_free = free_host,
};

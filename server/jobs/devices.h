// The devices that compute: the GPUs that the options ask for, and always the CPU. The CPU computes if there is no GPU,
// and does what a GPU fails to do.
//
// Main opens them before the workers start. From then on only counters change, and a GPU may be lost. Any thread may
// report a loss, and the first report for each GPU counts. A lost GPU is never used again.
#ifndef VOXELD_DEVICES_H
#define VOXELD_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/kernels.h"
#include "server/config/device_list.h"

struct options;

struct device {
  const struct vx_backend *backend;
  struct vx_device *handle;
  int index;  // its number with its backend
  struct vx_description description;
  atomic_llong load;      // jobs that its workers have; the queues count them
  atomic_llong running;   // jobs on it now
  atomic_llong answered;  // jobs that it did, since the start
  atomic_bool lost;
  char reason[256];  // why it was lost; does not change once `lost` is set
};

struct devices {
  struct device gpu[MAX_DEVICES];
  int count;           // of GPUs opened; 0: the CPU does everything
  atomic_int working;  // of them, those not lost
  struct device cpu;
  pthread_mutex_t lock;  // held to report a loss
};

// Opens the CPU and the GPUs that the options choose. A GPU that cannot be opened is logged and left out. With
// `--backend cuda` that is an error if `--devices` names the GPU, or if none is left. False with a reason.
VX_WARN_UNUSED bool devices_open(struct devices *devices, const struct options *options, char *error,
                                 size_t error_size);
void devices_close(struct devices *devices);

// The device that does most of the work now: the first GPU that is not lost, or the CPU.
const struct device *devices_main(const struct devices *devices);

bool device_is_lost(const struct device *device);
// Marks a GPU as lost; `reason` is copied. True for the first report of this GPU.
bool device_lose(struct devices *devices, struct device *device, const char *reason);

#endif

// The devices that compute: the GPUs that the options ask for, and always the CPU, for want of a GPU and for what one
// fails to do.
//
// Opened by main before other threads start. From then on only the loss of a GPU changes something here; any thread may
// report one, and the first report of each counts. A lost GPU is never used again.
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
  int index;
  struct vx_description description;
  atomic_llong load;      // jobs that its workers have; the queues'
  atomic_llong running;   // jobs on it now
  atomic_llong answered;  // jobs that it did
  atomic_bool lost;
  char reason[256];  // why it was lost; does not change once `lost` is set
};

struct devices {
  struct device gpu[MAX_DEVICES];
  int count;           // of GPUs opened; 0: the CPU does everything
  atomic_int working;  // of them, those not lost
  struct device cpu;
  pthread_mutex_t lock;  // of the reports of a loss
};

// Chooses and opens. A GPU that cannot be used is logged and left out; with `--backend cuda` it is an error if its
// number was given, or if none is left. False with a reason.
VX_WARN_UNUSED bool devices_open(struct devices *devices, const struct options *options, char *error,
                                 size_t error_size);
void devices_close(struct devices *devices);

// What does most of the work now: the first GPU that is not lost, or the CPU.
const struct device *devices_main(const struct devices *devices);

bool device_is_lost(const struct device *device);
// True for the first report of this device.
bool device_lose(struct devices *devices, struct device *device, const char *reason);

#endif

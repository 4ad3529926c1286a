// The devices that compute: the GPUs that the options name, and the CPU. If no GPU works, the CPU runs all jobs. Beside
// GPUs, the CPU runs small jobs, some samplings, and jobs that a GPU cannot run or has failed.
//
// A GPU that fails three jobs in a row is paused. After 1 s a single job tries the GPU. If that job fails too, the next
// pause is twice as long, up to a minute. A lost GPU is not used again.
//
// The main thread opens the devices before the workers start. Any thread may call the functions for their states.
#ifndef VOXELD_DEVICES_H
#define VOXELD_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/config/options.h"

enum device_state { DEVICE_WORKING, DEVICE_PAUSED, DEVICE_LOST, DEVICE_STATES };
extern const char *const device_states[DEVICE_STATES];

struct device {
  const struct vx_backend *backend;
  struct vx_device *handle;
  int index;  // its number with its backend
  struct vx_description description;
  atomic_llong load;      // jobs that its workers have, counted by the queues
  atomic_llong running;   // jobs on it now
  atomic_llong answered;  // jobs that it completed since the start
  atomic_int state;       // enum device_state
  atomic_int failures;    // jobs that it failed in a row
  // Under the lock of the devices.
  bool tried;        // it is paused, and a job tries it now
  int64_t since_ns;  // when it was paused
  int64_t pause_ns;  // length of the pause
  int64_t retry_ns;  // end of the pause
  char reason[256];  // why it does not work
};

struct devices {
  struct device gpu[MAX_DEVICES];
  int count;           // GPUs that were opened; 0: the CPU runs every job
  atomic_int working;  // GPUs in DEVICE_WORKING
  struct device cpu;
  struct lock lock;  // protects the states
};

// Opens the CPU and the GPUs that the options name. Logs and leaves out a GPU that cannot be opened. With `--backend
// cuda`, returns false with a reason instead if `--devices` names that GPU, or if no GPU is left.
VX_WARN_UNUSED bool devices_open(struct devices *devices, const struct options *options, struct error *error);
void devices_close(struct devices *devices);

// The main device: the first GPU that works, or the CPU if none does.
const struct device *devices_main(const struct devices *devices);
int devices_in(const struct devices *devices, enum device_state state);  // number of GPUs

enum device_state device_state(const struct device *device);
// Whether a job may run on the GPU: the GPU works, or its pause has ended and no other job tries it.
bool device_is_open(struct devices *devices, struct device *device, int64_t now_ns);
// Like device_is_open; if true, the caller must run a job on the GPU and report it with device_tell. `*trial`: the job
// tries a paused GPU.
bool device_take(struct devices *devices, struct device *device, int64_t now_ns, bool *trial);

enum device_outcome {
  DEVICE_DID,
  DEVICE_FAILED,
  DEVICE_UNDECIDED,  // the job ended for a reason other than the GPU
};
// Reports the outcome of a job; copies `reason`. If this pauses the GPU or ends a pause, logs it and returns true.
bool device_tell(struct devices *devices, struct device *device, bool trial, enum device_outcome outcome,
                 const char *reason, int64_t now_ns);
// Copies `reason`. True for the first call for this GPU.
bool device_mark_lost(struct devices *devices, struct device *device, const char *reason);

// reason: why the GPU does not work. For a paused GPU, paused_ns is the time since its first pause began, and retry_ns
// the time until this pause ends.
struct device_health {
  enum device_state state;
  char reason[256];
  int64_t paused_ns, retry_ns;
};
struct device_health device_health(struct devices *devices, const struct device *device, int64_t now_ns);

#endif

// The devices that compute: the GPUs that the options ask for, and always the CPU. The CPU computes if there is no GPU,
// and does what a GPU fails to do.
//
// Main opens them before the workers start. From then on only counters change, and the states of GPUs. A GPU that fails
// three jobs in a row is paused. After 1 s a single job tries it. If that fails too, the next pause is twice as long,
// up to a minute. A lost GPU is never used again. Any thread may report.
#ifndef VOXELD_DEVICES_H
#define VOXELD_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/config/options.h"

struct options;

enum device_state { DEVICE_WORKING, DEVICE_PAUSED, DEVICE_LOST, DEVICE_STATES };
extern const char *const device_states[DEVICE_STATES];

struct device {
  const struct vx_backend *backend;
  struct vx_device *handle;
  int index;  // its number with its backend
  struct vx_description description;
  atomic_llong load;      // jobs that its workers have; the queues count them
  atomic_llong running;   // jobs on it now
  atomic_llong answered;  // jobs that it did, since the start
  atomic_int state;       // enum device_state
  atomic_int failures;    // jobs that it failed in a row
  // The rest with the lock of the devices.
  bool tried;        // paused, and a job tries it now
  int64_t since_ns;  // when it was paused
  int64_t pause_ns;  // how long the pause is
  int64_t retry_ns;  // when it is over
  char reason[256];  // why it does not work
};

struct devices {
  struct device gpu[MAX_DEVICES];
  int count;           // of GPUs opened; 0: the CPU does everything
  atomic_int working;  // of them, those that are neither paused nor lost
  struct device cpu;
  struct lock lock;  // over the states
};

// Opens the CPU and the GPUs that the options choose. A GPU that cannot be opened is logged and left out. With
// `--backend cuda` that is an error if `--devices` names the GPU, or if none is left. False with a reason.
VX_WARN_UNUSED bool devices_open(struct devices *devices, const struct options *options, struct error *error);
void devices_close(struct devices *devices);

// The device that does most of the work now: the first GPU that works, or the CPU.
const struct device *devices_main(const struct devices *devices);
int devices_in(const struct devices *devices, enum device_state state);  // how many GPUs

enum device_state device_state(const struct device *device);
// Whether a job may run on the GPU: it works, or its pause is over and no other job tries it.
bool device_is_open(struct devices *devices, struct device *device, int64_t now_ns);
// The same for a job that then does run there. `*trial` says that it tries a paused GPU. device_tell must follow.
bool device_take(struct devices *devices, struct device *device, int64_t now_ns, bool *trial);

enum device_outcome {
  DEVICE_DID,
  DEVICE_FAILED,
  DEVICE_UNDECIDED,  // the job ended for a reason that is not the GPU's
};
// Reports what came of a job on a GPU; `reason` is copied. True if the GPU is paused now or works again, which is
// logged.
bool device_tell(struct devices *devices, struct device *device, bool trial, enum device_outcome outcome,
                 const char *reason, int64_t now_ns);
// Marks a GPU as lost; `reason` is copied. True for the first report of this GPU.
bool device_lose(struct devices *devices, struct device *device, const char *reason);

// A GPU's state, why it does not work, and for a paused one how long it has been paused and is to be still.
struct device_health {
  enum device_state state;
  char reason[256];
  int64_t paused_ns, retry_ns;
};
struct device_health device_health(struct devices *devices, const struct device *device, int64_t now_ns);

#endif

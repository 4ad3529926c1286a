// See devices.h.
#include "server/jobs/devices.h"

#include <stdio.h>

#include "kernels/backends.h"
#include "server/base/base.h"
#include "server/base/log.h"
#include "server/config/options.h"

static bool open_one(struct device *device, const struct vx_backend *backend, int index, struct error *error) {
  device->backend = backend;
  device->index = index;
  if (backend->open(index, &device->handle, error) != VX_OK) return error_prefix(error, "backend %s: ", backend->name);
  backend->describe(device->handle, &device->description);
  return true;
}

// Opens the GPUs of the list. With `must`, every GPU that the list names must open. False with a reason if such a GPU
// does not open, or if none does.
static bool open_gpus(struct devices *devices, const struct device_list *list, bool must, struct error *error) {
  const struct vx_backend *backend = vx_backend_find("cuda");
  if (!backend) return error_set(error, "backend cuda: this binary was built without CUDA");
  int found = 0;
  if (backend->count(&found, error) != VX_OK) return error_prefix(error, "backend cuda: ");
  int wanted = list->all ? (found < MAX_DEVICES ? found : MAX_DEVICES) : list->count;
  for (int i = 0; i < wanted; i++)
    if (open_one(&devices->gpu[devices->count], backend, list->all ? i : list->index[i], error))
      devices->count++;
    else if (must && !list->all)
      return false;
    else
      log_event(LOG_WARNING, "a GPU is left out", "reason", error->text);
  return devices->count > 0;
}

static void close_gpus(struct devices *devices) {
  while (devices->count > 0) {
    struct device *device = &devices->gpu[--devices->count];
    device->backend->close(device->handle);
  }
}

bool devices_open(struct devices *devices, const struct options *options, struct error *error) {
  struct device_list list;
  if (!device_list_read(options->devices, &list)) return false;  // cannot fail: options_read has checked the list
  lock_init(&devices->lock);
  if (!open_one(&devices->cpu, &vx_cpu_backend, 0, error)) return false;
  bool must = options->backend == BACKEND_CUDA;
  if (options->backend != BACKEND_CPU && !open_gpus(devices, &list, must, error)) {
    close_gpus(devices);
    if (must) return false;
    log_event(list.all ? LOG_INFO : LOG_WARNING, "no GPU: the CPU computes", "reason", error->text);
  }
  atomic_store(&devices->working, devices->count);
  return true;
}

void devices_close(struct devices *devices) {
  close_gpus(devices);
  devices->cpu.backend->close(devices->cpu.handle);
  lock_end(&devices->lock);
}

// ---- states ---------------------------------------------------------------------------------------------------------

enum { FAILURES_TO_PAUSE = 3 };
static const int64_t first_pause_ns = NS_PER_S, longest_pause_ns = 60 * NS_PER_S;

const char *const device_states[] = {"working", "paused", "lost"};

enum device_state device_state(const struct device *device) { return (enum device_state)atomic_load(&device->state); }

const struct device *devices_main(const struct devices *devices) {
  for (int i = 0; i < devices->count; i++)
    if (device_state(&devices->gpu[i]) == DEVICE_WORKING) return &devices->gpu[i];
  return &devices->cpu;
}

int devices_in(const struct devices *devices, enum device_state state) {
  int count = 0;
  for (int i = 0; i < devices->count; i++) count += device_state(&devices->gpu[i]) == state;
  return count;
}

// `load` counts one job less for a paused GPU, so that after the pause its worker gets the next job, which tries it.
static void set_state(struct devices *devices, struct device *device, enum device_state state) HOLDS(devices->lock) {
  enum device_state before = (enum device_state)atomic_exchange(&device->state, (int)state);
  atomic_fetch_add(&device->load, (before == DEVICE_PAUSED) - (state == DEVICE_PAUSED));
  atomic_fetch_add(&devices->working, (state == DEVICE_WORKING) - (before == DEVICE_WORKING));
}

// Whether a job may try the device if it is paused. With `take`, the caller's job tries it.
static bool may_try(struct devices *devices, struct device *device, int64_t now_ns, bool take) {
  lock_acquire(&devices->lock);
  bool may = device_state(device) == DEVICE_PAUSED && !device->tried && now_ns >= device->retry_ns;
  device->tried |= may && take;
  lock_release(&devices->lock);
  return may;
}

bool device_is_open(struct devices *devices, struct device *device, int64_t now_ns) {
  enum device_state state = device_state(device);
  return state == DEVICE_WORKING || (state == DEVICE_PAUSED && may_try(devices, device, now_ns, false));
}

bool device_take(struct devices *devices, struct device *device, int64_t now_ns, bool *trial) {
  enum device_state state = device_state(device);
  *trial = state == DEVICE_PAUSED && may_try(devices, device, now_ns, true);
  return *trial || state == DEVICE_WORKING;
}

static void log_change(const struct device *device, enum device_state state, const char *reason) {
  bool paused = state == DEVICE_PAUSED;
  struct log_line line;
  log_begin(&line, paused ? LOG_ERROR : LOG_INFO, paused ? "a GPU is paused" : "a GPU works again");
  log_string(&line, "device", device->description.name);
  log_integer(&line, "index", device->index);
  if (paused) log_string(&line, "error", reason);
  if (paused) log_string(&line, "effect", "its jobs run on other devices; after each pause one job tries it");
  log_end(&line);
}

// Begins a pause after FAILURES_TO_PAUSE failures in a row, or doubles the pause after a failed trial.
static void lengthen_pause(struct devices *devices, struct device *device, bool trial, const char *reason,
                           int64_t now_ns) HOLDS(devices->lock) {
  int failures = atomic_fetch_add(&device->failures, 1) + 1;
  enum device_state state = device_state(device);
  if (state == DEVICE_WORKING && failures >= FAILURES_TO_PAUSE) {
    device->since_ns = now_ns;
    device->pause_ns = first_pause_ns;
    set_state(devices, device, DEVICE_PAUSED);
  } else if (state == DEVICE_PAUSED && trial) {
    device->pause_ns = device->pause_ns < longest_pause_ns / 2 ? 2 * device->pause_ns : longest_pause_ns;
  } else {
    return;
  }
  device->retry_ns = now_ns + device->pause_ns;
  snprintf(device->reason, sizeof device->reason, "%s", reason);
}

bool device_tell(struct devices *devices, struct device *device, bool trial, enum device_outcome outcome,
                 const char *reason, int64_t now_ns) {
  bool as_before = outcome == DEVICE_UNDECIDED || (outcome == DEVICE_DID && atomic_load(&device->failures) == 0);
  if (as_before && !trial) return false;
  lock_acquire(&devices->lock);
  enum device_state before = device_state(device);
  if (outcome == DEVICE_FAILED) lengthen_pause(devices, device, trial, reason, now_ns);
  if (outcome == DEVICE_DID) atomic_store(&device->failures, 0);
  if (outcome == DEVICE_DID && trial && before == DEVICE_PAUSED) set_state(devices, device, DEVICE_WORKING);
  if (trial) device->tried = false;
  enum device_state after = device_state(device);
  lock_release(&devices->lock);
  if (after != before) log_change(device, after, reason);
  return after != before;
}

bool device_mark_lost(struct devices *devices, struct device *device, const char *reason) {
  lock_acquire(&devices->lock);
  bool first = device_state(device) != DEVICE_LOST;
  if (first) {
    snprintf(device->reason, sizeof device->reason, "%s", reason);
    set_state(devices, device, DEVICE_LOST);
  }
  lock_release(&devices->lock);
  return first;
}

struct device_health device_health(struct devices *devices, const struct device *device, int64_t now_ns) {
  struct device_health health = {.state = DEVICE_WORKING};
  lock_acquire(&devices->lock);
  health.state = device_state(device);
  if (health.state != DEVICE_WORKING) snprintf(health.reason, sizeof health.reason, "%s", device->reason);
  if (health.state == DEVICE_PAUSED) {
    health.paused_ns = now_ns - device->since_ns;
    health.retry_ns = device->retry_ns > now_ns ? device->retry_ns - now_ns : 0;
  }
  lock_release(&devices->lock);
  return health;
}

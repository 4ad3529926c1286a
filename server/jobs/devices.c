// Opening devices, and losing them; see devices.h.
#include "server/jobs/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends.h"
#include "server/base/log.h"
#include "server/config/options.h"

static bool open_one(struct device *device, const struct vx_backend *backend, int index, char *error,
                     size_t error_size) {
  struct vx_error reason = {""};
  device->backend = backend;
  device->index = index;
  if (backend->open(index, &device->handle, &reason) != VX_OK) {
    snprintf(error, error_size, "backend %s: %s", backend->name, reason.text);
    return false;
  }
  backend->describe(device->handle, &device->description);
  return true;
}

// Opens those GPUs of the list that can be opened. With `must` (`--backend cuda`), every GPU that the list names must
// open. False with a reason: no GPU is open, or one that must open is not.
static bool open_gpus(struct devices *devices, const struct device_list *list, bool must, char *error,
                      size_t error_size) {
  const struct vx_backend *backend = vx_backend_find("cuda");
  if (!backend) {
    snprintf(error, error_size, "backend cuda: this binary was built without CUDA");
    return false;
  }
  struct vx_error reason = {""};
  int found = 0;
  if (backend->count(&found, &reason) != VX_OK) {
    snprintf(error, error_size, "backend cuda: %s", reason.text);
    return false;
  }
  int wanted = list->all ? (found < MAX_DEVICES ? found : MAX_DEVICES) : list->count;
  for (int i = 0; i < wanted; i++) {
    if (open_one(&devices->gpu[devices->count], backend, list->all ? i : list->index[i], error, error_size))
      devices->count++;
    else if (must && !list->all)
      return false;
    else
      log_event(LOG_WARNING, "a GPU is left out", "reason", error);
  }
  return devices->count > 0;
}

static void close_gpus(struct devices *devices) {
  while (devices->count > 0) {
    struct device *device = &devices->gpu[--devices->count];
    device->backend->close(device->handle);
  }
}

bool devices_open(struct devices *devices, const struct options *options, char *error, size_t error_size) {
  struct device_list list;
  if (!device_list_read(options->devices, &list)) return false;  // options_read has checked it
  pthread_mutex_init(&devices->lock, NULL);
  if (!open_one(&devices->cpu, &vx_cpu_backend, 0, error, error_size)) return false;
  bool must = options->backend == BACKEND_CUDA;
  if (options->backend != BACKEND_CPU && !open_gpus(devices, &list, must, error, error_size)) {
    close_gpus(devices);
    if (must) return false;
    log_event(list.all ? LOG_INFO : LOG_WARNING, "no GPU: the CPU computes", "reason", error);
  }
  atomic_store(&devices->working, devices->count);
  return true;
}

void devices_close(struct devices *devices) {
  close_gpus(devices);
  devices->cpu.backend->close(devices->cpu.handle);
  pthread_mutex_destroy(&devices->lock);
}

const struct device *devices_main(const struct devices *devices) {
  for (int i = 0; i < devices->count; i++)
    if (!device_is_lost(&devices->gpu[i])) return &devices->gpu[i];
  return &devices->cpu;
}

bool device_is_lost(const struct device *device) { return atomic_load(&device->lost); }

bool device_lose(struct devices *devices, struct device *device, const char *reason) {
  pthread_mutex_lock(&devices->lock);
  bool first = !atomic_load(&device->lost);
  if (first) {
    snprintf(device->reason, sizeof device->reason, "%s", reason);
    atomic_store(&device->lost, true);
    atomic_fetch_sub(&devices->working, 1);
  }
  pthread_mutex_unlock(&devices->lock);
  return first;
}

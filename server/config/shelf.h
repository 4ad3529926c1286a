// The presets that are served. A reload replaces them while IO threads look into them.
#ifndef VOXELD_SHELF_H
#define VOXELD_SHELF_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/presets.h"

struct shelf {
  pthread_rwlock_t lock;  // over `presets`
  struct presets *presets;
};

// Loads the built-in presets and those of a folder ("": none). False with a reason, and nothing is held then.
VX_WARN_UNUSED bool shelf_open(struct shelf *shelf, const char *folder, char *error, size_t error_size);
// Loads them again. False with a reason: then nothing has changed.
VX_WARN_UNUSED bool shelf_reload(struct shelf *shelf, const char *folder, char *error, size_t error_size);
void shelf_close(struct shelf *shelf);

// The presets. They do not change until shelf_leave, which must follow on the same thread: a reload waits for it.
const struct presets *shelf_look(struct shelf *shelf);
void shelf_leave(struct shelf *shelf);

#endif

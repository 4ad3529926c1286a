// The presets and the models that are served. I/O threads look them up while the thread of reloads replaces them.
#ifndef VOXELD_CATALOG_H
#define VOXELD_CATALOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/query.h"

struct catalog {
  pthread_rwlock_t lock;  // guards `presets`, `detectors` and `named`
  struct presets *presets;
  struct detectors *detectors;
  struct detector_means means;  // what runs the detectors' networks; does not change
  struct named named;           // the presets and the detectors
};

// Loads the built-in presets, the presets of the folder `presets` and the models of the folder `models` ("": none).
// With models, loads ONNX Runtime; `library` is its path, or "". A model without ONNX Runtime, or with a fault of its
// own, does not serve. Each network runs on `threads` threads and takes up to `memory_bytes` of the host (0: any).
// False with a reason; then nothing is held.
VX_WARN_UNUSED bool catalog_open(struct catalog *catalog, const char *presets, const char *models, const char *library,
                                 int threads, size_t memory_bytes, struct error *error);
// Loads the presets again. False with a reason; then nothing changes.
VX_WARN_UNUSED bool catalog_reload_presets(struct catalog *catalog, const char *folder, struct error *error);
// Loads the models again, for catalog_put_models on the same thread. A model that serves stays if its files are broken
// now. NULL with a reason.
VX_WARN_UNUSED struct detectors *catalog_load_models(struct catalog *catalog, const char *folder, struct error *error);
// Serves these models from now on. The catalog owns them.
void catalog_put_models(struct catalog *catalog, struct detectors *detectors);
// Call it when no job holds a model.
void catalog_close(struct catalog *catalog);

// The presets and models, unchanged until catalog_release on the same thread.
const struct named *catalog_acquire(struct catalog *catalog);
void catalog_release(struct catalog *catalog);

#endif

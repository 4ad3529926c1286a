// The presets and the models that are served. A reload replaces them while IO threads look into them.
#ifndef VOXELD_CATALOG_H
#define VOXELD_CATALOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/query.h"

struct catalog {
  pthread_rwlock_t lock;  // over `presets` and `detectors`
  struct presets *presets;
  struct detectors *detectors;
  struct detector_means means;  // of the detectors; does not change
  struct named named;           // both
};

// Loads the built-in presets and those of a folder, and the models of another ("": none). The models' networks run with
// ONNX Runtime, which is loaded if there is a folder of models; `library` is its path, or "". Without it, and for any
// other reason that is a model's own, the models do not serve. Each network is computed by `threads` and takes up to
// `memory_bytes` of the host (0: any). False with a reason, and nothing is held then.
VX_WARN_UNUSED bool catalog_open(struct catalog *catalog, const char *presets, const char *models, const char *library,
                                 int threads, size_t memory_bytes, struct error *error);
// Loads the presets again. False with a reason: then nothing has changed.
VX_WARN_UNUSED bool catalog_reload_presets(struct catalog *catalog, const char *folder, struct error *error);
// Loads the models again, for catalog_put_models, which the same thread calls. A model that serves stays if the files
// of its folder are broken now. NULL with a reason.
VX_WARN_UNUSED struct detectors *catalog_load_models(struct catalog *catalog, const char *folder, struct error *error);
// These are served from now on; the catalog owns them.
void catalog_put_models(struct catalog *catalog, struct detectors *detectors);
// When no job holds a model.
void catalog_close(struct catalog *catalog);

// What is there. It does not change until catalog_release, which must follow on the same thread: a reload waits for it.
const struct named *catalog_acquire(struct catalog *catalog);
void catalog_release(struct catalog *catalog);

#endif

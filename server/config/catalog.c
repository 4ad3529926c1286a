// See catalog.h.
#include "server/config/catalog.h"

static void close_library(struct catalog *catalog) {
  if (catalog->means.library) catalog->means.engine->close(catalog->means.library);
  catalog->means.library = NULL;
}

static void open_library(struct catalog *catalog, const char *models, const char *library, int threads,
                         size_t memory_bytes) {
  struct detector_means *means = &catalog->means;
  *means = (struct detector_means){.engine = &vx_onnxruntime, .threads = threads, .memory_bytes = memory_bytes};
  if (models[0] && means->engine->open(library, &means->library, &means->missing) != VX_OK) means->library = NULL;
}

bool catalog_open(struct catalog *catalog, const char *presets, const char *models, const char *library, int threads,
                  size_t memory_bytes, struct error *error) {
  catalog->presets = presets_load(presets, error);
  if (!catalog->presets) return false;
  open_library(catalog, models, library, threads, memory_bytes);
  catalog->detectors = detectors_load(models, &catalog->means, error);
  if (!catalog->detectors) {
    close_library(catalog);
    presets_close(catalog->presets);
    return false;
  }
  catalog->named = (struct named){catalog->presets, catalog->detectors};
  pthread_rwlock_init(&catalog->lock, NULL);
  return true;
}

bool catalog_reload_presets(struct catalog *catalog, const char *folder, struct error *error) {
  struct presets *presets = presets_load(folder, error), *old = catalog->presets;
  if (!presets) return false;
  pthread_rwlock_wrlock(&catalog->lock);
  catalog->named.presets = catalog->presets = presets;
  pthread_rwlock_unlock(&catalog->lock);
  presets_close(old);
  return true;
}

struct detectors *catalog_load_models(struct catalog *catalog, const char *folder, struct error *error) {
  struct detectors *detectors = detectors_load(folder, &catalog->means, error);
  if (detectors) detectors_keep(detectors, catalog->detectors);  // no lock: only this thread replaces them
  return detectors;
}

void catalog_put_models(struct catalog *catalog, struct detectors *detectors) {
  struct detectors *old = catalog->detectors;
  pthread_rwlock_wrlock(&catalog->lock);
  catalog->named.detectors = catalog->detectors = detectors;
  pthread_rwlock_unlock(&catalog->lock);
  detectors_close(old);
}

void catalog_close(struct catalog *catalog) {
  pthread_rwlock_destroy(&catalog->lock);
  detectors_close(catalog->detectors);
  close_library(catalog);
  presets_close(catalog->presets);
}

const struct named *catalog_acquire(struct catalog *catalog) {
  pthread_rwlock_rdlock(&catalog->lock);
  return &catalog->named;
}

void catalog_release(struct catalog *catalog) { pthread_rwlock_unlock(&catalog->lock); }

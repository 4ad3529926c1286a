// The presets and the models that are served; see shelf.h.
#include "server/config/shelf.h"

static void close_library(struct shelf *shelf) {
  if (shelf->means.library) shelf->means.engine->close(shelf->means.library);
  shelf->means.library = NULL;
}

static void open_library(struct shelf *shelf, const char *models, const char *library, int threads,
                         size_t memory_bytes) {
  struct detector_means *means = &shelf->means;
  *means = (struct detector_means){.engine = &vx_onnxruntime, .threads = threads, .memory_bytes = memory_bytes};
  if (models[0] && means->engine->open(library, &means->library, &means->missing) != VX_OK) means->library = NULL;
}

bool shelf_open(struct shelf *shelf, const char *presets, const char *models, const char *library, int threads,
                size_t memory_bytes, struct error *error) {
  shelf->presets = presets_load(presets, error);
  if (!shelf->presets) return false;
  open_library(shelf, models, library, threads, memory_bytes);
  shelf->detectors = detectors_load(models, &shelf->means, error);
  if (!shelf->detectors) {
    close_library(shelf);
    presets_free(shelf->presets);
    return false;
  }
  shelf->named = (struct named){shelf->presets, shelf->detectors};
  pthread_rwlock_init(&shelf->lock, NULL);
  return true;
}

bool shelf_reload_presets(struct shelf *shelf, const char *folder, struct error *error) {
  struct presets *presets = presets_load(folder, error), *old = shelf->presets;
  if (!presets) return false;
  pthread_rwlock_wrlock(&shelf->lock);
  shelf->named.presets = shelf->presets = presets;
  pthread_rwlock_unlock(&shelf->lock);
  presets_free(old);
  return true;
}

struct detectors *shelf_load_models(struct shelf *shelf, const char *folder, struct error *error) {
  struct detectors *detectors = detectors_load(folder, &shelf->means, error);
  if (detectors) detectors_keep(detectors, shelf->detectors);  // which the caller alone replaces
  return detectors;
}

void shelf_put_models(struct shelf *shelf, struct detectors *detectors) {
  struct detectors *old = shelf->detectors;
  pthread_rwlock_wrlock(&shelf->lock);
  shelf->named.detectors = shelf->detectors = detectors;
  pthread_rwlock_unlock(&shelf->lock);
  detectors_free(old);
}

void shelf_close(struct shelf *shelf) {
  pthread_rwlock_destroy(&shelf->lock);
  detectors_free(shelf->detectors);
  close_library(shelf);
  presets_free(shelf->presets);
}

const struct named *shelf_look(struct shelf *shelf) {
  pthread_rwlock_rdlock(&shelf->lock);
  return &shelf->named;
}

void shelf_leave(struct shelf *shelf) { pthread_rwlock_unlock(&shelf->lock); }

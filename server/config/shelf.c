// The presets that are served; see shelf.h.
#include "server/config/shelf.h"

bool shelf_open(struct shelf *shelf, const char *folder, char *error, size_t error_size) {
  shelf->presets = presets_load(folder, error, error_size);
  if (!shelf->presets) return false;
  pthread_rwlock_init(&shelf->lock, NULL);
  return true;
}

bool shelf_reload(struct shelf *shelf, const char *folder, char *error, size_t error_size) {
  struct presets *presets = presets_load(folder, error, error_size);
  if (!presets) return false;
  pthread_rwlock_wrlock(&shelf->lock);
  struct presets *old = shelf->presets;
  shelf->presets = presets;
  pthread_rwlock_unlock(&shelf->lock);
  presets_free(old);
  return true;
}

void shelf_close(struct shelf *shelf) {
  pthread_rwlock_destroy(&shelf->lock);
  presets_free(shelf->presets);
}

const struct presets *shelf_look(struct shelf *shelf) {
  pthread_rwlock_rdlock(&shelf->lock);
  return shelf->presets;
}

void shelf_leave(struct shelf *shelf) { pthread_rwlock_unlock(&shelf->lock); }

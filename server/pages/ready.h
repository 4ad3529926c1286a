// Whether the service takes requests. Any thread.
#ifndef VOXELD_READY_H
#define VOXELD_READY_H

#include "api/base/problem.h"
#include "server/base/base.h"
#include "server/pages/view.h"

// False with an error.
static inline bool view_is_ready(const struct view *view, struct error *error) {
  switch (atomic_load(view->phase)) {
    case PHASE_READY: return true;
    case PHASE_LEAVING:
    case PHASE_DRAINING: return error_refuse(error, ERROR_DRAINING, NULL, "the server is stopping");
    default:
      if (atomic_load(&view->warming->all) == 0)
        return error_refuse(error, ERROR_NOT_READY, NULL, "the server is starting");
      return error_refuse(error, ERROR_NOT_READY, NULL, "the server runs its networks once: %lld of %lld runs are done",
                          (long long)atomic_load(&view->warming->done), (long long)atomic_load(&view->warming->all));
  }
}

#endif

// See spread.h.
#include "kernels/spread.h"

static enum vx_status do_in_turn(const struct vx_hand *own, const struct vx_pieces *pieces, struct vx_error *error) {
  enum vx_status status = VX_OK;
  for (int32_t piece = 0; piece < pieces->count && status == VX_OK; piece++) {
    status = pieces->run(pieces->cls, own, piece, error);
  }
  return status;
}

int32_t vx_hands(const struct vx_job *job) {
  const struct vx_caller *caller = job->caller;
  return caller == NULL || caller->spread == NULL || caller->hands == NULL ? 1 : caller->hands(job->cls);
}

enum vx_status vx_spread(const struct vx_job *job, struct vx_lane *lane, const struct vx_pieces *pieces,
                         struct vx_error *error) {
  const struct vx_caller *caller = job->caller;
  const struct vx_hand own = {lane, caller == NULL ? NULL : caller->stopped, job->cls};
  bool alone = pieces->count < 2 || caller == NULL || caller->spread == NULL;
  return alone ? do_in_turn(&own, pieces, error) : caller->spread(job->cls, &own, pieces, error);
}

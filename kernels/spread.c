// See spread.h.
#include "kernels/spread.h"

enum { PIECE_ROWS = 1 << 10 };  // as which a piece counts, beside those that its passes count

static enum vx_status run_piece(void *ctx, const struct vx_hand *hand, int32_t piece, struct error *error) {
  const struct vx_pieces *pieces = ctx;
  return vx_stopped(hand->stop, PIECE_ROWS) ? vx_stop_status(hand->stop, error)
                                            : pieces->run(pieces->ctx, hand, piece, error);
}

static enum vx_status do_in_turn(const struct vx_hand *own, const struct vx_pieces *pieces, struct error *error) {
  enum vx_status status = VX_OK;
  for (int32_t piece = 0; piece < pieces->count && status == VX_OK; piece++)
    status = pieces->run(pieces->ctx, own, piece, error);
  return status;
}

int32_t vx_hands(const struct vx_job *job) {
  const struct vx_caller *caller = job->caller;
  return !caller || !caller->spread || !caller->hands ? 1 : caller->hands(job->ctx);
}

enum vx_status vx_spread(const struct vx_job *job, struct vx_lane *lane, const struct vx_pieces *pieces,
                         struct error *error) {
  const struct vx_caller *caller = job->caller;
  const struct vx_hand own = {lane, job->stop};
  struct vx_pieces given = *pieces;
  const struct vx_pieces asking = {pieces->count, run_piece, &given};
  bool alone = pieces->count < 2 || !caller || !caller->spread;
  return alone ? do_in_turn(&own, &asking, error) : caller->spread(job->ctx, &own, &asking, error);
}

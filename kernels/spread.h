// Spreading a job: parts of its work become pieces, which its own thread does together with others that are idle.
//
// The kernels say what can be done apart; the job's caller knows who is idle. What comes out does not depend on who did
// which piece, nor on the order.
#ifndef VOXELD_SPREAD_H
#define VOXELD_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vx_job;
struct vx_lane;

// A thread at work on a job, with a lane of its own. The first is that of the job's run; others may help.
struct vx_hand {
  struct vx_lane *lane;
  bool (*stopped)(
      void *cls);  // as vx_caller.stopped; for one that helps, true also once it has other work. May be NULL
  void *cls;
};

// Pieces are done in any order and at the same time. What a piece writes is its own, scratch aside.
struct vx_pieces {
  int32_t count;
  // Does one piece. If a hand that helps comes to anything but VX_OK, another does the piece from its beginning.
  enum vx_status (*run)(void *cls, const struct vx_hand *hand, int32_t piece, struct vx_error *error);
  void *cls;
};

// Does all pieces of a job whose run has that lane: with the help that its caller gives, or one after the other.
// Returns once nobody is at work on them: VX_OK, or the status of the piece that the run's own hand could not do.
VX_WARN_UNUSED enum vx_status vx_spread(const struct vx_job *job, struct vx_lane *lane, const struct vx_pieces *pieces,
                                        struct vx_error *error);

#ifdef __cplusplus
}
#endif
#endif

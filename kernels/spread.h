// Spreading a job: parts of its work become pieces, which its own thread does together with others that are idle.
//
// The kernels say what can be done apart; the job's caller knows who is idle. What comes out does not depend on who did
// which piece, nor on the order.
#ifndef VOXELD_SPREAD_H
#define VOXELD_SPREAD_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Does all pieces of a job whose run has that lane: with the help that its caller gives, or one after the other.
// Returns once nobody is at work on them: VX_OK, or the status of the piece that the run's own hand could not do.
VX_WARN_UNUSED enum vx_status vx_spread(const struct vx_job *job, struct vx_lane *lane, const struct vx_pieces *pieces,
                                        struct error *error);

// How many hands could be at work on a job's pieces now, the run's own among them: what is worth cutting. By the time
// that the pieces are there it may be another number.
int32_t vx_hands(const struct vx_job *job);

#ifdef __cplusplus
}
#endif
#endif

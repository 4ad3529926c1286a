// The limit of a network's host memory: each network has its own arena, with a limit.
//
// The library makes arenas only for its environment. A session that wants one takes the arena that exists when the
// session is opened. So each network's arena exists in the environment only while the network's session is opened.
// After that the arena belongs to the session alone.
#ifndef VOXELD_ENGINE_ORT_ARENA_H
#define VOXELD_ENGINE_ORT_ARENA_H

#include "kernels/engine/ort_library.h"

// Opens the network's session, which takes up to `bytes`, and makes network->shrink. The caller releases both if they
// are not NULL, even after a failure.
VX_WARN_UNUSED bool ort_open_bounded(struct vx_network *network, struct ort_session_options *options, size_t bytes,
                                     struct error *error);

// Frees what the arena keeps for later runs. The arena keeps blocks of the requested sizes, which may be useless for a
// run of other sizes. The tensors are those of a run; they are neither read nor written. Any thread, even while others
// run the network.
void ort_shrink(const struct vx_network *network, const struct ort_values *in, struct ort_values *out);

#endif

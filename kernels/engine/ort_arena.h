// Limits a network's host memory by an arena of its own.
//
// The library registers arenas in its environment, and a session takes the arena that is registered when the session is
// opened. So a network's arena is registered just for that time. After that it belongs to the session.
#ifndef VOXELD_ENGINE_ORT_ARENA_H
#define VOXELD_ENGINE_ORT_ARENA_H

#include "kernels/engine/ort_library.h"

// Makes network->session, which takes up to `bytes`, and network->shrink. The caller releases both if they are not
// NULL, even after a failure.
VX_WARN_UNUSED bool ort_open_bounded(struct vx_network *network, struct ort_session_options *options, size_t bytes,
                                     struct error *error);

// Frees the blocks that the arena keeps for later runs. `in` and `out`: as for a run, but neither read nor written. Any
// thread, even while others run the network.
void ort_shrink(const struct vx_network *network, const struct ort_values *in, struct ort_values *out);

#endif

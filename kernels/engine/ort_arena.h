// The bound of a network's memory of the host: an arena of its own, which takes no more from the system.
//
// The library makes arenas for its environment alone, and the sessions that want one have the arena that is there when
// they are opened. So each network's arena is there while its session is opened, and is the session's alone after that.
#ifndef VOXELD_ENGINE_ORT_ARENA_H
#define VOXELD_ENGINE_ORT_ARENA_H

#include "kernels/engine/ort_library.h"

// Opens the network's session, which takes up to `bytes`, and makes network->shrink. The caller releases both, also
// after a failure, unless they are NULL.
VX_WARN_UNUSED bool ort_open_bounded(struct vx_network *network, struct ort_session_options *options, size_t bytes,
                                     struct error *error);

// Gives back what the arena keeps for later runs. It keeps blocks as they were asked for, and those of another size may
// be of no use to a run. The tensors are those of a run; they are neither read nor written. Any thread, while others
// run the network.
void ort_shrink(const struct vx_network *network, const struct ort_values *in, struct ort_values *out);

#endif

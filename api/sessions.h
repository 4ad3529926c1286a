// The sessions of a network on GPUs, one for each lane that should run the network. A network on the host's processors
// needs no session.
//
// Sessions stay until sessions_close; the network and the lanes must outlive them. Any thread may read sessions or
// vacate them, which takes them out of use. One thread at a time opens sessions.
#ifndef VOXELD_SESSIONS_H
#define VOXELD_SESSIONS_H

#include <stdatomic.h>

#include "api/base/text.h"
#include "kernels/kernels.h"

struct session;

struct sessions {
  _Atomic(struct session *) first;
};

// Opens a session on the lane of the device stream. On failure sessions_write says why, as does the error.
VX_WARN_UNUSED enum vx_status sessions_open(struct sessions *sessions, const struct vx_engine *engine,
                                            struct vx_network *network, const struct vx_lane *lane,
                                            const struct vx_device_stream *stream, struct error *error);
// NULL if the lane has no session, or a vacated one.
struct vx_session *sessions_on(const struct sessions *sessions, const struct vx_lane *lane);
// Call this if the network failed on the lane: it does not run there again. Copies `reason`.
void sessions_vacate(struct sessions *sessions, const struct vx_lane *lane, const char *reason);
// Call this if the GPU is lost.
void sessions_vacate_device(struct sessions *sessions, int device);
// Counts the sessions that are not vacant.
int sessions_count(const struct sessions *sessions, int device);
// Writes a JSON array, in the order in which the sessions were opened.
void sessions_write(const struct sessions *sessions, struct text *out);
// No job may be using a session.
void sessions_close(struct sessions *sessions, const struct vx_engine *engine);

#endif

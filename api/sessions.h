// The sessions of a network on GPUs: where the network runs, or why it does not run there. The host's processors need
// no session.
//
// There is one session for each lane on a GPU that should run the network. Sessions stay until sessions_close; the
// network and the lanes must outlive them. Any thread may read sessions, or vacate them, which takes them out of use.
// One thread at a time adds sessions.
#ifndef VOXELD_SESSIONS_H
#define VOXELD_SESSIONS_H

#include <stdatomic.h>

#include "api/base/text.h"
#include "kernels/kernels.h"

struct session;

struct sessions {
  _Atomic(struct session *) first;
};

// Opens a session of the network on the lane of the device stream. If no session opens, the error says why, and so does
// sessions_write.
VX_WARN_UNUSED enum vx_status sessions_open(struct sessions *sessions, const struct vx_engine *engine,
                                            struct vx_network *network, const struct vx_lane *lane,
                                            const struct vx_device_stream *stream, struct error *error);
// The session on a lane; NULL if the lane has none, or has lost it.
struct vx_session *sessions_on(const struct sessions *sessions, const struct vx_lane *lane);
// Call this if the network failed on that lane: it does not run there again. Copies `reason`.
void sessions_vacate(struct sessions *sessions, const struct vx_lane *lane, const char *reason);
// Call this if the GPU of that number is lost: vacates all sessions there.
void sessions_vacate_device(struct sessions *sessions, int device);
// The number of sessions in use on the GPU of that number.
int sessions_count(const struct sessions *sessions, int device);
// Writes a list of JSON objects, in the order in which the sessions were opened.
void sessions_write(const struct sessions *sessions, struct text *out);
// Closes all sessions. No job may be using one.
void sessions_close(struct sessions *sessions, const struct vx_engine *engine);

#endif

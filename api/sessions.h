// The sessions of a network: where it runs beside the host's processors, or why it does not.
//
// There is one for each lane on a GPU that the network was to run on. Sessions are added and stay until the end of all;
// the network, and the lanes, end later. Any thread may look, or give sessions up; one thread at a time adds.
#ifndef VOXELD_SESSIONS_H
#define VOXELD_SESSIONS_H

#include <stdatomic.h>

#include "api/base/text.h"
#include "kernels/kernels.h"

struct session;

struct sessions {
  _Atomic(struct session *) first;
};

// Opens a session of the network on the lane that has the place. Without one the error says why, and so does
// sessions_write.
VX_WARN_UNUSED enum vx_status sessions_open(struct sessions *sessions, const struct vx_engine *engine,
                                            struct vx_network *network, const struct vx_lane *lane,
                                            const struct vx_device_stream *stream, struct error *error);
// The session on a lane; NULL if it has none, or none any more.
struct vx_session *sessions_on(const struct sessions *sessions, const struct vx_lane *lane);
// The network has failed on that lane and runs there no more; `reason` is copied.
void sessions_give_up(struct sessions *sessions, const struct vx_lane *lane, const char *reason);
// The GPU of that number is lost, and with it all sessions there.
void sessions_lose(struct sessions *sessions, int device);
// How many are in use, on the GPU of that number.
int sessions_count(const struct sessions *sessions, int device);
// A list of JSON objects, in the order in which the sessions were opened.
void sessions_write(const struct sessions *sessions, struct text *out);
// When no job runs with one of them.
void sessions_close(struct sessions *sessions, const struct vx_engine *engine);

#endif

// Uploads: what is reserved for a body while it arrives.
//
// If queue slots or memory run short, another request may preempt the slowest upload and take over its reservation
// (docs/operate/overload.md#making-room). An upload that has received nothing loses only its reservation, and reserves
// again with its first bytes. Any other preempted upload is refused. Once the body is whole, a job owns the
// reservation, and nobody preempts it. While more than half of the memory is in use, an upload gets memory in a few
// steps, as its bytes arrive.
//
// The phase of the connection's peer (net/peer.h) says who may access the reservation. The I/O thread of the connection
// calls the functions upload_*. Any thread calls uploads_make_room, which preempts uploads with the watcher's lock
// held.
#ifndef VOXELD_UPLOADS_H
#define VOXELD_UPLOADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "server/jobs/job.h"
#include "server/net/watcher.h"

struct uploads {
  struct watcher *watcher;
  atomic_bool refused;             // whether a request got no memory since jobs_memory_wanted last asked
  atomic_uint_fast64_t preempted;  // uploads refused in favour of others, since the start
};

// Makes room for a job with a whole body: evicts a sweep or preempts an upload. False: it can do neither.
VX_WARN_UNUSED bool uploads_make_room(struct job_services *services, struct client *client,
                                      const struct shortage *shortage);

// Reserves for a body of `bytes` (0: no body, or an unknown length), once the headers are complete. Preempts no upload:
// if only preempting one would make room, returns true without a reservation, and upload_write reserves. False with an
// error: there is no room, and preempting an upload would not make any.
VX_WARN_UNUSED bool upload_begin(struct peer *peer, const struct job *job, size_t bytes, struct error *error);
// Appends bytes to the body. The caller has already added `size` to peer->upload.bytes.
VX_WARN_UNUSED bool upload_write(struct peer *peer, const struct job *job, const char *data, size_t size,
                                 struct error *error);
// The body is whole: the job gets the reserved queue slot and input.
VX_WARN_UNUSED bool upload_commit(struct peer *peer, struct job *job, struct error *error);
// Releases the reservation of an upload that was not committed.
void upload_release(struct peer *peer, const struct job *job);

#endif

// Uploads: what the server reserves for a body while it comes, a slot in the queue and memory, and how fast it comes.
//
// If slots or memory run short, the slowest upload is preempted: it gives up its reservation to whoever has bytes to
// put there. The slowest is the one whose body will take longest at its present rate. Four uploads are spared:
// - one whose body takes 2 s at most,
// - one whose client holds less than the other request wants, if it moves at 128 KiB/s or more or the server is late
//   in reading it,
// - one that has begun in the last half second, from other uploads of its own client: its rate is not known yet,
// - one that its I/O thread writes to or has paused.
// An upload of which nothing has come is preempted without a word, and reserves anew with its first bytes. Any other is
// refused. Once the body is whole, its job owns the reservation and nobody takes it away. Once half of the memory is
// in use, an upload gets memory only as its bytes come, in a few steps.
//
// The upload is a part of its connection's peer (net/peer.h), whose phase tells who may touch the reservation. The IO
// thread of the connection calls all functions of an upload; a worker calls job_get_*. Any thread may preempt an
// upload, with the watcher's lock.
#ifndef VOXELD_UPLOADS_H
#define VOXELD_UPLOADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/jobs/job.h"
#include "server/net/watcher.h"

struct uploads {
  struct watcher *watcher;         // its peers are looked at
  atomic_bool refused;             // a request, for want of memory, since uploads_were_refused last asked
  atomic_uint_fast64_t preempted;  // uploads that were refused in favour of others
};

void uploads_init(struct uploads *uploads, struct watcher *watcher);
// Whether a request was refused for want of memory since the last call.
bool uploads_were_refused(struct uploads *uploads);
// A job, whose body is here, lacks something: a sweep of a stream or an upload makes room. False if there is none that
// should.
VX_WARN_UNUSED bool uploads_make_room(struct job_services *services, struct client *client,
                                      const struct shortage *shortage);

// A request has come. Nothing is reserved, and upload_cancel does nothing.
void upload_init(struct peer *peer);
// The headers of the job's request are here: `bytes` of body are due (0: none, or unknown). False with an error if
// there is no room, nor would be if others were preempted.
VX_WARN_UNUSED bool upload_begin(struct peer *peer, const struct job *job, size_t bytes, struct error *error);
// Appends bytes of the body, which peer_upload_progress has counted. False with an error.
VX_WARN_UNUSED bool upload_write(struct peer *peer, const struct job *job, const char *data, size_t size,
                                 struct error *error);
// The body is whole: the job gets what was reserved, its queue slot and its input. False with an error.
VX_WARN_UNUSED bool upload_commit(struct peer *peer, struct job *job, struct error *error);
// The upload is over in any other way: gives back what it holds.
void upload_cancel(struct peer *peer, const struct job *job);

#endif

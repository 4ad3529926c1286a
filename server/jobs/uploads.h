// Uploads: what the server reserves for a body while it comes, a place in the queue and memory, and how fast it comes.
//
// If places or memory run short, the slowest upload is preempted: it gives up its reservation to whoever has bytes to
// put there. The slowest is the one whose body will take longest at its present rate. Four uploads are spared:
// - one whose body takes 2 s at most, unless its client is greedy (clients.h),
// - one whose client holds less than the other request wants, if it moves at 128 KiB/s or more or the server is late
//   in reading it,
// - one that has begun in the last half second, from other uploads of its own client: its rate is not known yet,
// - one that its I/O thread writes to or has paused.
// An upload of which nothing has come is preempted without a word, and reserves anew with its first bytes. Any other is
// refused. Once the body is whole, its job owns the reservation and nobody takes it away. Once half of the memory is
// in use, an upload gets memory only as its bytes come, in a few steps.
//
// Other threads see an upload, and never its job or its request: an upload has no pointer to these. The I/O thread of
// the request calls all functions of an upload; a worker calls job_get_*. Any thread may preempt an upload.
#ifndef VOXELD_UPLOADS_H
#define VOXELD_UPLOADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/pace.h"
#include "server/jobs/job.h"

struct upload;

// What the owner of an upload tells of it, and is told. Called on any thread, with the list's lock held.
struct upload_calls {
  bool (*has_unread)(const struct upload *upload);  // whether bytes of it are here that the server has not read yet
  void (*preempted)(struct upload *upload);         // it is refused from now on
};

struct upload {
  // Fixed from upload_begin on.
  struct job_means *means;
  struct client *client;
  enum vx_lane_use use;  // of the lanes of its job, as the headers tell it
  int64_t expected;      // bytes of the whole body; 0: unknown
  size_t lead;           // bytes of `input` in front of the body
  const struct upload_calls *calls;

  // Any thread reads these.
  atomic_int state;     // enum upload_state
  atomic_llong bytes;   // of the body, so far
  atomic_llong memory;  // bytes of `input`
  atomic_bool placed;   // it has a place in the queue

  // The I/O thread's while the upload is locked; else whoever has the list's lock.
  struct buffer *input;
  size_t written;  // bytes of the body in `input`

  // Under the list's lock.
  struct upload *next, *before;
  struct pace pace;
};

struct uploads {
  pthread_mutex_t lock;
  struct upload *first;
  atomic_bool refused;         // a request, for want of memory, since uploads_were_refused last asked
  atomic_uint_fast64_t ended;  // uploads that were refused in favour of others
};

void uploads_init(struct uploads *uploads);
void uploads_destroy(struct uploads *uploads);
// Call it several times in each half second.
void uploads_tick(struct uploads *uploads, int64_t now_ns);
// Whether a request was refused for want of memory since the last call.
bool uploads_were_refused(struct uploads *uploads);

// An upload that holds nothing: upload_cancel does nothing.
void upload_init(struct upload *upload);
// The headers of the job's request are here: `bytes` of body are due (0: none, or unknown). False with a problem if
// there is no room, nor would be if others were preempted.
VX_WARN_UNUSED bool upload_begin(struct upload *upload, const struct job *job, size_t bytes,
                                 const struct upload_calls *calls, struct problem *problem);
// Appends the next bytes of the body. False with a problem.
VX_WARN_UNUSED bool upload_write(struct upload *upload, const char *data, size_t size, struct problem *problem);
// Between these two calls the server does not read the body, and the upload is not slow for that. Both do nothing if
// there is no upload.
void upload_pause(struct upload *upload);
void upload_resume(struct upload *upload);
// The body is whole: the job gets what was reserved, its place and its input. Does nothing if there is no upload. False
// with a problem.
VX_WARN_UNUSED bool upload_commit(struct upload *upload, struct job *job, struct problem *problem);
// The upload is over in any other way: gives back what it holds. Does nothing if there is no upload.
void upload_cancel(struct upload *upload);

// The same as job_take_rows, job_take_output, job_take_decoder and job_take_scratch; if need be, slow uploads are
// preempted.
VX_WARN_UNUSED bool job_get_rows(struct job *job, size_t bytes, struct problem *problem);
VX_WARN_UNUSED bool job_get_output(struct job *job, size_t bytes, struct problem *problem);
VX_WARN_UNUSED bool job_get_decoder(struct job *job, struct problem *problem);
VX_WARN_UNUSED bool job_get_scratch(struct job *job, size_t bytes, struct problem *problem);

#endif

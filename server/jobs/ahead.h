// Points that reach a GPU ahead of their job, while the rest of the body is still on its way.
//
// While no GPU has a job, a large body of plain rows that comes fast is shown here as it arrives. The worker that waits
// awake (queue.h) has its lane copy what has come; if none is awake, one is woken. The whole body's job goes to that
// worker as to any other, and finds those points on the device. One body at a time is shown, that of a lone client, for
// as long as it goes on coming. Whatever comes between, such as another job for the worker, costs the copies and no
// more: in the host's memory the body is whole.
//
// I/O threads show bodies and hide them, workers copy. The lock is held while a lane is told to copy, mostly some
// microseconds; for longer by who gives the body's memory back while it is copied, and while a lane grows.
#ifndef VOXELD_AHEAD_H
#define VOXELD_AHEAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/jobs/devices.h"

// A body as it arrives. Only `come` changes while it is shown.
struct arrival {
  const char *body;
  size_t whole;        // bytes; 0: it is not to be shown
  int64_t began_ns;    // when the first of them came
  atomic_size_t come;  // of these, in the memory
};

struct ahead {
  pthread_mutex_t lock;
  _Atomic(struct arrival *) arrival;  // that is shown, or NULL. Changes with the lock held
  size_t copied;                      // bytes of that
  atomic_uint news;                   // changes when more may be worth a copy: all that a waiting worker looks at
  unsigned heard;                     // of these, by the one worker that waits awake
  struct device *gpu;                 // that has copied them
  struct vx_lane *lane;               // likewise; NULL: none has
  struct devices *devices;
  bool possible;             // some worker copies; set at the start
  atomic_llong noted_ns;     // when more of the body has come last
  void (*rouse)(void *cls);  // is to have a worker wait awake
  void *cls;
  atomic_ullong found;  // bytes that jobs have found on their lanes, since the start
};

void ahead_init(struct ahead *ahead, struct devices *devices, void (*rouse)(void *cls), void *cls);
void ahead_destroy(struct ahead *ahead);

// So many bytes of a body have come. Shows it, once there are enough for a copy, unless another one is shown or a GPU
// has something to do.
void ahead_note(struct ahead *ahead, struct arrival *arrival, size_t come);
// Its memory is about to be given back: nothing of it is copied from now on. It need not be shown.
void ahead_hide(struct ahead *ahead, struct arrival *arrival);

// Whether there may be something to copy. Costs a worker that asks all the time, and its neighbours, nothing.
static inline bool ahead_has_news(const struct ahead *ahead) { return atomic_load(&ahead->news) != ahead->heard; }
// For a worker with this lane: copies what has come, if it is worth a copy.
void ahead_copy(struct ahead *ahead, struct device *gpu, struct vx_lane *lane);
// The body's job is about to run on the lane. Returns how many bytes are there. If the run fails, settle the lane.
size_t ahead_take(struct ahead *ahead, struct arrival *arrival, const struct vx_lane *lane);
// The lane copies no more.
void ahead_leave(struct ahead *ahead, const struct vx_lane *lane);

#endif

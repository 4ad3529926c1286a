// The queue between the IO threads and the workers. Clients take turns; the jobs of one client are first in, first out.
// So a client that floods the queue waits behind its own jobs. While other clients are served, a client gets all
// workers but one, so that even long jobs do not block the others.
//
// A job in the queue belongs to the queue; the thread that takes it out owns it. Any thread. The queue needs no bound:
// each job took a place (SHARE_JOBS) before its body came, and the places are limited. So an accepted job finds room.
//
// A waiting worker whose device has the fewest jobs gets the next job. Of several on that device, it is the one that
// began to wait last: it wakes most quickly, and the processors of the others may sleep on. One worker at a time may
// wait awake, polling for a moment before it sleeps: a GPU may do a job in 0.1 ms, and waking a processor can take
// longer.
//
// While GPUs work, the queue of long jobs has workers of the CPU beside theirs. Then the placement says to which of the
// two a job may go (placement.h). A job that has no free worker there waits, and the queue looks at the job of the next
// client. What runs on the CPU then keeps no client from a GPU.
#ifndef VOXELD_QUEUE_H
#define VOXELD_QUEUE_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/jobs/devices.h"
#include "server/jobs/placement.h"

struct job;

// A worker's entry in the queue, in use while the worker is in queue_pop. Whoever wakes the worker may still be at it
// then, so it outlives all calls.
struct queue_waiter {
  sem_t wake;
  _Atomic(struct job *) job;  // that was handed over, or NULL
  struct queue_waiter *next;
  bool counted;        // its job counts among those of the client that run
  bool called;         // by queue_call
  int device;          // the worker's: QUEUE_CPU, or QUEUE_GPU + the number of a GPU
  atomic_llong *load;  // jobs handed to that device and not done, from all queues
};

enum { QUEUE_CPU, QUEUE_GPU, QUEUE_DEVICES = QUEUE_GPU + MAX_DEVICES };
enum { QUEUE_CALLED_MOST = 64 };

struct queue {
  struct lock lock;
  enum vx_lane_use use;                      // of its jobs
  struct client *first, *last;               // clients with waiting jobs, in the order of their turns
  int64_t clients;                           // number of these
  struct queue_waiter *idle[QUEUE_DEVICES];  // a stack for each device: waiters that sleep
  int devices;                               // those from here on never had one
  atomic_int asleep;                         // waiters in these
  struct queue_waiter *awake;                // the waiter that polls, or NULL
  int64_t awake_ns;                          // how long a waiter polls before it sleeps; 0: not at all
  struct recency served;                     // which clients submitted jobs lately
  int64_t most;                              // jobs of one client that may run at the same time while others are served
  atomic_llong depth;                        // jobs that wait
  bool closed;
  struct placement *placement;  // NULL: a job may go to any worker. The lock is over it
};

void queue_init(struct queue *queue, enum vx_lane_use use, int64_t awake_ns);
void queue_destroy(struct queue *queue);

// False if the queue is closed: the job stays the caller's.
VX_WARN_UNUSED bool queue_push(struct queue *queue, struct job *job);

void queue_waiter_init(struct queue_waiter *waiter, int device, atomic_llong *load);
void queue_waiter_destroy(struct queue_waiter *waiter);

// Waits for a job; NULL if the waiter is `called` meanwhile, or once the queue is closed and empty.
struct job *queue_pop(struct queue *queue, struct queue_waiter *waiter);
// Wakes up to `most` waiters that sleep, and no more than QUEUE_CALLED_MOST, to do something else. Returns how many.
int64_t queue_call(struct queue *queue, int64_t most);
// The worker has done that job.
void queue_done(struct queue *queue, struct queue_waiter *waiter, const struct job *job);
// The worker puts its job back for other workers. False if the queue is closed: the job stays the worker's.
VX_WARN_UNUSED bool queue_return(struct queue *queue, struct queue_waiter *waiter, struct job *job);
// To be called now and then, with the number of workers at work. Hands out jobs that may run by now, because their
// client has become the only one.
void queue_tick(struct queue *queue, int64_t workers, int64_t now_ns);

// Takes out the jobs that are stale (job_is_stale), as a list linked by `next`.
struct job *queue_take_stale(struct queue *queue, int64_t now_ns);

// Takes out all jobs, likewise; used when the time to drain is over.
struct job *queue_take_all(struct queue *queue);

// Takes no more jobs; queue_pop still hands out those that wait.
void queue_close(struct queue *queue);
// How many jobs wait.
int64_t queue_depth(const struct queue *queue);

#endif

// The queue between the IO threads and the workers: the clients in turn, each client's jobs first in, first out. So
// whoever floods waits behind itself. While others are served a client gets all workers but one, so that not even long
// jobs stand in their way.
//
// A job in it belongs to the queue; whoever takes it out owns it. Any thread. It is bounded by the places that clients
// take (SHARE_JOBS) before their bodies come, so that what has been accepted always finds room.
//
// Of the workers that wait, one whose device has the fewest jobs gets the next one. Among those it is the last to have
// begun waiting: it is the quickest to wake, and the others' processors may sleep on. One at a time may wait awake for
// a moment: beside a GPU's job of 0.1 ms, waking a processor can take longer than the job.
#ifndef VOXELD_QUEUE_H
#define VOXELD_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/clients/clients.h"
#include "server/clients/recency.h"
#include "server/jobs/devices.h"

struct job;

// One who waits for a job; the worker's, in use while it is in queue_pop.
struct queue_waiter {
  pthread_cond_t wake;
  _Atomic(struct job *) job;  // handed over
  struct queue_waiter *next;
  int device;          // whose jobs it runs: below QUEUE_DEVICES
  atomic_llong *load;  // jobs handed to that device and not done, of both queues
};

enum { QUEUE_DEVICES = MAX_DEVICES + 1 };  // GPUs, and the CPU

struct queue {
  pthread_mutex_t lock;
  enum vx_lane_use use;                      // whose jobs
  struct client *first, *last;               // those with waiting jobs, in the order of their turns
  struct queue_waiter *idle[QUEUE_DEVICES];  // a stack for each device: those asleep
  struct queue_waiter *awake;                // or NULL
  int64_t awake_ns;                          // how long one waits awake; 0: nobody does
  struct recency served;
  int64_t most;  // jobs of one client that run at the same time while others are served
  int64_t depth;
  bool closed;
};

void queue_init(struct queue *queue, enum vx_lane_use use, int64_t awake_ns);
void queue_destroy(struct queue *queue);

// False if the queue is closed: the job stays the caller's.
VX_WARN_UNUSED bool queue_push(struct queue *queue, struct job *job);

void queue_waiter_init(struct queue_waiter *waiter, int device, atomic_llong *load);
void queue_waiter_destroy(struct queue_waiter *waiter);

// Waits for a job; NULL once the queue is closed and empty.
struct job *queue_pop(struct queue *queue, struct queue_waiter *waiter);
// The worker is done with a job of that client.
void queue_done(struct queue *queue, struct queue_waiter *waiter, struct client *client);
// Or it leaves it to others. False if the queue is closed: the job stays the worker's.
VX_WARN_UNUSED bool queue_return(struct queue *queue, struct queue_waiter *waiter, struct job *job);
// To be called now and then, with the number of workers: others may have ceased to ask.
void queue_tick(struct queue *queue, int64_t workers, int64_t now_ns);

// Takes out those that need no run any more (deadline over, client gone), as a list linked by `next`.
struct job *queue_take_stale(struct queue *queue, int64_t now_ns);

// Takes out all; used when the time to drain is over.
struct job *queue_take_all(struct queue *queue);

void queue_close(struct queue *queue);
int64_t queue_depth(struct queue *queue);

#endif

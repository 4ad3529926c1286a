// The queue between the I/O threads and the workers. It serves clients round-robin; the jobs of one client are first
// in, first out. While others are served, a client gets all workers but one or, if there is only one, this one. So even
// long jobs do not block other clients.
//
// The next job goes to a waiting worker of the device with the fewest jobs: to the one that began to wait last, because
// it wakes fastest.
//
// While GPUs are DEVICE_WORKING, the queue of long jobs also has workers of the CPU, and the placement chooses the
// target of a job (placement.h). If no worker of that target is free, the job waits and the queue tries the next
// client. Jobs on the CPU do not count towards a client's limit of running jobs.
//
// Any thread. The queue owns its jobs; the thread that takes out a job owns it. Queue slots (share_of_queue_slot) bound
// the queue.
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
struct job_choice;

// A worker's entry in the queue. It lives as long as the worker: the thread that wakes the worker may access the entry
// after queue_pop has returned.
struct queue_waiter {
  sem_t wake;
  _Atomic(struct job *) job;  // for the worker, or NULL
  struct queue_waiter *next;
  bool counted;        // its job counts towards the client's running jobs
  bool called;         // woken by queue_call
  int device;          // the worker's: QUEUE_CPU, or QUEUE_GPU + the number of a GPU
  atomic_llong *load;  // jobs of that device, from all queues
};

enum { QUEUE_CPU, QUEUE_GPU, QUEUE_DEVICES = QUEUE_GPU + MAX_DEVICES };
enum { QUEUE_CALLED_MOST = 64 };

struct queue {
  struct lock lock;
  enum vx_lane_use use;                      // of its jobs
  struct client *first, *last;               // the list of clients with waiting jobs; the first is next
  int64_t clients;                           // in this list
  struct queue_waiter *idle[QUEUE_DEVICES];  // a stack for each device: waiters that sleep
  int devices;                               // stacks from this number on were never used
  atomic_int asleep;                         // waiters in these stacks
  struct recency served;                     // clients that submitted jobs recently
  int64_t most;                              // running jobs of one client, while others are served
  atomic_llong depth;                        // jobs that wait
  bool stopped;
  struct placement *placement;  // protected by the lock; NULL: any worker may take any job
};

void queue_init(struct queue *queue, enum vx_lane_use use);
void queue_end(struct queue *queue);

// False: the queue is stopped, and the caller keeps the job.
VX_WARN_UNUSED bool queue_push(struct queue *queue, struct job *job);

void queue_waiter_init(struct queue_waiter *waiter, int device, atomic_llong *load);
void queue_waiter_end(struct queue_waiter *waiter);

// Waits for a job. NULL: the waiter was `called`, or the queue is stopped. After a stop, the workers that are busy take
// the jobs that still wait.
struct job *queue_pop(struct queue *queue, struct queue_waiter *waiter);
// Wakes up to `most` sleeping waiters (QUEUE_CALLED_MOST at most) and gives them no job. Returns how many.
int64_t queue_call(struct queue *queue, int64_t most);
// A sleeping waiter of the least loaded GPU, or of the GPU that the job needs. The caller runs the job in place of the
// waiter's worker, calls queue_done, and releases the waiter. NULL: none sleeps, or jobs wait.
struct queue_waiter *queue_acquire(struct queue *queue, struct job *job);
void queue_release(struct queue *queue, struct queue_waiter *waiter);
void queue_done(struct queue *queue, struct queue_waiter *waiter, const struct job *job);
// Puts the job back, for other workers. False: the queue is stopped, and the worker keeps the job.
VX_WARN_UNUSED bool queue_requeue(struct queue *queue, struct queue_waiter *waiter, struct job *job);
// Call it regularly, with the number of workers that may take any job of this use (workers_steady). Starts jobs that
// may run because their client is now alone.
void queue_tick(struct queue *queue, int64_t workers, int64_t now_ns);

// Takes out the chosen jobs: a list linked by `next`.
struct job *queue_take(struct queue *queue, struct job_choice *choice);
// Takes no more jobs. queue_pop still returns the jobs that wait.
void queue_stop(struct queue *queue);

#endif

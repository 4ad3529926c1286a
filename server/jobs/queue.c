// The job queue; see queue.h.
#include "server/jobs/queue.h"

#include <sched.h>

#include "server/base/clock.h"
#include "server/jobs/job.h"

void queue_init(struct queue *queue, enum vx_lane_use use, int64_t awake_ns) {
  *queue = (struct queue){.use = use, .awake_ns = awake_ns, .most = 1};
  pthread_mutex_init(&queue->lock, NULL);
}

void queue_destroy(struct queue *queue) { pthread_mutex_destroy(&queue->lock); }

void queue_waiter_init(struct queue_waiter *waiter, int device, atomic_llong *load) {
  *waiter = (struct queue_waiter){.device = device, .load = load};
  pthread_cond_init(&waiter->wake, NULL);
}

void queue_waiter_destroy(struct queue_waiter *waiter) { pthread_cond_destroy(&waiter->wake); }

// ---- turns; with the lock held --------------------------------------------------------------------------------------

static void append_client(struct queue *queue, struct client *client) {
  client->jobs[queue->use].next = NULL;
  if (queue->last)
    queue->last->jobs[queue->use].next = client;
  else
    queue->first = client;
  queue->last = client;
}

// While other clients are served, a client may run `most` jobs at once; otherwise any number.
static bool may_run(const struct queue *queue, const struct client *client, int64_t now_ns) {
  return client->jobs[queue->use].running < queue->most || queue->closed ||
         !recency_others(&queue->served, client, now_ns);
}

// The first client that may run a job leaves the ring; NULL if there is none.
static struct client *take_client(struct queue *queue, int64_t now_ns) {
  struct client *before = NULL, *client = queue->first;
  while (client && !may_run(queue, client, now_ns)) {
    before = client;
    client = client->jobs[queue->use].next;
  }
  if (!client) return NULL;
  struct client *after = client->jobs[queue->use].next;
  *(before ? &before->jobs[queue->use].next : &queue->first) = after;
  if (!after) queue->last = before;
  return client;
}

static void append(struct queue *queue, struct job *job) {
  struct client_jobs *jobs = &job->client->jobs[queue->use];
  job->next = NULL;
  if (jobs->head)
    jobs->tail->next = job;
  else {
    jobs->head = job;
    append_client(queue, job->client);
  }
  jobs->tail = job;
  queue->depth++;
}

// Takes the next job of the client whose turn it is, or NULL. The client's next turn comes after those of all others.
static struct job *take_first(struct queue *queue, int64_t now_ns) {
  struct client *client = take_client(queue, now_ns);
  if (!client) return NULL;
  struct client_jobs *jobs = &client->jobs[queue->use];
  struct job *job = jobs->head;
  jobs->head = job->next;
  if (jobs->head) append_client(queue, client);
  jobs->running++;
  queue->depth--;
  return job;
}

// The waiter that is to get the next job, or NULL if none waits.
static struct queue_waiter *choose(const struct queue *queue) {
  struct queue_waiter *best = queue->awake;
  for (int device = 0; device < QUEUE_DEVICES; device++) {
    struct queue_waiter *idle = queue->idle[device];
    if (idle && (!best || atomic_load(idle->load) < atomic_load(best->load))) best = idle;
  }
  return best;
}

static void give(struct queue_waiter *waiter, struct job *job) {
  if (job) atomic_fetch_add(waiter->load, 1);
  atomic_store(&waiter->job, job);
}

// Gives the jobs that may run to the waiters.
static void hand_over(struct queue *queue, int64_t now_ns) {
  struct queue_waiter *waiter;
  while ((waiter = choose(queue))) {
    struct job *job = take_first(queue, now_ns);
    if (!job) return;
    give(waiter, job);
    if (waiter == queue->awake) {
      queue->awake = NULL;
    } else {
      queue->idle[waiter->device] = waiter->next;
      pthread_cond_signal(&waiter->wake);
    }
  }
}

// ---- in and out -----------------------------------------------------------------------------------------------------

bool queue_push(struct queue *queue, struct job *job) {
  int64_t now_ns = clock_ns();
  pthread_mutex_lock(&queue->lock);
  bool taken = !queue->closed;
  if (taken) {
    append(queue, job);
    recency_note(&queue->served, job->client, now_ns);
    hand_over(queue, now_ns);
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

void queue_done(struct queue *queue, struct queue_waiter *waiter, struct client *client) {
  atomic_fetch_sub(waiter->load, 1);
  pthread_mutex_lock(&queue->lock);
  client->jobs[queue->use].running--;
  pthread_mutex_unlock(&queue->lock);
}

bool queue_return(struct queue *queue, struct queue_waiter *waiter, struct job *job) {
  pthread_mutex_lock(&queue->lock);
  bool taken = !queue->closed;
  if (taken) {
    atomic_fetch_sub(waiter->load, 1);
    job->client->jobs[queue->use].running--;
    append(queue, job);
    hand_over(queue, clock_ns());
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

void queue_tick(struct queue *queue, int64_t workers, int64_t now_ns) {
  pthread_mutex_lock(&queue->lock);
  queue->most = workers > 2 ? workers - 1 : 1;
  hand_over(queue, now_ns);
  pthread_mutex_unlock(&queue->lock);
}

// Waits awake for a job, for awake_ns at most. The lock is held before and after, but not meanwhile.
static void wait_awake(struct queue *queue, struct queue_waiter *waiter) {
  enum { LOOKS = 64 };
  queue->awake = waiter;
  pthread_mutex_unlock(&queue->lock);
  int64_t until_ns = clock_ns() + queue->awake_ns;
  do {
    for (int i = 0; i < LOOKS && !atomic_load(&waiter->job); i++) clock_pause();
    sched_yield();  // threads that have work go first
  } while (!atomic_load(&waiter->job) && clock_ns() < until_ns);
  pthread_mutex_lock(&queue->lock);
  if (queue->awake == waiter) queue->awake = NULL;
}

static void wait_asleep(struct queue *queue, struct queue_waiter *waiter) {
  waiter->next = queue->idle[waiter->device];
  queue->idle[waiter->device] = waiter;
  while (!atomic_load(&waiter->job) && !waiter->called && !queue->closed)
    pthread_cond_wait(&waiter->wake, &queue->lock);
}

struct job *queue_pop(struct queue *queue, struct queue_waiter *waiter) {
  pthread_mutex_lock(&queue->lock);
  waiter->called = false;
  give(waiter, take_first(queue, clock_ns()));
  if (!atomic_load(&waiter->job) && !queue->closed && queue->awake_ns > 0 && !queue->awake) wait_awake(queue, waiter);
  if (!atomic_load(&waiter->job) && !queue->closed) wait_asleep(queue, waiter);
  struct job *job = atomic_load(&waiter->job);
  pthread_mutex_unlock(&queue->lock);
  return job;
}

int64_t queue_call(struct queue *queue, int64_t most) {
  int64_t called = 0;
  pthread_mutex_lock(&queue->lock);
  for (int device = 0; device < QUEUE_DEVICES; device++)
    for (struct queue_waiter *waiter; called < most && (waiter = queue->idle[device]); called++) {
      queue->idle[device] = waiter->next;
      waiter->called = true;
      pthread_cond_signal(&waiter->wake);
    }
  pthread_mutex_unlock(&queue->lock);
  return called;
}

// Moves a client's stale jobs (all if now_ns is INT64_MAX) to the end of a list. Returns the list's new end.
static struct job **take_of(struct queue *queue, struct client_jobs *jobs, int64_t now_ns, struct job **end) {
  struct job **link = &jobs->head;
  while (*link) {
    struct job *job = *link;
    if (now_ns == INT64_MAX || job_is_stale(job, now_ns)) {
      *link = job->next;
      job->next = NULL;
      *end = job;
      end = &job->next;
      queue->depth--;
    } else {
      jobs->tail = job;
      link = &job->next;
    }
  }
  return end;
}

// Takes out the jobs that are stale at now_ns, or all if it is INT64_MAX. Clients with jobs left keep their turns.
static struct job *take(struct queue *queue, int64_t now_ns) {
  struct job *taken = NULL, **end = &taken;
  pthread_mutex_lock(&queue->lock);
  struct client *client = queue->first, *next;
  queue->first = queue->last = NULL;
  for (; client; client = next) {
    struct client_jobs *jobs = &client->jobs[queue->use];
    next = jobs->next;
    end = take_of(queue, jobs, now_ns, end);
    if (jobs->head) append_client(queue, client);
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

struct job *queue_take_stale(struct queue *queue, int64_t now_ns) {
  return take(queue, now_ns);
}
struct job *queue_take_all(struct queue *queue) {
  return take(queue, INT64_MAX);
}

// Those that sleep end, so they leave the stacks: nobody gives them a job or calls them from now on.
void queue_close(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  queue->closed = true;
  for (int device = 0; device < QUEUE_DEVICES; device++)
    for (struct queue_waiter *waiter; (waiter = queue->idle[device]);) {
      queue->idle[device] = waiter->next;
      pthread_cond_signal(&waiter->wake);
    }
  pthread_mutex_unlock(&queue->lock);
}

int64_t queue_depth(const struct queue *queue) { return atomic_load(&queue->depth); }

// The job queue; see queue.h.
#include "server/queue.h"

#include <sched.h>

#include "server/clock.h"
#include "server/request.h"

void queue_init(struct queue *queue, int64_t limit, int64_t awake_ns) {
  *queue = (struct queue){.limit = limit, .awake_ns = awake_ns};
  pthread_mutex_init(&queue->lock, NULL);
}

void queue_destroy(struct queue *queue) { pthread_mutex_destroy(&queue->lock); }

void queue_waiter_init(struct queue_waiter *waiter) { pthread_cond_init(&waiter->wake, NULL); }
void queue_waiter_destroy(struct queue_waiter *waiter) { pthread_cond_destroy(&waiter->wake); }

static void append(struct queue *queue, struct request *request) {
  request->next = NULL;
  if (queue->tail)
    queue->tail->next = request;
  else
    queue->head = request;
  queue->tail = request;
  queue->depth++;
}

bool queue_push(struct queue *queue, struct request *request) {
  pthread_mutex_lock(&queue->lock);
  struct queue_waiter *awake = queue->awake, *idle = queue->idle;
  bool taken = !queue->closed && (awake || idle || queue->depth < queue->limit);
  if (taken && awake) {
    queue->awake = NULL;
    atomic_store(&awake->request, request);
  } else if (taken && idle) {
    queue->idle = idle->next;
    atomic_store(&idle->request, request);
    pthread_cond_signal(&idle->wake);
  } else if (taken) {
    append(queue, request);
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

static struct request *take_first(struct queue *queue) {
  struct request *request = queue->head;
  queue->head = request->next;
  if (!queue->head) queue->tail = NULL;
  queue->depth--;
  return request;
}

// Without the lock, which is taken again at the end.
static void wait_awake(struct queue *queue, struct queue_waiter *waiter) {
  enum { LOOKS = 64 };
  queue->awake = waiter;
  pthread_mutex_unlock(&queue->lock);
  int64_t until_ns = clock_ns() + queue->awake_ns;
  do {
    for (int i = 0; i < LOOKS && !atomic_load(&waiter->request); i++) clock_pause();
    sched_yield();  // whoever has work goes first
  } while (!atomic_load(&waiter->request) && clock_ns() < until_ns);
  pthread_mutex_lock(&queue->lock);
  if (queue->awake == waiter) queue->awake = NULL;
}

static void wait_asleep(struct queue *queue, struct queue_waiter *waiter) {
  waiter->next = queue->idle;
  queue->idle = waiter;
  while (!atomic_load(&waiter->request) && !queue->closed) pthread_cond_wait(&waiter->wake, &queue->lock);
}

struct request *queue_pop(struct queue *queue, struct queue_waiter *waiter) {
  pthread_mutex_lock(&queue->lock);
  atomic_store(&waiter->request, queue->head ? take_first(queue) : NULL);
  if (!atomic_load(&waiter->request) && !queue->closed && queue->awake_ns > 0 && !queue->awake)
    wait_awake(queue, waiter);
  if (!atomic_load(&waiter->request) && !queue->closed) wait_asleep(queue, waiter);
  struct request *request = atomic_load(&waiter->request);
  pthread_mutex_unlock(&queue->lock);
  return request;
}

// Takes out those that are stale at that time, all where it is INT64_MAX, in order.
static struct request *take(struct queue *queue, int64_t now_ns) {
  struct request *taken = NULL, **end = &taken;
  pthread_mutex_lock(&queue->lock);
  struct request **link = &queue->head;
  queue->tail = NULL;
  while (*link) {
    struct request *request = *link;
    if (request_is_stale(request, now_ns)) {
      *link = request->next;
      request->next = NULL;
      *end = request;
      end = &request->next;
      queue->depth--;
    } else {
      queue->tail = request;
      link = &request->next;
    }
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

struct request *queue_take_stale(struct queue *queue, int64_t now_ns) {
  return take(queue, now_ns);
}
struct request *queue_take_all(struct queue *queue) {
  return take(queue, INT64_MAX);
}

void queue_close(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  queue->closed = true;
  for (struct queue_waiter *waiter = queue->idle; waiter; waiter = waiter->next) pthread_cond_signal(&waiter->wake);
  pthread_mutex_unlock(&queue->lock);
}

int64_t queue_depth(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  int64_t depth = queue->depth;
  pthread_mutex_unlock(&queue->lock);
  return depth;
}

bool queue_is_full(struct queue *queue) { return queue_depth(queue) >= queue->limit; }

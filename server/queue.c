// The job queue; see queue.h.
#include "server/queue.h"

#include "server/request.h"

void queue_init(struct queue *queue, int64_t limit) {
  *queue = (struct queue){.limit = limit};
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
  struct queue_waiter *waiter = queue->idle;
  bool taken = !queue->closed && (waiter || queue->depth < queue->limit);
  if (taken && waiter) {
    queue->idle = waiter->next;
    waiter->request = request;
    pthread_cond_signal(&waiter->wake);
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

struct request *queue_pop(struct queue *queue, struct queue_waiter *waiter) {
  pthread_mutex_lock(&queue->lock);
  waiter->request = queue->head ? take_first(queue) : NULL;
  if (!waiter->request && !queue->closed) {
    waiter->next = queue->idle;
    queue->idle = waiter;
    while (!waiter->request && !queue->closed) pthread_cond_wait(&waiter->wake, &queue->lock);
  }
  pthread_mutex_unlock(&queue->lock);
  return waiter->request;
}

// Takes out what `stale` names, or all where now_ns is INT64_MAX, in order.
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

// The job queue; see queue.h.
#include "server/queue.h"

#include "server/request.h"

void queue_init(struct queue *queue, int64_t limit) {
  *queue = (struct queue){.limit = limit};
  pthread_mutex_init(&queue->lock, NULL);
  pthread_cond_init(&queue->filled, NULL);
}

void queue_destroy(struct queue *queue) {
  pthread_cond_destroy(&queue->filled);
  pthread_mutex_destroy(&queue->lock);
}

bool queue_push(struct queue *queue, struct request *request) {
  pthread_mutex_lock(&queue->lock);
  bool taken = !queue->closed && queue->depth < queue->limit;
  if (taken) {
    request->next = NULL;
    if (queue->tail)
      queue->tail->next = request;
    else
      queue->head = request;
    queue->tail = request;
    queue->depth++;
    pthread_cond_signal(&queue->filled);
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

struct request *queue_pop(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  while (!queue->head && !queue->closed) pthread_cond_wait(&queue->filled, &queue->lock);
  struct request *request = queue->head;
  if (request) {
    queue->head = request->next;
    if (!queue->head) queue->tail = NULL;
    queue->depth--;
  }
  pthread_mutex_unlock(&queue->lock);
  return request;
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
  pthread_cond_broadcast(&queue->filled);
  pthread_mutex_unlock(&queue->lock);
}

int64_t queue_depth(struct queue *queue) {
  pthread_mutex_lock(&queue->lock);
  int64_t depth = queue->depth;
  pthread_mutex_unlock(&queue->lock);
  return depth;
}

bool queue_is_full(struct queue *queue) { return queue_depth(queue) >= queue->limit; }

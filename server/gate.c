// The gate in front of the bodies; see gate.h.
#include "server/gate.h"

#include "server/clock.h"
#include "server/request.h"

static const int64_t recent_ns = NS_PER_S;  // who asked within it is being served

void gate_init(struct gate *gate, int64_t each) {
  *gate = (struct gate){.each = each, .open = each == 0};
  pthread_mutex_init(&gate->lock, NULL);
}

void gate_destroy(struct gate *gate) { pthread_mutex_destroy(&gate->lock); }

// ---- with the lock held -----------------------------------------------------------------------------------------------

// Whether somebody else was served of late. The pointers are only compared.
static bool others_ask(const struct gate *gate, const struct client *client, int64_t now_ns) {
  bool own = gate->last == client;
  return (own ? gate->other : gate->last) && now_ns - (own ? gate->other_ns : gate->last_ns) < recent_ns;
}

static void append(struct gate *gate, struct client *client, struct request *request) {
  struct client_uploads *uploads = &client->uploads;
  request->next = NULL;
  if (uploads->head) {
    uploads->tail->next = request;
  } else {
    uploads->head = request;
    uploads->next = gate->first;
    gate->first = client;
  }
  uploads->tail = request;
  gate->waiting++;
}

// The client's next request goes in: it is put in front of `list`.
static struct request *take(struct gate *gate, struct client *client, struct request *list) {
  struct client_uploads *uploads = &client->uploads;
  struct request *request = uploads->head;
  uploads->head = request->next;
  uploads->count++;
  gate->waiting--;
  if (!uploads->head) {
    struct client **link = &gate->first;
    while (*link != client) link = &(*link)->uploads.next;
    *link = uploads->next;
  }
  request->next = list;
  return request;
}

// Of every client so many at most go in.
static struct request *take_all(struct gate *gate, int64_t most) {
  struct request *list = NULL;
  for (struct client *client = gate->first, *next; client; client = next) {
    next = client->uploads.next;
    for (int64_t i = 0; i < most && client->uploads.head; i++) list = take(gate, client, list);
  }
  return list;
}

// ---- without it -------------------------------------------------------------------------------------------------------

static void resume(struct request *list) {
  while (list) {
    struct request *next = list->next;
    MHD_resume_connection(list->connection);
    list = next;
  }
}

void gate_note(struct gate *gate, const struct client *client, int64_t now_ns) {
  pthread_mutex_lock(&gate->lock);
  if (gate->last != client) {
    gate->other = gate->last;
    gate->other_ns = gate->last_ns;
    gate->last = client;
  }
  gate->last_ns = now_ns;
  pthread_mutex_unlock(&gate->lock);
}

bool gate_enter(struct gate *gate, struct request *request, int64_t now_ns) {
  struct client *client = request_client(request);
  pthread_mutex_lock(&gate->lock);
  bool waits = others_ask(gate, client, now_ns) && !gate->open && client->uploads.count >= gate->each;
  request->gated = client;
  if (waits) {
    MHD_suspend_connection(request->connection);  // first: from the append on it may be resumed
    append(gate, client, request);
  } else {
    client->uploads.count++;
  }
  pthread_mutex_unlock(&gate->lock);
  return !waits;
}

void gate_leave(struct gate *gate, struct request *request) {
  struct client *client = request->gated;
  if (!client) return;
  request->gated = NULL;
  pthread_mutex_lock(&gate->lock);
  client->uploads.count--;
  bool room = client->uploads.head && client->uploads.count < gate->each;
  struct request *next = room ? take(gate, client, NULL) : NULL;
  pthread_mutex_unlock(&gate->lock);
  resume(next);
}

void gate_tick(struct gate *gate) {
  pthread_mutex_lock(&gate->lock);
  struct request *list = take_all(gate, gate->each);
  pthread_mutex_unlock(&gate->lock);
  resume(list);
}

int64_t gate_waiting(struct gate *gate) {
  pthread_mutex_lock(&gate->lock);
  int64_t waiting = gate->waiting;
  pthread_mutex_unlock(&gate->lock);
  return waiting;
}

void gate_open(struct gate *gate) {
  pthread_mutex_lock(&gate->lock);
  gate->open = true;
  struct request *list = take_all(gate, INT64_MAX);
  pthread_mutex_unlock(&gate->lock);
  resume(list);
}

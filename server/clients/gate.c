// The gate; see gate.h.
#include "server/clients/gate.h"

#include "server/base/clock.h"
#include "server/http/request.h"

void gate_init(struct gate *gate, int64_t each) {
  *gate = (struct gate){.each = each, .open = each == 0};
  pthread_mutex_init(&gate->lock, NULL);
}

void gate_destroy(struct gate *gate) { pthread_mutex_destroy(&gate->lock); }

// ---- with the lock held -----------------------------------------------------------------------------------------------

static void append(struct gate *gate, struct client *client, struct request *request) {
  struct client_requests *requests = &client->requests;
  request->next = NULL;
  if (requests->head) {
    requests->tail->next = request;
  } else {
    requests->head = request;
    requests->next = gate->first;
    gate->first = client;
  }
  requests->tail = request;
  gate->waiting++;
}

// The client's next request goes in: it is put in front of `list`.
static struct request *take(struct gate *gate, struct client *client, struct request *list) {
  struct client_requests *requests = &client->requests;
  struct request *request = requests->head;
  requests->head = request->next;
  requests->count++;
  gate->waiting--;
  if (!requests->head) {
    struct client **link = &gate->first;
    while (*link != client) link = &(*link)->requests.next;
    *link = requests->next;
  }
  request->next = list;
  return request;
}

// Of every client so many at most go in.
static struct request *take_all(struct gate *gate, int64_t most) {
  struct request *list = NULL;
  for (struct client *client = gate->first, *next; client; client = next) {
    next = client->requests.next;
    for (int64_t i = 0; i < most && client->requests.head; i++) list = take(gate, client, list);
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
  recency_note(&gate->served, client, now_ns);
  pthread_mutex_unlock(&gate->lock);
}

bool gate_enter(struct gate *gate, struct request *request, int64_t now_ns) {
  struct client *client = request_client(request);
  pthread_mutex_lock(&gate->lock);
  bool waits = recency_others(&gate->served, client, now_ns) && !gate->open && client->requests.count >= gate->each;
  request->gated = client;
  if (waits) {
    MHD_suspend_connection(request->connection);  // first: from the append on it may be resumed
    append(gate, client, request);
  } else {
    client->requests.count++;
  }
  pthread_mutex_unlock(&gate->lock);
  return !waits;
}

void gate_leave(struct gate *gate, struct request *request) {
  struct client *client = request->gated;
  if (!client) return;
  request->gated = NULL;
  pthread_mutex_lock(&gate->lock);
  client->requests.count--;
  bool room = client->requests.head && client->requests.count < gate->each;
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

// See gate.h.
#include "server/clients/gate.h"

void gate_init(struct gate *gate, int64_t each, void (*hold)(struct gate_entry *entry),
               void (*resume)(struct gate_entry *entry)) {
  *gate = (struct gate){.each = each, .open = each == 0, .hold = hold, .resume = resume};
  lock_init(&gate->lock);
}

void gate_end(struct gate *gate) { lock_end(&gate->lock); }

// ---- with the lock held ---------------------------------------------------------------------------------------------

static void append(struct gate *gate, struct client *client, struct gate_entry *entry) HOLDS(gate->lock) {
  struct client_requests *requests = &client->requests;
  entry->next = NULL;
  if (requests->head) {
    requests->tail->next = entry;
  } else {
    requests->head = entry;
    requests->next = gate->first;
    gate->first = client;
  }
  requests->tail = entry;
  gate->waiting++;
}

// Lets in the client's next entry, and puts it in front of `list`.
static struct gate_entry *take(struct gate *gate, struct client *client, struct gate_entry *list) HOLDS(gate->lock) {
  struct client_requests *requests = &client->requests;
  struct gate_entry *entry = requests->head;
  requests->head = entry->next;
  requests->count++;
  gate->waiting--;
  if (!requests->head) {
    struct client **link = &gate->first;
    while (*link != client) link = &(*link)->requests.next;
    *link = requests->next;
  }
  entry->next = list;
  return entry;
}

// `most`: of each client.
static struct gate_entry *take_all(struct gate *gate, int64_t most) HOLDS(gate->lock) {
  struct gate_entry *list = NULL;
  for (struct client *client = gate->first, *next; client; client = next) {
    next = client->requests.next;
    for (int64_t i = 0; i < most && client->requests.head; i++) list = take(gate, client, list);
  }
  return list;
}

// ---- without the lock -----------------------------------------------------------------------------------------------

static void resume(const struct gate *gate, struct gate_entry *list) {
  while (list) {
    struct gate_entry *next = list->next;
    gate->resume(list);
    list = next;
  }
}

bool gate_enter(struct gate *gate, struct gate_entry *entry, struct client *client, bool job, int64_t now_ns) {
  lock_acquire(&gate->lock);
  if (job) recency_note(&gate->served, client, now_ns);
  bool waits = recency_others(&gate->served, client, now_ns) && !gate->open && client->requests.count >= gate->each;
  entry->client = client;
  if (waits) {
    gate->hold(entry);  // under the lock: after it, another thread may resume the entry
    append(gate, client, entry);
  } else {
    client->requests.count++;
  }
  lock_release(&gate->lock);
  return !waits;
}

void gate_release(struct gate *gate, struct gate_entry *entry) {
  struct client *client = entry->client;
  if (!client) return;
  entry->client = NULL;
  lock_acquire(&gate->lock);
  client->requests.count--;
  bool room = client->requests.head && client->requests.count < gate->each;
  struct gate_entry *next = room ? take(gate, client, NULL) : NULL;
  lock_release(&gate->lock);
  resume(gate, next);
}

void gate_let_in(struct gate *gate, bool all) {
  lock_acquire(&gate->lock);
  gate->open |= all;
  struct gate_entry *list = take_all(gate, all ? INT64_MAX : gate->each);
  lock_release(&gate->lock);
  resume(gate, list);
}

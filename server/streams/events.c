// See events.h.
#include "server/streams/events.h"

#include <string.h>

#include "api/base/json_write.h"
#include "server/base/base.h"

static const int64_t pause_ns = 15 * NS_PER_S;  // the time without an event before an EVENT_BEAT
static const int64_t doubt_ns = 1 * NS_PER_S;   // the same, if the client has finished sending

void events_init(struct events *events, struct clients *clients) {
  *events = (struct events){.clients = clients, .ended_ns = INT64_MIN};
  lock_init(&events->lock);
}

void events_end(struct events *events) { lock_end(&events->lock); }

// ---- with the lock held ---------------------------------------------------------------------------------------------

static void wake(struct subscriber *subscriber) {
  if (!subscriber->asleep) return;
  subscriber->asleep = false;
  subscriber->wake(subscriber);
}

static bool is_due(const struct subscriber *subscriber, int64_t now_ns) {
  int64_t silent_ns = now_ns - subscriber->told_ns;
  return silent_ns >= pause_ns || atomic_load(subscriber->gone) ||
         (silent_ns >= doubt_ns && atomic_load(subscriber->half_closed));
}

static struct event *kept_at(struct subscriber *subscriber, int number) {
  return &subscriber->kept[(subscriber->first + number) % EVENTS_KEPT];
}

static void drop_first(struct subscriber *subscriber) {
  subscriber->first = (subscriber->first + 1) % EVENTS_KEPT;
  subscriber->count--;
}

static void keep(struct events *events, struct subscriber *subscriber, const struct event *event) HOLDS(events->lock) {
  if (subscriber->count == EVENTS_KEPT) {
    drop_first(subscriber);
    subscriber->lost++;
    events->use.lost++;
  }
  *kept_at(subscriber, subscriber->count++) = *event;
  wake(subscriber);
}

static bool is_for(const struct subscriber *subscriber, const struct client *client, const char *stream) {
  return subscriber->client == client && (!subscriber->stream[0] || strcmp(subscriber->stream, stream) == 0);
}

// An EVENT_LOST comes before the kept events, because the lost ones were older.
static bool take(struct events *events, struct subscriber *subscriber, struct event *event, int64_t now_ns)
    HOLDS(events->lock) {
  if (subscriber->lost) {
    *event = (struct event){.kind = EVENT_LOST, .count = subscriber->lost};
    subscriber->lost = 0;
  } else if (subscriber->count) {
    *event = *kept_at(subscriber, 0);
    drop_first(subscriber);
    events->use.told++;
  } else if (subscriber->ending) {
    *event = (struct event){.kind = EVENT_END, .reason = subscriber->ending};
    subscriber->over = true;
  } else if (is_due(subscriber, now_ns)) {
    *event = (struct event){.kind = EVENT_BEAT};
  } else {
    return false;
  }
  subscriber->told_ns = now_ns;
  return true;
}

static bool let_in(struct events *events, struct client *client, struct error *error) HOLDS(events->lock) {
  if (events->closed)
    return error_refuse(error, ERROR_DRAINING, NULL, "the server is stopping; subscribe at another one");
  enum grant grant = share_acquire(events->clients, client, SHARE_SUBSCRIBERS, 1, 0);
  return grant == GRANTED ||
         error_refuse(error, grant_error(grant, ERROR_CONNECTIONS_FULL), NULL,
                      "there is no room for another subscriber: all clients together have up to %d, and a client up to "
                      "half of what the others leave free",
                      SUBSCRIBERS_MAX);
}

// ---- subscribers ----------------------------------------------------------------------------------------------------

bool events_subscribe(struct events *events, struct client *client, const struct event *open,
                      struct subscriber *subscriber, struct error *error) {
  lock_acquire(&events->lock);
  bool good = let_in(events, client, error);
  if (good) {
    subscriber->client = client;
    subscriber->first = subscriber->count = 0;
    subscriber->lost = 0;
    subscriber->told_ns = clock_ns();
    subscriber->ending = subscriber->came_ns <= events->ended_ns ? events->ending : NULL;
    subscriber->asleep = subscriber->over = false;
    subscriber->next = events->first;
    events->first = subscriber;
    events->count++;
    keep(events, subscriber, open);
  }
  lock_release(&events->lock);
  return good;
}

void subscriber_release(struct events *events, struct subscriber *subscriber) {
  lock_acquire(&events->lock);
  struct subscriber **link = &events->first;
  while (*link != subscriber) link = &(*link)->next;
  *link = subscriber->next;
  events->count--;
  share_release(events->clients, subscriber->client, SHARE_SUBSCRIBERS, 1);
  lock_release(&events->lock);
}

void events_tell(struct events *events, const struct client *client, const struct event *event) {
  lock_acquire(&events->lock);
  for (struct subscriber *each = events->first; each; each = each->next)
    if (!each->ending && is_for(each, client, event->stream)) keep(events, each, event);
  lock_release(&events->lock);
}

void events_tick(struct events *events, int64_t now_ns) {
  lock_acquire(&events->lock);
  for (struct subscriber *each = events->first; each; each = each->next)
    if (is_due(each, now_ns)) wake(each);
  lock_release(&events->lock);
}

void events_end_all(struct events *events, const char *reason, bool closes) {
  lock_acquire(&events->lock);
  events->closed = events->closed || closes;
  events->ending = reason;
  events->ended_ns = clock_ns();
  for (struct subscriber *each = events->first; each; each = each->next) {
    if (!each->ending) each->ending = reason;
    wake(each);
  }
  lock_release(&events->lock);
}

struct events_use events_use(struct events *events) {
  lock_acquire(&events->lock);
  struct events_use use = events->use;
  use.subscribers = events->count;
  lock_release(&events->lock);
  return use;
}

enum event_step events_take(struct events *events, struct subscriber *subscriber, struct event *event, int64_t now_ns) {
  lock_acquire(&events->lock);
  bool over = subscriber->over || atomic_load(subscriber->gone);
  enum event_step step = over ? EVENT_OVER : EVENT_TAKEN;
  if (step == EVENT_TAKEN && !take(events, subscriber, event, now_ns)) {
    step = EVENT_ASLEEP;
    subscriber->asleep = true;
    subscriber->sleep(subscriber);
  }
  lock_release(&events->lock);
  return step;
}

// ---- as text --------------------------------------------------------------------------------------------------------

static void write_stream(const struct event *event, struct text *out) {
  const struct join_counts *points = &event->points;
  json_printf(out, "stream:%s sweeps:%ld", event->stream, event->sweeps);
  bool newest = event->kind == EVENT_SWEEP || event->kind == EVENT_OPEN;
  if (newest && event->sweeps) json_printf(out, "time:%g", event->time);
  if (event->kind == EVENT_SWEEP)
    json_printf(out,
                "begun:%i repeated:%i superseded:%i points:{received:%ld removed_close:%ld joined:%ld not_finite:%ld}",
                event->begun, event->repeated, event->superseded, points->received, points->removed_close,
                points->joined, points->not_finite);
  if (event->kind == EVENT_EVICTED || event->kind == EVENT_EXPIRED) json_printf(out, "dropped:%ld", event->count);
}

void event_write(const struct event *event, struct text *out) {
  static const char *const names[EVENT_KINDS] = {"open", "sweep", "evicted", "expired", "deleted", "lost", "", "end"};
  if (event->kind == EVENT_BEAT) {
    text_put(out, ":\n\n");  // a comment, which clients skip
    return;
  }
  text_printf(out, "event: %s\ndata: ", names[event->kind]);
  json_printf(out, "{");
  if (event->kind == EVENT_END)
    json_printf(out, "reason:%s", event->reason);
  else if (event->kind == EVENT_LOST)
    json_printf(out, "events:%ld", event->count);
  else if (event->stream[0])
    write_stream(event, out);
  else
    json_printf(out, "streams:%ld", event->streams);
  json_printf(out, "}\n\n");
}

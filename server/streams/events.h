// The events of streams, for subscribers.
//
// A subscriber gets the events of its client's streams in their order. Up to EVENTS_KEPT events wait for it. Beyond
// that it loses the oldest events, and an event reports how many. So no thread waits for a slow subscriber.
//
// Any thread. A thread that holds the lock of the streams may take the lock of the events. `sleep` and `wake` are
// called with the lock of the events held, so that a subscriber is not woken before it sleeps.
#ifndef VOXELD_STREAM_EVENTS_H
#define VOXELD_STREAM_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/params/stream.h"
#include "api/wire/join.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"

enum {
  SUBSCRIBERS_MAX = 256,  // of all clients; each has a share of them
  EVENTS_KEPT = 64,       // for a subscriber
  EVENT_TEXT_SIZE = 512,  // bytes; the longest event fits
};

enum event_kind {
  EVENT_OPEN,     // the first event: the present state
  EVENT_SWEEP,    // a sweep was stored
  EVENT_EVICTED,  // sweeps made room for others, or found no room
  EVENT_EXPIRED,  // sweeps were too old
  EVENT_DELETED,  // the client has deleted the stream
  EVENT_LOST,     // the subscriber was too slow and lost events here
  EVENT_BEAT,     // nothing has happened for a while
  EVENT_END,      // the last event
  EVENT_KINDS
};

struct event {
  enum event_kind kind;
  char stream[STREAM_NAME_SIZE];  // "": all streams of the client
  int64_t sweeps;                 // of the stream after the event; 0: the stream ends, or has not begun
  int64_t streams;                // number of streams, in an OPEN of all streams
  int64_t count;                  // EVICTED, EXPIRED: sweeps; LOST: events
  double time;                    // OPEN, SWEEP: of the newest sweep
  bool begun, repeated;           // SWEEP
  bool superseded;                // SWEEP: a newer request superseded its request
  struct join_counts points;      // SWEEP
  const char *reason;             // END
};

// The owner fills the members marked "given", keeps the struct from events_subscribe to subscriber_release, and takes
// the events.
struct subscriber {
  char stream[STREAM_NAME_SIZE];                 // given; "": all streams of the client
  const atomic_bool *half_closed, *gone;         // given: the members of its connection's peer
  int64_t came_ns;                               // given: when its request began
  void (*sleep)(struct subscriber *subscriber);  // given
  void (*wake)(struct subscriber *subscriber);   // given; the owner should call events_take again
  struct subscriber *next;
  struct client *client;
  struct event kept[EVENTS_KEPT];  // a ring: [count] from `first` on
  int first, count;
  int64_t lost;        // events, since the last EVENT_LOST
  int64_t told_ns;     // when the subscriber last took an event
  const char *ending;  // why the subscription ends; NULL: it does not end
  bool asleep, over;   // over: the subscriber has taken its last event
};

struct events_use {
  int64_t subscribers;            // now
  unsigned long long told, lost;  // events, since the start
};

struct events {
  struct lock lock;
  struct clients *clients;
  atomic_llong count;  // subscribers; changes with the lock held
  struct subscriber *first;
  bool closed;
  const char *ending;  // ends subscriptions whose request began at `ended_ns` or before
  int64_t ended_ns;
  struct events_use use;  // without the count of subscribers
};

void events_init(struct events *events, struct clients *clients);
void events_end(struct events *events);  // no subscriber is left

// Subscribes, beginning with `open`. If the request began before the last events_end_all, the subscription ends at
// once. False with an error: there are too many subscribers, or the server stops.
VX_WARN_UNUSED bool events_subscribe(struct events *events, struct client *client, const struct event *open,
                                     struct subscriber *subscriber, struct error *error);
void subscriber_release(struct events *events, struct subscriber *subscriber);
void events_tell(struct events *events, const struct client *client, const struct event *event);
// Call it regularly while there are subscribers. Wakes those due for an EVENT_BEAT, which shows whether a client is
// still there.
void events_tick(struct events *events, int64_t now_ns);
// `reason` must outlive the subscriptions. If `closes`, nobody may subscribe any more.
void events_end_all(struct events *events, const char *reason, bool closes);
struct events_use events_use(struct events *events);

enum event_step { EVENT_TAKEN, EVENT_ASLEEP, EVENT_OVER };

// EVENT_ASLEEP: there is no event now, and the subscriber sleeps. EVENT_OVER: no event will come any more.
VX_WARN_UNUSED enum event_step events_take(struct events *events, struct subscriber *subscriber, struct event *event,
                                           int64_t now_ns);

// Writes the event as a server-sent event.
void event_write(const struct event *event, struct text *out);

#endif

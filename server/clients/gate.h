// The gate: how many requests of one client are in hand at the same time while other clients are served.
//
// The IO threads read from every connection in turn, so a client with hundreds of requests would leave little of them
// to one with a few. At the gate its further requests wait for each other, suspended: those with a large body after
// their headers, so that TCP holds their senders back, those with a small one before their job is queued. A lone client
// does not wait. Nor does one whose requests are slow, which cost the IO threads little: with every tick of the watcher
// as many more go in, whether or not the others have ended.
//
// The gate knows of a request only its entry; how a request is held and let go is its owner's. One that waits belongs
// to the gate. Any thread.
#ifndef VOXELD_GATE_H
#define VOXELD_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/clients/clients.h"
#include "server/clients/recency.h"

// A smaller body is read at once: the library takes no more of it in one go, so that it holds up nobody.
enum { GATED_BODY = 128 * 1024 };

// A request, as the gate sees it.
struct gate_entry {
  struct gate_entry *next;  // of those of the client that wait
  struct client *client;    // whose it is; NULL: it has not been at the gate, or has left
};

struct gate {
  pthread_mutex_t lock;
  int64_t each;  // requests of a client; 0 = any number
  bool open;     // nobody waits any more
  int64_t waiting;
  struct client *first;  // of those whose requests wait
  struct recency served;
  void (*hold)(struct gate_entry *entry);    // with the gate's lock; from its return on the entry may be let go
  void (*let_go)(struct gate_entry *entry);  // without it; from then on the entry is its owner's
};

void gate_init(struct gate *gate, int64_t each, void (*hold)(struct gate_entry *entry),
               void (*let_go)(struct gate_entry *entry));
void gate_destroy(struct gate *gate);

// A client asks for something: it is being served from now on.
void gate_note(struct gate *gate, const struct client *client, int64_t now_ns);
// False if the client's request must wait: it is held then, and let go in time.
VX_WARN_UNUSED bool gate_enter(struct gate *gate, struct gate_entry *entry, struct client *client, int64_t now_ns);
// The request is over. Does nothing if it was never at the gate.
void gate_leave(struct gate *gate, struct gate_entry *entry);
// To be called now and then: lets more in.
void gate_tick(struct gate *gate);
int64_t gate_waiting(struct gate *gate);
// Lets all in for good: the service stops.
void gate_open(struct gate *gate);

#endif

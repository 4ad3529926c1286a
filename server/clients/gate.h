// The gate limits how many requests of one client are in progress at a time while other clients are served.
//
// The I/O threads serve their connections in turn, so a client with hundreds of requests would leave little of their
// time to other clients. docs/operate/overload.md#gate says who waits, and for how long.
//
// The gate knows only the entry of a request; the entry's owner suspends and resumes the request. An entry that waits
// belongs to the gate. Any thread.
#ifndef VOXELD_GATE_H
#define VOXELD_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"

// Bytes. A body of up to this size is read before the gate: the library reads it in one go.
enum { GATED_BODY = 128 * 1024 };

// A request as the gate sees it.
struct gate_entry {
  struct gate_entry *next;  // the client's next entry that waits
  struct client *client;    // NULL: the request has not been at the gate, or has left it
};

struct gate {
  struct lock lock;
  int64_t each;          // requests of one client in progress; 0 = any number
  bool open;             // no request waits any more
  atomic_llong waiting;  // requests; changes with the lock held
  struct client *first;  // the first client with waiting requests
  struct recency served;
  void (*hold)(struct gate_entry *entry);    // called with the gate's lock, before the entry waits
  void (*resume)(struct gate_entry *entry);  // called without the lock; the entry belongs to its owner again
};

void gate_init(struct gate *gate, int64_t each, void (*hold)(struct gate_entry *entry),
               void (*resume)(struct gate_entry *entry));
void gate_end(struct gate *gate);

// True if the request may go on. If it must wait, the gate holds it and lets it go later. `job`: the request has a job,
// so its client counts as served for the next second.
VX_WARN_UNUSED bool gate_enter(struct gate *gate, struct gate_entry *entry, struct client *client, bool job,
                               int64_t now_ns);
// The request is over. Do not call it while the request waits. Does nothing if the request was never at the gate.
void gate_release(struct gate *gate, struct gate_entry *entry);
// Call it with each tick of the watcher: lets in up to `each` more requests of every client. `all`: the service is
// stopping, so lets in all requests that wait or come later.
void gate_let_in(struct gate *gate, bool all);

#endif

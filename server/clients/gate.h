// The gate limits how many requests of one client are in progress at a time while other clients are served
// (docs/operate/overload.md#gate). Otherwise a client with hundreds of requests would leave little time of the I/O
// threads to other clients.
//
// The gate knows the entry of a request; the entry's owner suspends and resumes the request. An entry that waits
// belongs to the gate. Any thread.
#ifndef VOXELD_GATE_H
#define VOXELD_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"

// Bytes. A body of up to this size is read before the gate.
enum { GATED_BODY = 128 * 1024 };

struct gate_entry {
  struct gate_entry *next;  // the client's next entry that waits
  struct client *client;    // NULL: the request has not been at the gate, or has left it
};

struct gate {
  struct lock lock;
  int64_t each;          // requests of one client in progress; 0: any number
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

// True if the request may go on. If it must wait, the gate calls `hold`, and later `resume`. `job`: the request has a
// job, so its client counts as served for the next second.
VX_WARN_UNUSED bool gate_enter(struct gate *gate, struct gate_entry *entry, struct client *client, bool job,
                               int64_t now_ns);
// The request is over. Do not call it while the request waits. Does nothing if the request was not at the gate.
void gate_release(struct gate *gate, struct gate_entry *entry);
// For each tick of the watcher: lets in up to `each` more requests of every client. `all`: lets in all requests that
// wait or come later, since the service is stopping.
void gate_let_in(struct gate *gate, bool all);

#endif

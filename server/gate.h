// The gate in front of the bodies: how many of one client's are read at the same time while other clients are served.
//
// The IO threads read from every connection in turn, so a client with hundreds of uploads would leave little of them to one with a
// few. At the gate its further requests wait for each other, suspended after their headers, and TCP holds their senders back.
// A lone client does not wait. Nor does one whose uploads are slow, which cost the IO threads little: with every tick of the
// watcher as many more go in, whether or not the others have ended.
//
// A request that waits belongs to the gate. Any thread.
#ifndef VOXELD_GATE_H
#define VOXELD_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/clients.h"

struct request;

// A smaller body is read at once: the library takes no more of it in one go, so that it holds up nobody.
enum { GATED_BODY = 128 * 1024 };

struct gate {
  pthread_mutex_t lock;
  int64_t each;  // uploads of a client; 0 = any number
  bool open;     // nobody waits any more
  int64_t waiting;
  struct client *first;  // of those whose requests wait
  // Who asked last, and who did before that was another.
  const struct client *last, *other;
  int64_t last_ns, other_ns;
};

void gate_init(struct gate *gate, int64_t each);
void gate_destroy(struct gate *gate);

// A client asks for something: it is being served from now on.
void gate_note(struct gate *gate, const struct client *client, int64_t now_ns);
// A body is to be read. False where it must wait: its connection is suspended then, and is resumed in time.
VX_WARN_UNUSED bool gate_enter(struct gate *gate, struct request *request, int64_t now_ns);
// Its body has come, or comes no more.
void gate_leave(struct gate *gate, struct request *request);
// To be called now and then: lets more in.
void gate_tick(struct gate *gate);
int64_t gate_waiting(struct gate *gate);
// Lets all in for good: the service stops.
void gate_open(struct gate *gate);

#endif

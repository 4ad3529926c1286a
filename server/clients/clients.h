// The clients, and what each of them holds: connections, queue slots, bytes of memory.
//
// A client is a user, known by token or certificate, or else an address; of an IPv6 address, the first 64 bits.
//
// One rule limits every share (docs/operate/overload.md#shares): a client may hold at most as much as is still free.
//
// A client exists while it has a connection or a request, or holds anything. Any thread.
#ifndef VOXELD_CLIENTS_H
#define VOXELD_CLIENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "kernels/kernels.h"
#include "server/base/base.h"
#include "server/base/lock.h"

struct job;
struct gate_entry;

enum share {
  SHARE_CONNECTIONS,
  SHARE_LINGERING,                                     // connections that linger
  SHARE_JOBS,                                          // requests that upload, or whose job waits
  SHARE_LONG_JOBS = SHARE_JOBS + VX_LANE_LONG,         // the same, for long jobs
  SHARE_DETECTION_JOBS = SHARE_JOBS + VX_LANE_DETECT,  // the same, for detections
  SHARE_BYTES,                                         // memory of bodies and answers
  SHARE_QUICK_BYTES,  // part of SHARE_BYTES: bodies of quick jobs; a lone request may exceed this limit
  SHARE_LONG_BYTES = SHARE_QUICK_BYTES + VX_LANE_LONG,         // the same, for long jobs
  SHARE_DETECTION_BYTES = SHARE_QUICK_BYTES + VX_LANE_DETECT,  // the same, for detections
  SHARE_REGIONS,                                               // registered shared memory
  SHARE_PINNED,                                                // bytes of regions that are pinned for GPUs
  SHARE_STREAMS,                                               // streams with kept sweeps
  SHARE_STREAM_BYTES,  // memory of kept sweeps, which also counts towards SHARE_BYTES
  SHARE_SUBSCRIBERS,   // to events of streams
  SHARES
};

bool share_is_memory(enum share share);

enum grant { GRANTED, OVER_CLIENT_SHARE, OVER_SERVER_LIMIT };

// `full`: the problem if the server's limit is the reason.
static inline enum error_kind grant_error(enum grant grant, enum error_kind full) {
  return grant == OVER_CLIENT_SHARE ? ERROR_CLIENT_OVER_SHARE : full;
}

// The jobs of one client that wait in one queue. The queue owns this struct.
struct client_jobs {
  struct job *head, *tail;
  struct client *next;   // in the queue's list of clients
  int64_t waiting;       // jobs in the list
  atomic_llong running;  // running jobs, except small jobs and jobs on the CPU beside GPUs
};

// The requests of one client, in progress or waiting at the gate. The gate owns this struct.
struct client_requests {
  int64_t count;                   // in progress: let in, and not ended yet
  struct gate_entry *head, *tail;  // waiting requests
  struct client *next;             // the next client with waiting requests
};

enum { CLIENT_NAME_SIZE = 80 };

struct client {
  struct client *next;  // with the same hash, or the next free one
  char name[CLIENT_NAME_SIZE];
  int64_t references;
  int64_t held[SHARES];
  struct client_jobs jobs[VX_LANE_USES];
  struct client_requests requests;
  int64_t none_until_ns;  // until then connections.c does not search this client again for a connection that makes room
};

enum { CLIENT_HASHES = 1024 };

struct clients {
  struct lock lock;
  struct client *client;  // [count]
  size_t count, used;     // clients from number `used` on were never in use
  int64_t present;        // clients that exist now
  struct client *free;
  struct client *hash[CLIENT_HASHES];
  int64_t limits[SHARES], held[SHARES];
};

// Allocates the clients of up to `connections` connections, each with one request at a time. False if out of memory.
VX_WARN_UNUSED bool clients_init(struct clients *clients, int64_t connections, const int64_t limits[SHARES]);
void clients_end(struct clients *clients);

// The client of `user` or, if that is "", of `address`. NULL: all are taken. Release it by clients_release.
struct client *clients_acquire(struct clients *clients, const char *user, const char *address);
void clients_release(struct clients *clients, struct client *client);
// "": the client is known by its address.
const char *client_user(const struct client *client);

// Acquires `amount` of a share for the client, if the rule allows it; share_release gives it back. `mine`: what the
// same request holds of the share; this does not count against the request.
VX_WARN_UNUSED enum grant share_acquire(struct clients *clients, struct client *client, enum share share,
                                        int64_t amount, int64_t mine);
// For a trusted proxy, which stands for many clients: an eighth of the share must stay free.
VX_WARN_UNUSED enum grant share_acquire_for_many(struct clients *clients, struct client *client, enum share share,
                                                 int64_t amount);
void share_release(struct clients *clients, struct client *client, enum share share, int64_t amount);

// For several shares under one lock: share_judge says whether the rule allows `amount`; share_hold adds `amount`. After
// a negative `amount` the client may no longer exist.
VX_WARN_UNUSED enum grant share_judge(const struct clients *clients, const struct client *client, enum share share,
                                      int64_t amount, int64_t mine) HOLDS(clients->lock);
void share_hold(struct clients *clients, struct client *client, enum share share, int64_t amount) HOLDS(clients->lock);

int64_t client_held(struct clients *clients, const struct client *client, enum share share);

struct clients_use {
  int64_t present;
  int64_t held[SHARES], limits[SHARES];
};
struct clients_use clients_use(struct clients *clients);

struct client_use {
  size_t number;  // of the client while it exists
  char name[CLIENT_NAME_SIZE];
  int64_t held[SHARES];
  double greed;  // the greatest fraction of a share's limit that it holds
};
// Fills `out` with up to `room` clients, the greediest first, and returns their number. Takes the lock for a few
// clients at a time. A client that comes or goes meanwhile may be missing, or appear twice.
size_t clients_greediest(struct clients *clients, struct client_use *out, size_t room);

// The last two clients that asked. The owner of the struct locks it.
struct recency {
  const struct client *last, *other;  // the client that asked last, and the last other client; not dereferenced
  int64_t last_ns, other_ns;
};

static inline void recency_note(struct recency *recency, const struct client *client, int64_t now_ns) {
  if (recency->last != client) {
    recency->other = recency->last;
    recency->other_ns = recency->last_ns;
    recency->last = client;
  }
  recency->last_ns = now_ns;
}

// Whether another client than `client` asked within the last second.
static inline bool recency_others(const struct recency *recency, const struct client *client, int64_t now_ns) {
  bool own = recency->last == client;
  return (own ? recency->other : recency->last) && now_ns - (own ? recency->other_ns : recency->last_ns) < NS_PER_S;
}

#endif

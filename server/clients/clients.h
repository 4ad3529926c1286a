// The clients, and what each of them holds: connections, places in the queues, bytes of memory.
//
// A client is a user, known by token or certificate, else an address (of IPv6 its first 64 bits, which one host may
// have whole).
//
// One rule shares everything: a client may take more as long as it would then hold no more than is left to others. So
// one client alone gets up to half, two get a third each, and whoever comes next always finds as much as the greediest
// holds. A client that holds nothing may take whatever is left.
//
// All clients are allocated at the start; one exists as long as a connection or a request is its own, or it holds
// anything. Any thread.
#ifndef VOXELD_CLIENTS_H
#define VOXELD_CLIENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

struct job;
struct gate_entry;

enum share {
  SHARE_CONNECTIONS,
  SHARE_LINGERING,                                    // connections that are read on after an early answer
  SHARE_JOBS,                                         // requests whose body comes or whose job waits,
  SHARE_SAMPLING_JOBS = SHARE_JOBS + VX_LANE_SAMPLE,  // by what their job is for
  SHARE_BYTES,                                        // of bodies and answers
  SHARE_SAMPLING_BYTES,                               // of them, bodies of jobs that sample
  SHARES
};

enum grant { GRANTED, OVER_CLIENT_SHARE, OVER_SERVER_LIMIT };

// The jobs of one client that wait in one queue; the queue's.
struct client_jobs {
  struct job *head, *tail;
  struct client *next;  // in the queue's ring
  int64_t running;
};

// The requests of one client that are in hand; the gate's.
struct client_requests {
  int64_t count;                   // that went in
  struct gate_entry *head, *tail;  // that wait
  struct client *next;             // whose requests wait too
};

struct client {
  struct client *next;  // of the same hash, or free
  char name[80];
  int64_t references;
  int64_t held[SHARES];
  struct client_jobs jobs[VX_LANE_USES];
  struct client_requests requests;
  int64_t none_until_ns;  // the watcher's: it has looked in vain for a connection of it that makes room
};

enum { CLIENT_HASHES = 1024 };

struct clients {
  pthread_mutex_t lock;
  struct client *client;  // [count]
  size_t count, used;     // those behind `used` were never in use
  int64_t present;        // that exist now
  struct client *free;
  struct client *hash[CLIENT_HASHES];
  int64_t limits[SHARES], held[SHARES];
};

// For so many connections, each with one request at a time. False where there is no memory.
VX_WARN_UNUSED bool clients_init(struct clients *clients, int64_t connections, const int64_t limits[SHARES]);
void clients_destroy(struct clients *clients);

// The client of that user or, where that is "", of that address; NULL where all are taken. To be let go by
// clients_leave.
struct client *clients_join(struct clients *clients, const char *user, const char *address);
void clients_leave(struct clients *clients, struct client *client);

// `mine` of what the client holds is the same request's, which is not refused for its own sake.
VX_WARN_UNUSED enum grant client_take(struct clients *clients, struct client *client, enum share share, int64_t amount,
                                      int64_t mine);
// Likewise for one who stands for many: all but the eighth that is left to those who come by themselves.
VX_WARN_UNUSED enum grant client_take_for_many(struct clients *clients, struct client *client, enum share share,
                                               int64_t amount);
void client_give(struct clients *clients, struct client *client, enum share share, int64_t amount);

int64_t client_held(struct clients *clients, const struct client *client, enum share share);

struct clients_use {
  int64_t present;
  int64_t held[SHARES], limits[SHARES];
};
struct clients_use clients_use(struct clients *clients);

#endif

// One request, from its first line to its answer's last byte, and the service, which all requests share.
//
// A request has one owner at a time: the phase of its connection's peer says which (net/peer.h). exchange.c shows the
// way from phase to phase.
#ifndef VOXELD_REQUEST_H
#define VOXELD_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/routes.h"
#include "server/base/base.h"
#include "server/base/counters.h"
#include "server/base/trace.h"
#include "server/clients/access.h"
#include "server/clients/clients.h"
#include "server/clients/gate.h"
#include "server/config/catalog.h"
#include "server/config/options.h"
#include "server/config/proxies.h"
#include "server/http/head_trace.h"
#include "server/http/library.h"
#include "server/http/page.h"
#include "server/jobs/job.h"
#include "server/jobs/jobs.h"
#include "server/jobs/uploads.h"
#include "server/jobs/warm.h"
#include "server/net/acceptor.h"
#include "server/net/peer.h"
#include "server/net/watcher.h"

struct request_counts {
  atomic_llong begun;   // all requests since the start
  atomic_llong open;    // requests whose headers have arrived and whose answer is not yet sent
  atomic_llong active;  // open requests with a body under way, a job, or a job's answer
};

struct listener_daemon {
  struct MHD_Daemon *daemon;
  struct service *service;
  struct listener_group *group;  // of the listener
};

// The service owns all rooms. daemon/ sets it up before the first connection. From then on, the members that change are
// atomic or have a lock of their own.
struct service {
  struct options options;
  int64_t started_ns, started_unix_s;  // by clock_ns, and in seconds since 1970
  uint64_t id;                         // of this process, for the ids of requests
  atomic_int phase;                    // enum phase
  struct counters counters;
  struct catalog catalog;
  struct access access;
  struct proxies proxies;
  struct clients clients;
  struct clients page_clients;  // of the connections that get only pages
  struct watcher watcher;
  struct jobs jobs;
  struct warm_progress warming;
  const struct page *pages;  // [ENDPOINT_COUNT]

  struct library library;
  struct gate gate;
  struct request_counts requests;
  struct listeners listeners;
  struct acceptor acceptor;
  struct listener_daemon daemons[LISTENERS_MAX * LISTENER_LISTS];
  // The addresses of the listeners as bound, separated by commas; pages_address: of those that serve only pages.
  char address[1100], pages_address[1100];
};

struct line_fault {
  enum error_kind kind;  // ERROR_NONE: no fault
  const char *detail;
};

struct page_body {
  size_t size;
  char bytes[PAGE_BODY_MAX + 1];  // with a NUL after its end
};

// PAGE_JOB: a worker makes the answer with the page's `fill` (page.h); the body is not the job's input.
enum job_kind { NO_JOB, PAGE_JOB, POINTS_JOB };

struct request {
  struct service *service;
  struct MHD_Connection *connection;  // NULL: the request has ended, and its memory waits for the next
  struct peer *peer;
  struct gate_entry entry;    // at the gate
  struct client *own_client;  // of its user or address; NULL: the connection's client

  // From the headers.
  bool takes_interim;  // the request is HTTP/1.1, which has 100 Continue and chunks, and needs a Host
  const struct line_fault *line_fault;
  struct head_trace head_trace;
  const char *head_end;  // in the library's memory; NULL unless library.laid_out
  enum endpoint endpoint;
  enum problem_style style;     // how problems are written for its client
  struct route_names names;     // in the path
  struct page_body *page_body;  // of a POST to a page; NULL: nothing has arrived
  char id[129];
  char method[16], path[192];  // for the log, cut if they do not fit; the path without the query
  struct trace trace;
  char address[ADDRESS_SIZE];  // the client's address, not a trusted proxy's
  char user[USER_SIZE];        // by token or certificate; "": known by address
  int64_t body_bytes;          // Content-Length; -1: chunked
  bool relayed;                // a header says that a proxy has passed it on
  bool chunk_broken;           // the line before a chunk has a control byte, or does not end in CR LF
  bool not_rows;               // a raw body is refused because its length is not a multiple of a row
  enum job_kind job_kind;      // NO_JOB: its I/O thread writes a page or the problem

  // The outcome.
  _Atomic(enum {JOB_RUNS, JOB_ENDED, JOB_SUSPENDED}) job_state;  // JOB_SUSPENDED: job runs, connection is suspended
  int64_t sent_bytes;                                            // of the answer's body
  bool answer_early;    // it is refused before its body is read; the connection ends
  bool unchanged;       // its answer is 304: the client has the page
  bool lasting;         // its answer is a subscription
  bool counted_active;  // in the counts of the service
  struct error error;
  int64_t started_ns;
  int64_t reply_ns;  // when the answer was queued; 0 before

  struct job job;  // last, because all members before it are cleared for each request
};
_Static_assert(offsetof(struct request, job) <= 4096, "what is cleared for each request is small");

// A new request, counted as begun and open, and as active until it is known to have no job. Its memory belongs to the
// peer, for this and later requests. NULL: out of memory.
struct request *request_begin(struct service *service, struct MHD_Connection *connection, struct peer *peer);
// Stops counting the request as active. Does nothing the second time.
void request_uncount_active(struct request *request);
// Ends the request, which must have released what it holds, and stops counting it as open.
void request_end(struct request *request);

static inline struct request *request_of_job(struct job *job) {
  return (struct request *)((char *)job - offsetof(struct request, job));
}

// False: the request is suspended at the gate.
VX_WARN_UNUSED static inline bool request_enter_gate(struct request *request) {
  return gate_enter(&request->service->gate, &request->entry, request->job.client, request->job_kind != NO_JOB,
                    clock_ns());
}

int request_status(const struct request *request);  // of its answer

#endif

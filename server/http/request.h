// One request, from its first line to its answer's last byte: the HTTP exchange. What it computes is its job.
//
// A request has one owner at a time; `state` says which, and changes only through request_to. Its way reads in
// exchange.c.
#ifndef VOXELD_REQUEST_H
#define VOXELD_REQUEST_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/routes.h"
#include "server/base/trace.h"
#include "server/http/service.h"
#include "server/jobs/job.h"
#include "server/net/peer.h"

enum request_state {
  REQUEST_NEW,      // IO thread: only the headers are here
  REQUEST_WAITING,  // the gate: suspended, until its body is to be read or swallowed
  REQUEST_PAGE,     // IO thread: a GET, answered at the library's next call so that the connection is kept
  REQUEST_DISCARD,  // IO thread: refused; the body is swallowed, then the problem is answered and the connection kept
  REQUEST_BODY,     // IO thread: the body goes into the job's input
  REQUEST_WHOLE,    // IO thread: the body is here; suspended and published at the library's next call
  REQUEST_JOB,      // the room of jobs; resuming the connection is its last act
  REQUEST_DONE,     // IO thread: answer or problem is ready
  REQUEST_REPLY,    // the library: it sends; the job's output is the response's
  REQUEST_STATES
};

struct request {
  enum request_state state;
  struct service *service;
  struct request *next;  // in the pool
  struct MHD_Connection *connection;
  struct peer *peer;
  struct gate_entry entry;  // at the gate

  // From the headers.
  bool takes_interim;      // HTTP/1.1, which has 100 Continue
  const char *line_fault;  // what is wrong with the first line, or NULL
  enum endpoint endpoint;
  const char *page_name;  // the last part of the path, in the library's memory
  char id[129];
  char method[16], path[192];  // as far as they fit, for the log; the path without the query
  struct trace trace;
  char address[ADDRESS_SIZE];  // the client's; not the proxy's, where that is trusted
  char user[USER_SIZE];        // who asks, by token or certificate; "" = known by address only
  int64_t body_bytes;          // Content-Length; -1 = chunked

  struct job job;

  // How it went.
  int64_t received_bytes, sent_bytes;  // of bodies
  bool counted_open, counted_active;   // in the pool's numbers
  struct problem problem;
  int64_t started_ns;
  int64_t reply_ns;  // when the answer was queued
};

void requests_init(struct request_pool *pool);
void requests_destroy(struct request_pool *pool);

// A new request; NULL: out of memory.
struct request *request_new(struct service *service, struct MHD_Connection *connection, struct peer *peer);
// It counts as open and active from now on, and again as inactive once it waits for no body, job or answer any more.
void request_count(struct request *request);
void request_uncount_active(struct request *request);
// It is over: its memory goes back.
void request_free(struct request *request);

void request_to(struct request *request, enum request_state state);

// Whose job it is.
struct request *request_of_job(struct job *job);

// Whose it is: the user's or, before that is known, its address's.
struct client *request_client(const struct request *request);

#endif

// One request, from its first line to its answer's last byte.
//
// A request has one owner at a time; `state` says which, and changes only through request_to. The way of a request reads in
// request_advance (request.c); its decisions are in admit.c, its job in job.c, its answer in reply.c.
#ifndef VOXELD_REQUEST_H
#define VOXELD_REQUEST_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/answer.h"
#include "api/params.h"
#include "api/problem.h"
#include "server/access.h"
#include "server/buffers.h"
#include "server/metrics.h"
#include "server/routes.h"
#include "server/trace.h"
#include "server/watcher.h"

struct server;

enum request_state {
  REQUEST_NEW,      // IO thread: only the headers are here
  REQUEST_WAITING,  // the gate: suspended, until its body is to be read or swallowed
  REQUEST_PAGE,     // IO thread: a GET, answered at the library's next call so that the connection is kept
  REQUEST_DISCARD,  // IO thread: refused; the body is swallowed, then the problem is answered and the connection kept
  REQUEST_BODY,     // IO thread: the body goes into the input buffer
  REQUEST_WHOLE,    // IO thread: the body is here; suspended and queued at the library's next call
  REQUEST_QUEUED,   // the queue
  REQUEST_RUNNING,  // a worker: request and buffers; resuming the connection is its last act
  REQUEST_DONE,     // IO thread: answer or problem is ready
  REQUEST_REPLY,    // the library: it sends; the output buffer is the response's
  REQUEST_STATES
};

struct request {
  enum request_state state;
  struct server *server;
  struct request *next;  // in the queue, or in the pool
  struct MHD_Connection *connection;
  struct peer *peer;
  struct client *client;  // whose share it counts to, once it is admitted
  struct client *gated;   // whose upload it is, from the gate's point of view
  bool has_place;         // in the queue, kept for it from the headers until a worker takes it

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
  bool metadata_only;          // the client accepts JSON
  int64_t body_bytes;          // Content-Length; -1 = chunked
  struct job_request asked;

  // The job.
  int64_t received_bytes;
  struct buffer *input, *output;
  size_t scratch_bytes;
  size_t output_length;
  size_t header_reserve;    // bytes in front of the tensors
  struct vx_layout layout;  // of the tensors
  bool output_ready;
  bool begun;                         // a worker has begun it
  bool output_refused;                // no other lane could do better
  bool counted_open, counted_active;  // in the pool's numbers
  int32_t voxel_counts[VX_MAX_CLOUDS];
  struct vx_job job;
  struct device *device;  // that ran it last
  struct answer answer;

  // How it went.
  struct problem problem;
  int64_t started_ns, queued_ns, deadline_ns;
  int64_t reply_ns;  // when the answer was queued
  int64_t sent_bytes;
};

// Requests are reused, so that a warm daemon allocates none.
struct request_pool {
  pthread_mutex_t lock;
  struct request *free;
  atomic_llong begun;   // all that there were
  atomic_llong open;    // requests whose headers are here and whose answer is not yet sent
  atomic_llong active;  // of them those with a body under way, a job, or a job's answer
};

void requests_init(struct request_pool *pool);
void requests_destroy(struct request_pool *pool);

// The library's calls, in order: the headers are here (NULL: out of memory); headers, body, end (many calls); it is over.
struct request *request_open(struct server *server, struct MHD_Connection *connection, struct peer *peer,
                             const char *line_fault, bool takes_interim);
enum MHD_Result request_advance(struct request *request, const char *method, const char *path, const char *data,
                                size_t *size);
void request_close(struct request *request, enum MHD_RequestTerminationCode code);

void request_to(struct request *request, enum request_state state);

// Whose it is: the user's or, before that is known, its address's.
struct client *request_client(const struct request *request);
// Which lanes are for the request's job.
enum vx_lane_use request_lane_use(const struct request *request);

// The job needs no run any more: its deadline is over or its client gone.
bool request_is_stale(const struct request *request, int64_t now_ns);
// Reserves for the client, or sets the problem: a place in the queue, a buffer for the body, a buffer for the answer.
VX_WARN_UNUSED bool request_take_place(struct request *request);
VX_WARN_UNUSED bool request_take_input(struct request *request, size_t bytes);
VX_WARN_UNUSED bool request_take_output(struct request *request, size_t bytes);
// Memory that its job works in; the most that one may have is what the budget leaves beside its body.
VX_WARN_UNUSED bool request_take_scratch(struct request *request, size_t bytes);
void request_give_scratch(struct request *request);
void request_leave_place(struct request *request);
void request_give_input(struct request *request);

// Hands a request that a worker or the watcher owns back to the IO thread; the caller must not touch it again.
void request_resume(struct request *request);

// admit.c: everything that the headers decide. False with a problem; `early` where it must be answered before the body.
VX_WARN_UNUSED bool request_admit(struct request *request, const char *method, const char *path, bool *early);
// job.c: runs the job of a request on the worker's lanes and leaves its answer or its problem in the request.
struct worker;
void request_run(struct request *request, struct worker *worker);
// reply.c: queues the answer, page or problem.
enum MHD_Result request_reply(struct request *request);
// account.c: counts the request that is over, and logs it. `aborted`: its client left before the answer was sent.
void request_account(struct request *request, bool aborted);

#endif

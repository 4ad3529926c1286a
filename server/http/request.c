// See request.h.
#include "server/http/request.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/base.h"

int request_status(const struct request *request) {
  return request->unchanged ? 304 : problem_status(request->error.kind, request->style);
}

struct request *request_begin(struct service *service, struct MHD_Connection *connection, struct peer *peer) {
  if (!peer->request) peer->request = calloc(1, sizeof *peer->request);
  struct request *request = peer->request;
  if (!request) return NULL;
  memset(request, 0, offsetof(struct request, job));
  job_init(&request->job, &service->jobs.services);
  request->job.client = peer->client;
  request->service = service;
  request->connection = connection;
  request->peer = peer;
  atomic_store(&peer->upload.bytes, 0);
  atomic_store(&peer->upload.expected, 0);
  request->endpoint = ENDPOINT_UNKNOWN;
  request->style = PROBLEM_STYLE_HTTP;
  memcpy(request->address, peer->address, sizeof request->address);
  request->started_ns = clock_ns();
  request->counted_active = true;
  atomic_fetch_add(&service->requests.begun, 1);
  atomic_fetch_add(&service->requests.open, 1);
  atomic_fetch_add(&service->requests.active, 1);
  return request;
}

void request_uncount_active(struct request *request) {
  if (request->counted_active) atomic_fetch_sub(&request->service->requests.active, 1);
  request->counted_active = false;
}

void request_end(struct request *request) {
  request->connection = NULL;
  free(request->page_body);
  pool_reset(&request->job.asked.pool);  // the connection may stay idle for long
  request_uncount_active(request);
  atomic_fetch_sub(&request->service->requests.open, 1);  // last: the drain waits for it
}

// Worker threads; see workers.h.
#include "server/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/server.h"

static void *worker_main(void *argument) {
  struct worker *worker = argument;
  struct server *server = worker->server;
  for (struct request *request; (request = queue_pop(&server->queue));) {
    atomic_fetch_add(&server->workers.running, 1);
    request_run(request, worker->lane);
    atomic_fetch_sub(&server->workers.running, 1);
    request_resume(request);
  }
  return NULL;
}

static bool start_worker(struct worker *worker, struct server *server, char *error, size_t error_size) {
  struct vx_error reason = {""};
  worker->server = server;
  if (server->backend->lane_open(server->device, &worker->lane, &reason) != VX_OK) {
    snprintf(error, error_size, "worker: %s", reason.text);
    return false;
  }
  int code = pthread_create(&worker->thread, NULL, worker_main, worker);
  if (code == 0) return true;
  snprintf(error, error_size, "worker: pthread_create: %s", strerror(code));
  server->backend->lane_close(worker->lane);
  return false;
}

bool workers_start(struct server *server, char *error, size_t error_size) {
  struct workers *workers = &server->workers;
  int64_t wanted = server->options.workers;
  if (wanted == 0) wanted = sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted < 1) wanted = 1;
  workers->worker = calloc((size_t)wanted, sizeof *workers->worker);
  if (!workers->worker) {
    snprintf(error, error_size, "workers: out of memory");
    return false;
  }
  for (; workers->count < wanted; workers->count++)
    if (!start_worker(&workers->worker[workers->count], server, error, error_size)) return false;
  return true;
}

void workers_join(struct server *server) {
  struct workers *workers = &server->workers;
  for (int64_t i = 0; i < workers->count; i++) {
    pthread_join(workers->worker[i].thread, NULL);
    server->backend->lane_close(workers->worker[i].lane);
  }
  free(workers->worker);
  *workers = (struct workers){.count = 0};
}

// See daemon.h.
#include "server/daemon/daemon.h"

#include "server/base/base.h"
#include "server/base/log.h"
#include "server/daemon/signals.h"
#include "server/net/connections.h"

static const int64_t after_drain_ns = 5 * NS_PER_S;  // for jobs that run: a network cannot be stopped

static bool wait_until_none(const atomic_llong *count, int64_t until_ns) {
  while (atomic_load(count) > 0) {
    if (clock_ns() > until_ns) return false;
    signals_rest();
  }
  return true;
}

static bool wait_for_jobs(const struct jobs *jobs, int64_t until_ns) {
  for (int use = 0; use < VX_LANE_USES; use++)
    if (!wait_until_none(&jobs->workers.running[use], until_ns)) return false;
  return true;
}

// Requests that clients sent before they could know of the drain are still in the sockets, and get a 503. Waits until
// none has arrived for 150 ms, about a second at most.
static void wait_until_quiet(const struct request_counts *requests) {
  int64_t end_ns = clock_ns() + NS_PER_S, quiet_ns = 150 * NS_PER_MS;
  for (long long begun = -1; begun != atomic_load(&requests->begun) && clock_ns() < end_ns;) {
    begun = atomic_load(&requests->begun);
    (void)wait_until_none(&requests->open, end_ns);
    signals_rest_until(clock_ns() + quiet_ns);
  }
}

bool drain(struct service *service) {
  const struct options *options = &service->options;
  const struct request_counts *requests = &service->requests;
  struct jobs *jobs = &service->jobs;
  atomic_store(&service->phase, PHASE_LEAVING);
  events_end_all(&jobs->streams.events, "stop", true);
  signals_rest_until(clock_ns() + options->drain_delay_s * NS_PER_S);
  atomic_store(&service->phase, PHASE_DRAINING);
  gate_let_in(&service->gate, true);
  if (!wait_until_none(&requests->active, clock_ns() + options->drain_timeout_s * NS_PER_S)) {
    log_event(LOG_WARNING, "drain timeout", "effect", "uploads and waiting jobs are refused");
    connections_fail_uploads(&service->watcher, ERROR_DRAINING, DRAIN_IS_OVER);
    jobs_hurry(jobs);
  }
  wait_until_quiet(requests);
  jobs_stop(jobs);
  if (!wait_for_jobs(jobs, clock_ns() + after_drain_ns)) return false;
  // The jobs that have just ended still send their answers.
  (void)wait_until_none(&requests->active, clock_ns() + NS_PER_S);
  return true;
}

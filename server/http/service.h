// What all requests share: the rooms that they use, the library's version, the gate, and counts.
//
// The daemon sets it up before the first connection. From then on only members that are atomic or have a lock of their
// own change.
#ifndef VOXELD_SERVICE_H
#define VOXELD_SERVICE_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/base/counters.h"
#include "server/clients/access.h"
#include "server/clients/clients.h"
#include "server/clients/gate.h"
#include "server/config/catalog.h"
#include "server/config/options.h"
#include "server/config/proxies.h"
#include "server/http/library.h"
#include "server/http/page.h"
#include "server/jobs/jobs.h"
#include "server/net/watcher.h"

struct request_counts {
  atomic_llong begun;   // all requests since the start
  atomic_llong open;    // requests whose headers are here and whose answer is not yet sent
  atomic_llong active;  // of them those with a body under way, a job, or a job's answer
};

struct service {
  // Given.
  const struct options *options;
  const atomic_int *phase;  // enum phase
  int64_t started_ns;       // by clock_ns
  struct counters *counters;
  struct catalog *catalog;
  struct access *access;
  const struct proxies *proxies;
  struct clients *clients;
  struct watcher *watcher;
  struct jobs *jobs;
  const struct page *pages;  // [ENDPOINT_COUNT]
  const struct view *view;   // what pages show

  // The room's own.
  struct library library;
  struct gate gate;
  struct request_counts requests;
};

#endif

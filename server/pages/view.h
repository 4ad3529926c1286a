// The rooms that pages read.
//
// Filled by the daemon before the first request. Any thread; the rooms lock themselves.
#ifndef VOXELD_VIEW_H
#define VOXELD_VIEW_H

#include <stdatomic.h>
#include <stdint.h>

#include "server/base/counters.h"
#include "server/clients/clients.h"
#include "server/config/catalog.h"
#include "server/config/options.h"
#include "server/http/http.h"
#include "server/jobs/jobs.h"
#include "server/jobs/warm.h"
#include "server/net/watcher.h"

struct view {
  const struct options *options;
  const atomic_int *phase;  // enum phase
  const int64_t *started_ns, *started_unix_s;
  const struct counters *counters;
  const struct watcher *watcher;
  struct catalog *catalog;
  struct clients *clients;
  struct jobs *jobs;
  const struct warm_progress *warming;
  struct http *http;
};

#endif

// The daemon as one value: what main sets up and every part of server/ reaches.
//
// Immutable after start but for the parts that lock themselves, the atomics, and `presets`, which has a lock of its own.
#ifndef VOXELD_SERVER_H
#define VOXELD_SERVER_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "api/presets.h"
#include "kernels/kernels.h"
#include "server/base/metrics.h"
#include "server/clients/access.h"
#include "server/clients/clients.h"
#include "server/clients/gate.h"
#include "server/clients/proxies.h"
#include "server/config/options.h"
#include "server/http/library.h"
#include "server/http/request.h"
#include "server/jobs/buffers.h"
#include "server/jobs/devices.h"
#include "server/jobs/queue.h"
#include "server/jobs/workers.h"
#include "server/net/listener.h"
#include "server/net/watcher.h"

// What a worker sends to the process itself, for main to wake.
#define SIGNAL_DEVICE_LOST SIGUSR1

#define DRAIN_IS_OVER "the server is stopping and its time to drain is over"  // what jobs that are not done are told

enum server_phase {
  PHASE_STARTING,
  PHASE_READY,
  PHASE_LEAVING,  // requests are taken as before; who directs them here is to notice that it is not ready
  PHASE_DRAINING
};

struct server {
  struct options options;
  int64_t started_ns;        // by clock_ns
  int64_t started_unix_s;    // by the calendar's clock
  char address[1100];        // where it listens, with commas between
  atomic_int phase;          // enum server_phase
  atomic_bool hurry;         // the time to drain is over: what runs and can be stopped is
  atomic_bool must_restart;  // a GPU is lost, and on_device_lost says exit

  struct devices devices;
  struct presets *presets;
  pthread_rwlock_t presets_lock;  // over `presets`, which a reload replaces
  struct access access;
  struct proxies proxies;
  struct clients clients;
  struct buffers buffers;
  struct gate gate;
  struct queue queues[VX_LANE_USES];
  struct request_pool requests;
  struct watcher watcher;
  struct workers workers;
  struct metrics metrics;
  struct listeners listeners;
  struct library library;
  struct MHD_Daemon *http[LISTENERS_MAX];  // one a listener
};

#endif

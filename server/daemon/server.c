// Starting and stopping the rooms; see daemon.h.
#include "server/daemon/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "server/base/base.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/net/connections.h"
#include "server/pages/pages.h"

bool server_prepare(struct server *server, struct error *error) {
  struct options *options = &server->options;
  options_fit(options, limits_processors(""));
  if (!proxies_read(options->trusted_proxies, &server->proxies)) return false;  // options_read has checked them
  return catalog_open(&server->catalog, options->presets_dir, options->models_dir, options->onnxruntime,
                      (int)options->network_threads, (size_t)options->network_host_memory_bytes, error) &&
         access_open(&server->access, options, error);
}

static void hand_to_http(struct server *server) {
  server->http.service = (struct service){.options = &server->options,
                                          .phase = &server->phase,
                                          .started_ns = server->started_ns,
                                          .started_unix_s = server->started_unix_s,
                                          .counters = &server->counters,
                                          .catalog = &server->catalog,
                                          .access = &server->access,
                                          .proxies = &server->proxies,
                                          .clients = &server->clients,
                                          .watcher = &server->watcher,
                                          .jobs = &server->jobs,
                                          .pages = pages,
                                          .warming = &server->warming};
}

bool server_check(struct server *server, struct error *error) {
  hand_to_http(server);
  if (!http_check(&server->http, error)) return false;
  if (!devices_open(&server->jobs.devices, &server->options, error)) return false;
  devices_close(&server->jobs.devices);
  return true;
}

// ---- serving --------------------------------------------------------------------------------------------------------

// Raises the limit of open files, since every connection needs a descriptor. If the system does not allow it, the start
// fails, rather than connections later.
static bool raise_file_limit(const struct options *options, struct error *error) {
  enum { OWN_FILES = 64 };
  struct rlimit files;
  rlim_t for_pages = options->pages_listen[0] ? 2 * PAGES_CONNECTIONS + 2 * PAGES_THREADS * LISTENERS_MAX : 0;
  rlim_t wanted = (rlim_t)options->max_connections + LINGER_SLOTS + REFUSED_PEERS + OWN_FILES + REGIONS_MAX +
                  2 * (rlim_t)options->io_threads * LISTENERS_MAX + for_pages;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return true;
  if (files.rlim_max != RLIM_INFINITY && files.rlim_max < wanted)
    return error_set(error, "max_connections needs %llu open files; the system allows %llu (ulimit -n)",
                     (unsigned long long)wanted, (unsigned long long)files.rlim_max);
  files.rlim_cur = wanted;
  return setrlimit(RLIMIT_NOFILE, &files) == 0 || error_set(error, "setrlimit: %s", strerror(errno));
}

static bool start_clients(struct server *server, struct error *error) {
  const struct options *options = &server->options;
  const int64_t limits[SHARES] = {[SHARE_CONNECTIONS] = options->max_connections,
                                  [SHARE_LINGERING] = LINGER_SLOTS,
                                  [SHARE_JOBS] = options->queue_depth,
                                  [SHARE_LONG_JOBS] = options->queue_depth,
                                  [SHARE_DETECTION_JOBS] = options->queue_depth,
                                  [SHARE_BYTES] = options->memory_budget_bytes,
                                  [SHARE_QUICK_BYTES] = options->memory_budget_bytes / 4 * 3,
                                  [SHARE_LONG_BYTES] = options->memory_budget_bytes / 2,
                                  [SHARE_DETECTION_BYTES] = options->memory_budget_bytes / 2,
                                  [SHARE_REGIONS] = REGIONS_MAX,
                                  [SHARE_PINNED] = options->shared_memory_pinned_bytes,
                                  [SHARE_STREAMS] = STREAMS_MAX,
                                  [SHARE_STREAM_BYTES] = options->stream_memory_bytes,
                                  [SHARE_SUBSCRIBERS] = SUBSCRIBERS_MAX};
  static const int64_t page_limits[SHARES] = {
      [SHARE_CONNECTIONS] = PAGES_CONNECTIONS, [SHARE_LINGERING] = PAGES_CONNECTIONS};
  int64_t connections = options->max_connections + REFUSED_PEERS + REGIONS_MAX + STREAMS_MAX;
  return (clients_init(&server->clients, connections, limits) &&
          clients_init(&server->page_clients, PAGES_CONNECTIONS + REFUSED_PEERS, page_limits)) ||
         error_set(error, "clients: out of memory");
}

static void on_tick(void *cls, int64_t now_ns) {
  struct server *server = cls;
  jobs_tick(&server->jobs, now_ns);
  connections_end_slow_answers(&server->watcher, jobs_memory_wanted(&server->jobs), now_ns);
  gate_tick(&server->http.service.gate);
}

// Warns if the options allow more memory than the system grants. Without the warning, the operator would notice only
// when the kernel kills a busy process.
static void warn_of_memory(const struct server *server) {
  const struct options *options = &server->options;
  int64_t limit = limits_memory_bytes("");
  // The sum that docs/operate/tuning.md explains, without the memory of models: few networks come near their limit.
  int64_t of_a_connection = CONNECTION_MEMORY + (int64_t)sizeof(struct request) + POOL_KEPT;
  int64_t connections = options->max_connections + (options->pages_listen[0] ? PAGES_CONNECTIONS : 0);
  int64_t detecting = workers_at_work(&server->jobs.workers, VX_LANE_DETECT);  // each keeps four blocks of scratch
  int64_t most = options->memory_budget_bytes + connections * of_a_connection +
                 (server->jobs.workers.count + 3 * detecting) * (int64_t)VX_SCRATCH_KEPT +
                 server->jobs.small.count * server->jobs.small.most_points * SMALL_POINT_BYTES;
  if (limit >= most) return;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "the memory limit is less than may be needed");
  log_integer(&line, "memory_limit_bytes", limit);
  log_integer(&line, "may_need_bytes", most);
  log_integer(&line, "memory_budget_bytes", options->memory_budget_bytes);
  log_end(&line);
}

// Warns if tokens come over a network without TLS. A proxy with TLS may be in front, so this is no error.
static void warn_of_plain_tokens(const struct server *server) {
  const struct options *options = &server->options;
  const struct listeners *listeners = &server->http.listeners;
  int at = 0;
  while (at < listeners->count && !listener_is_exposed(&listeners->at[at])) at++;
  if (!options->token_file[0] || options->tls_cert[0] || at == listeners->count) return;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "tokens come over plain HTTP, which others on the network can read");
  log_string(&line, "address", listeners->at[at].address);
  log_string(&line, "hint", "set tls_cert and tls_key, or listen on loopback behind a proxy with TLS");
  log_end(&line);
}

static void log_listening(const struct server *server) {
  const struct devices *devices = &server->jobs.devices;
  const struct device *device = devices_main(devices);
  struct log_line line;
  log_begin(&line, LOG_NOTICE, "listening");
  log_string(&line, "address", server->http.service.address);
  if (server->http.service.pages_address[0]) log_string(&line, "pages", server->http.service.pages_address);
  log_string(&line, "version", VOXELD_VERSION);
  log_string(&line, "backend", device->backend->name);
  log_string(&line, "device", device->description.name);
  log_integer(&line, "devices", devices->count > 0 ? devices->count : 1);
  log_integer(&line, "workers", workers_at_work(&server->jobs.workers, VX_LANE_QUICK));
  log_integer(&line, "long_workers", workers_at_work(&server->jobs.workers, VX_LANE_LONG));
  if (server->options.models_dir[0])
    log_integer(&line, "detection_workers", workers_at_work(&server->jobs.workers, VX_LANE_DETECT));
  log_integer(&line, "io_threads", server->options.io_threads);
  log_end(&line);
}

static void log_broken(const struct detector *detector, const struct detector_refusal *refusal) {
  struct log_line line;
  log_begin(&line, LOG_WARNING, refusal ? "a model is not replaced" : "a model does not serve");
  log_string(&line, "model", detector_name(detector));
  log_string(&line, "version", detector_version(detector));
  if (refusal) log_string(&line, "refused_version", refusal->version);
  log_string(&line, "reason", refusal ? refusal->reason.text : detector_fault(detector));
  log_end(&line);
}

void server_log_broken(const struct detectors *models) {
  for (size_t i = 0; i < detectors_count(models); i++) {
    const struct detector *detector = detectors_at(models, i);
    const struct detector_refusal *refusal = detectors_refusal(models, i);
    if (refusal || detector_fault(detector)) log_broken(detector, refusal);
  }
}

bool server_start(struct server *server, void (*gpu_lost)(void *cls), void *gpu_lost_cls, struct error *error) {
  const struct options *options = &server->options;
  hand_to_http(server);
  http_init(&server->http);
  if (!raise_file_limit(options, error) || !start_clients(server, error) ||
      !jobs_start(&server->jobs, options, &server->clients, &server->counters, &server->watcher, gpu_lost, gpu_lost_cls,
                  error) ||
      !watcher_start(&server->watcher, options, &server->clients, &server->page_clients, on_tick, server, error) ||
      !http_start(&server->http, error))
    return false;
  warn_of_memory(server);
  warn_of_plain_tokens(server);
  log_listening(server);
  warm_placement(&server->jobs);
  // Nothing replaces the models now: a reload begins once the service has started.
  warm_up(&server->jobs, options, server->catalog.detectors, NULL, &server->phase, &server->warming);
  server_log_broken(server->catalog.detectors);
  atomic_store(&server->phase, PHASE_READY);
  return true;
}

void server_leave_lost(struct server *server) {
  const struct devices *devices = &server->jobs.devices;
  const struct named *named = catalog_acquire(&server->catalog);
  for (int i = 0; i < devices->count; i++)
    if (device_state(&devices->gpu[i]) == DEVICE_LOST) detectors_lose(named->detectors, devices->gpu[i].index);
  catalog_release(&server->catalog);
}

void server_stop(struct server *server) {
  jobs_join(&server->jobs);
  // The library may end only when no request is suspended. The watcher ends first, since its tick may resume requests.
  watcher_halt(&server->watcher);
  http_stop(&server->http);
  watcher_destroy(&server->watcher);
  http_destroy(&server->http);
  catalog_close(&server->catalog);  // networks end before the lanes of their sessions
  jobs_destroy(&server->jobs);
  clients_destroy(&server->page_clients);
  clients_destroy(&server->clients);
  access_close(&server->access);
  models_free(&server->counters.models);
}

// See daemon.h.
#include "server/daemon/daemon.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "server/base/base.h"
#include "server/base/log.h"
#include "server/net/connections.h"
#include "server/pages/pages.h"

bool service_prepare(struct service *service, struct error *error) {
  struct options *options = &service->options;
  service->pages = pages;
  options_fit(options, limits_processors(""));
  if (!proxies_read(options->trusted_proxies, &service->proxies)) return false;  // options_read has checked them
  return catalog_open(&service->catalog, options->presets_dir, options->models_dir, options->onnxruntime,
                      (int)options->network_threads, (size_t)options->network_host_memory_bytes, error) &&
         access_open(&service->access, options, error);
}

bool service_check(struct service *service, struct error *error) {
  if (!http_check(service, error)) return false;
  if (!devices_open(&service->jobs.devices, &service->options, error)) return false;
  devices_close(&service->jobs.devices);
  return true;
}

// ---- serving --------------------------------------------------------------------------------------------------------

// Raises the limit of open files, or fails, so that connections do not fail later.
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

static bool start_clients(struct service *service, struct error *error) {
  const struct options *options = &service->options;
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
  return (clients_init(&service->clients, connections, limits) &&
          clients_init(&service->page_clients, PAGES_CONNECTIONS + REFUSED_PEERS, page_limits)) ||
         error_set(error, "clients: out of memory");
}

static void on_tick(void *cls, int64_t now_ns) {
  struct service *service = cls;
  jobs_tick(&service->jobs, now_ns);
  int64_t wanted = jobs_memory_wanted(&service->jobs);
  if (wanted > 0) connections_end_slow_answers(&service->watcher, wanted, now_ns);
  if (atomic_load(&service->gate.waiting) > 0) gate_let_in(&service->gate, false);
}

static void warn_of_memory(const struct service *service) {
  const struct options *options = &service->options;
  int64_t limit = limits_memory_bytes("");
  // Most of the memory that docs/operate/tuning.md lists; not that of models, since few networks come near their limit.
  int64_t of_a_connection = CONNECTION_MEMORY + (int64_t)sizeof(struct request) + POOL_KEPT;
  int64_t connections = options->max_connections + (options->pages_listen[0] ? PAGES_CONNECTIONS : 0);
  int64_t detecting = workers_at_work(&service->jobs.workers, VX_LANE_DETECT);  // each keeps four blocks of scratch
  int64_t most = options->memory_budget_bytes + connections * of_a_connection +
                 (service->jobs.workers.count + 3 * detecting) * (int64_t)VX_SCRATCH_KEPT +
                 service->jobs.small.count * service->jobs.small.most_points * SMALL_POINT_BYTES;
  if (limit >= most) return;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "the memory limit is less than may be needed");
  log_integer(&line, "memory_limit_bytes", limit);
  log_integer(&line, "may_need_bytes", most);
  log_integer(&line, "memory_budget_bytes", options->memory_budget_bytes);
  log_end(&line);
}

// Warns if tokens come over a network without TLS. No error, since a proxy with TLS may be in front.
static void warn_of_plain_tokens(const struct service *service) {
  const struct options *options = &service->options;
  const struct listeners *listeners = &service->listeners;
  int at = 0;
  while (at < listeners->count && !listener_is_exposed(&listeners->at[at])) at++;
  if (!options->token_file[0] || options->tls_cert[0] || at == listeners->count) return;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "tokens come over plain HTTP, which others on the network can read");
  log_string(&line, "address", listeners->at[at].address);
  log_string(&line, "hint", "set tls_cert and tls_key, or listen on loopback behind a proxy with TLS");
  log_end(&line);
}

static void log_listening(const struct service *service) {
  const struct devices *devices = &service->jobs.devices;
  const struct device *device = devices_main(devices);
  struct log_line line;
  log_begin(&line, LOG_NOTICE, "listening");
  log_string(&line, "address", service->address);
  if (service->pages_address[0]) log_string(&line, "pages", service->pages_address);
  log_string(&line, "version", VOXELD_VERSION);
  log_string(&line, "backend", device->backend->name);
  log_string(&line, "device", device->description.name);
  log_integer(&line, "devices", devices->count > 0 ? devices->count : 1);
  log_integer(&line, "workers", workers_at_work(&service->jobs.workers, VX_LANE_QUICK));
  log_integer(&line, "long_workers", workers_at_work(&service->jobs.workers, VX_LANE_LONG));
  if (service->options.models_dir[0])
    log_integer(&line, "detection_workers", workers_at_work(&service->jobs.workers, VX_LANE_DETECT));
  log_integer(&line, "io_threads", service->options.io_threads);
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

void service_log_broken(const struct detectors *models) {
  for (size_t i = 0; i < detectors_count(models); i++) {
    const struct detector *detector = detectors_at(models, i);
    const struct detector_refusal *refusal = detectors_refusal(models, i);
    if (refusal || detector_fault(detector)) log_broken(detector, refusal);
  }
}

bool service_start(struct service *service, void (*gpu_lost)(void *service), struct error *error) {
  const struct options *options = &service->options;
  gate_init(&service->gate, options->client_requests, exchange_hold, exchange_resume);
  if (!raise_file_limit(options, error) || !start_clients(service, error) ||
      !jobs_start(&service->jobs, options, &service->clients, &service->counters, &service->watcher, gpu_lost, service,
                  error) ||
      !watcher_start(&service->watcher, options, &service->clients, &service->page_clients, on_tick, service, error) ||
      !http_start(service, error))
    return false;
  warn_of_memory(service);
  warn_of_plain_tokens(service);
  log_listening(service);
  warm_placement(&service->jobs);
  // No reload replaces the models meanwhile: serve asks for reloads once the service has started.
  warm_up(&service->jobs, options, service->catalog.detectors, NULL, &service->phase, &service->warming);
  service_log_broken(service->catalog.detectors);
  atomic_store(&service->phase, PHASE_READY);
  return true;
}

void service_vacate_lost(struct service *service) {
  const struct devices *devices = &service->jobs.devices;
  const struct named *named = catalog_acquire(&service->catalog);
  for (int i = 0; i < devices->count; i++)
    if (device_state(&devices->gpu[i]) == DEVICE_LOST) detectors_vacate(named->detectors, devices->gpu[i].index);
  catalog_release(&service->catalog);
}

void service_stop(struct service *service) {
  jobs_join(&service->jobs);
  // The library may end only when no request is suspended. The watcher's thread ends first: a tick may resume one.
  watcher_stop(&service->watcher);
  http_stop(service);
  watcher_end(&service->watcher);
  gate_end(&service->gate);
  catalog_close(&service->catalog);  // networks end before the lanes of their sessions
  jobs_end(&service->jobs);
  clients_end(&service->page_clients);
  clients_end(&service->clients);
  access_close(&service->access);
  models_release(&service->counters.models);
}

// voxeld: reads its options, opens the backend, serves until a signal, drains, and exits.
//
// SIGTERM and SIGINT are blocked in every thread and awaited here: the first begins the drain, a second ends the process at once. SIGHUP
// has presets, tokens and certificates read again. The
// loss of a GPU begins the drain too, where on_device_lost says so. Only main exits: with 0 after a clean stop, 1 where a job would not
// end, 2 where it could not start, 3 after the loss of a GPU.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/limits.h"
#include "server/base/log.h"
#include "server/base/notify.h"
#include "server/daemon/probe.h"
#include "server/daemon/reload.h"
#include "server/daemon/server.h"
#include "server/http/http.h"
#include "server/pages/pages.h"

enum { EXIT_DEVICE_LOST = 3 };

static struct server server;
static enum options_action action;

// ---- printing instead of serving ----------------------------------------------------------------------------------------

static void write_version(struct text *out) { text_put(out, "voxeld " VOXELD_VERSION "\n"); }

static int print(void (*write_text)(struct text *out)) {
  struct text text = text_over(NULL, 0);
  write_text(&text);
  size_t size = text.length + 1;
  char *memory = malloc(size);
  if (!memory) return EXIT_FAILURE;
  text = text_over(memory, size);
  write_text(&text);
  bool written = fputs(memory, stdout) >= 0 && fflush(stdout) == 0;
  free(memory);
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void write_config(struct text *out) { options_print_config(&server.options, out); }
static void write_good(struct text *out) {
  text_put(out, "the options, presets, tokens, certificates and devices are good\n");
}

static int fail(const char *error) {
  // What --new-token says often goes to the end of the token file, where this is a comment.
  fprintf(stderr, "%svoxeld: %s\n", action == ACTION_NEW_TOKEN ? "# " : "", error);
  return 2;
}

// A health check knows no other failure than 1.
static int unwell(const char *error) {
  (void)fail(error);
  return EXIT_FAILURE;
}

// A descriptor that the process was started without would be taken by its next file or connection, and the log written to that.
static void fill_standard_files(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR);  // takes the lowest that is free
}

// The token goes to stdout and its line to stderr, so that each can be sent where it belongs.
static int print_new_token(void) {
  char token[TOKEN_SIZE], line[TOKEN_LINE_SIZE], error[256];
  if (!token_make(server.options.new_token, token, line, error, sizeof error)) return fail(error);
  bool written = printf("%s\n", token) >= 0 && fflush(stdout) == 0 && fprintf(stderr, "%s\n", line) >= 0;
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

// ---- serving ------------------------------------------------------------------------------------------------------------

// Every connection needs a descriptor: a limit that the system does not grant is an error now, not a refusal later.
static bool raise_file_limit(char *error, size_t error_size) {
  enum { OWN_FILES = 64 };
  struct rlimit files;
  rlim_t wanted = (rlim_t)server.options.max_connections + LINGER_SLOTS + REFUSED_PEERS + OWN_FILES +
                  2 * (rlim_t)server.options.io_threads * LISTENERS_MAX;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return true;
  if (files.rlim_max != RLIM_INFINITY && files.rlim_max < wanted) {
    snprintf(error, error_size, "max_connections needs %llu open files; the system allows %llu (ulimit -n)",
             (unsigned long long)wanted, (unsigned long long)files.rlim_max);
    return false;
  }
  files.rlim_cur = wanted;
  if (setrlimit(RLIMIT_NOFILE, &files) == 0) return true;
  snprintf(error, error_size, "setrlimit: %s", strerror(errno));
  return false;
}

// Answers the jobs of a list with a problem; they come from the queue, so they are ours.
static void refuse(struct request *list, enum problem_kind kind, const char *detail) {
  while (list) {
    struct request *next = list->next;
    (void)problem_set(&list->problem, kind, NULL, "%s", detail);
    request_resume(list);
    list = next;
  }
}

static void on_tick(void *cls, int64_t now_ns) {
  (void)cls;
  for (int use = 0; use < VX_LANE_USES; use++) {
    refuse(queue_take_stale(&server.queues[use], now_ns), PROBLEM_DEADLINE,
           "the job waited to its deadline and had not begun");
    queue_tick(&server.queues[use], workers_at_work(&server.workers, use), now_ns);
  }
  gate_tick(&server.gate);
}

// With less memory than its options allow it to take, the process would be killed in some busy hour; so that is said at once.
static void warn_of_memory(void) {
  const struct options *options = &server.options;
  int64_t limit = limits_memory_bytes("");
  // As docs/operation.md adds it up; of requests there are no more than connections.
  int64_t of_a_connection = CONNECTION_MEMORY + (int64_t)sizeof(struct request);
  int64_t most = options->memory_budget_bytes + options->max_connections * of_a_connection +
                 server.workers.count * (int64_t)VX_SCRATCH_KEPT;
  if (limit >= most) return;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "the memory limit is less than may be needed");
  log_integer(&line, "memory_limit_bytes", limit);
  log_integer(&line, "may_need_bytes", most);
  log_integer(&line, "memory_budget_bytes", options->memory_budget_bytes);
  log_end(&line);
}

// Not an error: others set such variables too, as Kubernetes does for a service of that name.
static void warn_of_variables(void) {
  for (char **entry = environ; (entry = options_stray_variable(entry)); entry++) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
    log_event(LOG_WARNING, "an environment variable is no option", "variable", name);
  }
}

// What SIGHUP reads again.
static bool prepare(char *error, size_t error_size) {
  pthread_rwlock_init(&server.presets_lock, NULL);
  server.presets = presets_load(server.options.presets_dir, error, error_size);
  if (!proxies_read(server.options.trusted_proxies, &server.proxies)) return false;  // options_read has seen to it
  return server.presets && access_open(&server.access, &server.options, error, error_size);
}

static bool start(char *error, size_t error_size) {
  const struct options *options = &server.options;
  struct watcher_limits limits = {.idle_timeout_ns = options->idle_timeout_s * NS_PER_S,
                                  .upload_timeout_ns = options->upload_timeout_s * NS_PER_S,
                                  .send_timeout_ns = options->send_timeout_s * NS_PER_S,
                                  .upload_min_rate = options->upload_min_rate};
  const int64_t limits_of_shares[SHARES] = {[SHARE_CONNECTIONS] = options->max_connections,
                                            [SHARE_LINGERING] = LINGER_SLOTS,
                                            [SHARE_JOBS] = options->queue_depth,
                                            [SHARE_SAMPLING_JOBS] = options->queue_depth,
                                            [SHARE_BYTES] = options->memory_budget_bytes,
                                            [SHARE_SAMPLING_BYTES] = options->memory_budget_bytes / 2};
  if (!raise_file_limit(error, error_size) || !devices_open(&server.devices, options, error, error_size)) return false;
  if (!clients_init(&server.clients, options->max_connections + REFUSED_PEERS, limits_of_shares)) {
    snprintf(error, error_size, "clients: out of memory");
    return false;
  }
  buffers_init(&server.buffers, &server.devices, (size_t)options->memory_budget_bytes, &server.clients);
  gate_init(&server.gate, options->client_requests);
  // Samples take longer than waking up.
  int64_t awake_ns = server.devices.count > 0 ? options->busy_poll_us * NS_PER_US : 0;
  queue_init(&server.queues[VX_LANE_VOXELIZE], VX_LANE_VOXELIZE, awake_ns);
  queue_init(&server.queues[VX_LANE_SAMPLE], VX_LANE_SAMPLE, 0);
  requests_init(&server.requests);
  if (!workers_start(&server, error, error_size) ||
      !watcher_start(&server.watcher, &limits, &server.clients, on_tick, NULL, error, error_size) ||
      !http_start(&server, error, error_size))
    return false;
  warn_of_memory();
  atomic_store(&server.phase, PHASE_READY);
  const struct device *device = devices_main(&server.devices);
  struct log_line line;
  log_begin(&line, LOG_NOTICE, "listening");
  log_string(&line, "address", server.address);
  log_string(&line, "version", VOXELD_VERSION);
  log_string(&line, "backend", device->backend->name);
  log_string(&line, "device", device->description.name);
  log_integer(&line, "devices", server.devices.count > 0 ? server.devices.count : 1);
  log_integer(&line, "workers", workers_at_work(&server.workers, VX_LANE_VOXELIZE));
  log_integer(&line, "sampling_workers", workers_at_work(&server.workers, VX_LANE_SAMPLE));
  log_end(&line);
  return true;
}

// The signals that main waits for; all other threads have them blocked too.
static sigset_t signals;
static int stops_asked;  // how often an operator asked for the end

static void take_signal(int number) {
  if (number == SIGTERM || number == SIGINT) stops_asked++;
  if (stops_asked < 2) return;
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);  // here it ends,
  _exit(128 + number);                           // or here, as process 1 of a container, which signals do not end
}

// A moment in which signals count.
static void rest(void) {
  const struct timespec pause = {.tv_nsec = 2 * NS_PER_MS};
  int number = sigtimedwait(&signals, NULL, &pause);
  if (number > 0) take_signal(number);
}

static void rest_until(int64_t until_ns) {
  while (clock_ns() < until_ns) rest();
}

static bool wait_until(atomic_llong *count, int64_t until_ns) {
  while (atomic_load(count) > 0) {
    if (clock_ns() > until_ns) return false;
    rest();
  }
  return true;
}

// Requests that were sent before their clients could know are still in the sockets: while any come, they get their 503.
static void wait_until_quiet(void) {
  int64_t end_ns = clock_ns() + NS_PER_S, quiet_ns = 150 * NS_PER_MS;
  for (long long begun = -1; begun != atomic_load(&server.requests.begun) && clock_ns() < end_ns;) {
    begun = atomic_load(&server.requests.begun);
    (void)wait_until(&server.requests.open, end_ns);
    rest_until(clock_ns() + quiet_ns);
  }
}

// Readiness turns; then accepted requests are answered, new ones refused. False where a job would not end. Beyond the drain's own
// time it takes a few seconds at most.
static bool drain(void) {
  atomic_store(&server.phase, PHASE_LEAVING);
  rest_until(clock_ns() + server.options.drain_delay_s * NS_PER_S);
  atomic_store(&server.phase, PHASE_DRAINING);
  gate_open(&server.gate);
  if (!wait_until(&server.requests.active, clock_ns() + server.options.drain_timeout_s * NS_PER_S)) {
    log_event(LOG_WARNING, "drain timeout", "effect", "uploads and waiting jobs are refused");
    watcher_fail_uploads(&server.watcher, PROBLEM_DRAINING, DRAIN_IS_OVER);
    for (int use = 0; use < VX_LANE_USES; use++)
      refuse(queue_take_all(&server.queues[use]), PROBLEM_DRAINING, DRAIN_IS_OVER);
    atomic_store(&server.hurry, true);
  }
  wait_until_quiet();  // a client that goes on trickling a refused body is not waited for
  for (int use = 0; use < VX_LANE_USES; use++) queue_close(&server.queues[use]);
  int64_t until_ns = clock_ns() + 5 * NS_PER_S;
  for (int use = 0; use < VX_LANE_USES; use++)
    if (!wait_until(&server.workers.running[use], until_ns)) return false;
  // The answers of jobs that ended only now.
  (void)wait_until(&server.requests.active, clock_ns() + NS_PER_S);
  return true;
}

static void stop(void) {
  workers_join(&server.workers);
  watcher_halt(
      &server.watcher);  // what its tick took from the queue is resumed now: the library ends only without jobs
  http_stop(&server);
  watcher_destroy(&server.watcher);
  requests_destroy(&server.requests);
  workers_destroy(&server.workers);
  for (int use = 0; use < VX_LANE_USES; use++) queue_destroy(&server.queues[use]);
  gate_destroy(&server.gate);
  buffers_destroy(&server.buffers);
  clients_destroy(&server.clients);
  devices_close(&server.devices);
  access_close(&server.access);
  pthread_rwlock_destroy(&server.presets_lock);
  presets_free(server.presets);
}

// From here on they wait until main takes them: one that comes while the service starts is not lost, not even on process 1.
static void block_signals(void) {
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGNAL_DEVICE_LOST);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
}

static int serve(void) {
  char error[512];
  if (!log_start(error, sizeof error) || !start(error, sizeof error)) {
    log_stop();  // what led to it comes first
    return fail(error);
  }

  notify_supervisor("READY=1\nSTATUS=listening on %s", server.address);
  int number = 0;
  while (sigwait(&signals, &number), number == SIGHUP) reload(&server);
  signal(SIGHUP, SIG_IGN);
  take_signal(number);
  notify_supervisor("STOPPING=1\nSTATUS=draining");
  log_event(LOG_INFO, "draining", "reason",
            number == SIGTERM  ? "SIGTERM"
            : number == SIGINT ? "SIGINT"
                               : "a GPU is lost");
  if (!drain()) {
    log_event(LOG_ERROR, "a job does not end", "effect", "exit without it");
    log_stop();
    _exit(EXIT_FAILURE);
  }
  if (stops_asked) pthread_sigmask(SIG_UNBLOCK, &signals, NULL);  // nothing is left to lose
  stop();
  int status = atomic_load(&server.must_restart) ? EXIT_DEVICE_LOST : EXIT_SUCCESS;
  struct log_line line;
  log_begin(&line, LOG_NOTICE, "stopped");
  log_integer(&line, "exit", status);
  log_end(&line);
  log_stop();
  return status;
}

int main(int argc, char **argv) {
  char error[512];
  fill_standard_files();
  server.started_ns = clock_ns();
  server.started_unix_s = time(NULL);
  if (!options_read(argc, argv, environ, &server.options, &action, error, sizeof error))
    return action == ACTION_PROBE ? unwell(error) : fail(error);
  log_configure((enum log_level)server.options.log_level, (enum log_format)server.options.log_format);
  switch (action) {
    case ACTION_HELP: return print(options_help);
    case ACTION_VERSION: return print(write_version);
    case ACTION_PRINT_CONFIG: return print(write_config);
    case ACTION_DESCRIBE: return print(describe_write);
    case ACTION_NEW_TOKEN: return print_new_token();
    case ACTION_PROBE: return probe(&server.options, error, sizeof error) ? EXIT_SUCCESS : unwell(error);
    case ACTION_SERVE: block_signals(); break;
    case ACTION_CHECK_CONFIG: break;
  }
  warn_of_variables();
  if (!prepare(error, sizeof error)) return fail(error);
  if (action == ACTION_SERVE) return serve();
  if (!http_check(&server, error, sizeof error)) return fail(error);
  if (!devices_open(&server.devices, &server.options, error, sizeof error)) return fail(error);
  devices_close(&server.devices);
  return print(write_good);
}

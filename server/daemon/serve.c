// See daemon.h.
#include "server/daemon/daemon.h"

#include <stdlib.h>
#include <unistd.h>

#include "server/base/base.h"
#include "server/base/log.h"
#include "server/daemon/signals.h"

enum { EXIT_DEVICE_LOST = 3 };

static atomic_bool must_restart;  // a GPU is lost, and on_device_lost is exit

// Any worker's thread.
static void on_gpu_lost(void *cls) {
  struct service *service = cls;
  service_vacate_lost(service);
  bool restart = service->options.on_device_lost == LOST_EXIT;
  log_event(LOG_ERROR, "a GPU is lost", "effect", restart ? "drain and exit" : "its jobs go to other devices");
  if (restart && !atomic_exchange(&must_restart, true)) signals_device_lost();
}

static const char *reason_of(int number) {
  switch (number) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGNAL_STDIN_ENDED: return "standard input has ended";
    default: return "a GPU is lost";
  }
}

static void log_stopped(int status) {
  struct log_line line;
  log_begin(&line, LOG_NOTICE, "stopped");
  log_integer(&line, "exit", status);
  log_end(&line);
}

// Ends the process while a stuck thread may still use the service.
static _Noreturn void exit_at_once(const char *message, int status) {
  log_event(LOG_ERROR, message, "effect", "exit without waiting for it");
  log_stop();
  _exit(status);
}

bool serve_start(struct service *service, struct error *error) {
  if (log_start(error) && (!service->options.stop_with_stdin || signals_follow_stdin(error)) &&
      reload_start(service, error) && service_start(service, on_gpu_lost, error))
    return true;
  log_stop();  // writes the log before main prints the reason
  return false;
}

int serve(struct service *service) {
  const char *pages = service->pages_address;
  notify_supervisor("READY=1\nSTATUS=listening on %s%s%s", service->address, pages[0] ? ", for pages on " : "", pages);
  int number;
  while ((number = signals_wait()) == SIGHUP) reload_ask();
  signals_drain(number);
  notify_supervisor("STOPPING=1\nSTATUS=draining");
  log_event(LOG_INFO, "draining", "reason", reason_of(number));
  if (!drain(service)) exit_at_once("a job does not end", EXIT_FAILURE);
  int status = atomic_load(&must_restart) ? EXIT_DEVICE_LOST : EXIT_SUCCESS;
  if (!reload_end()) exit_at_once("a reload does not end", status);
  signals_let_end();
  service_stop(service);
  log_stopped(status);
  log_stop();
  return status;
}

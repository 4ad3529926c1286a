// See daemon.h.
#include "server/daemon/daemon.h"

#include <pthread.h>
#include <string.h>

#include "server/base/base.h"
#include "server/base/lock.h"
#include "server/base/log.h"
#include "server/daemon/signals.h"
#include "server/jobs/warm.h"

static const int64_t reload_wait_ns = NS_PER_S;  // how long the stop waits for a reload in progress

static struct {
  pthread_t thread;
  struct lock lock;  // guards the rest
  pthread_cond_t changed;
  bool wanted, in_progress, ending;
} reloads = {.lock = LOCK_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool reload_presets(struct service *service, struct error *error) {
  return catalog_reload_presets(&service->catalog, service->options.presets_dir, error);
}

static bool reload_models(struct service *service, struct error *error) {
  struct warm_progress unread;
  struct detectors *models = catalog_load_models(&service->catalog, service->options.models_dir, error);
  if (!models) return false;
  warm_up(&service->jobs, &service->options, models, service->catalog.detectors, &service->phase, &unread);
  service_log_broken(models);
  catalog_put_models(&service->catalog, models);
  service_vacate_lost(service);  // a GPU may have been lost before these models were served
  return true;
}

static bool reload_tokens(struct service *service, struct error *error) {
  if (!access_reload_tokens(&service->access, &service->options, error)) return false;
  regions_remove_unknown(&service->jobs.regions, &service->access);
  return true;
}

static bool reload_certificates(struct service *service, struct error *error) {
  return tls_reload(&service->access.tls, &service->options, error);
}

static void reload(struct service *service) {
  const struct options *options = &service->options;
  const struct {
    const char *name, *source;
    bool (*reload)(struct service *service, struct error *error);
    bool is_access;  // subscriptions end, because a subscriber may have lost its access
  } parts[] = {{"presets", options->presets_dir, reload_presets, false},
               {"models", options->models_dir, reload_models, false},
               {"tokens", options->token_file, reload_tokens, true},
               {"certificates", options->tls_cert, reload_certificates, true}};
  notify_supervisor("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_ns() / NS_PER_US));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (!parts[i].source[0]) continue;
    struct error error;
    struct log_line line;
    bool good = parts[i].reload(service, &error);
    if (good && parts[i].is_access) events_end_all(&service->jobs.streams.events, "reload", false);
    log_begin(&line, good ? LOG_INFO : LOG_ERROR, good ? "reloaded" : "not reloaded");
    log_string(&line, "what", parts[i].name);
    if (!good) log_string(&line, "reason", error.text);
    log_end(&line);
  }
  notify_supervisor("READY=1");
}

// Waits until a reload is wanted. False: the thread must end.
static bool await(void) {
  lock_acquire(&reloads.lock);
  reloads.in_progress = false;
  while (!reloads.wanted && !reloads.ending) lock_wait(&reloads.lock, &reloads.changed);
  reloads.wanted = false;
  bool goes_on = reloads.in_progress = !reloads.ending;
  lock_release(&reloads.lock);
  return goes_on;
}

static void *reload_main(void *argument) {
  while (await()) reload(argument);
  return NULL;
}

bool reload_start(struct service *service, struct error *error) {
  int code = pthread_create(&reloads.thread, NULL, reload_main, service);
  return code == 0 || error_set(error, "reload: pthread_create: %s", strerror(code));
}

void reload_ask(void) {
  lock_acquire(&reloads.lock);
  bool waits = reloads.in_progress;
  reloads.wanted = true;
  pthread_cond_signal(&reloads.changed);
  lock_release(&reloads.lock);
  if (waits) log_event(LOG_WARNING, "a reload is still in progress", "effect", "another follows once it ends");
}

static bool is_in_progress(void) {
  lock_acquire(&reloads.lock);
  bool in_progress = reloads.in_progress;
  lock_release(&reloads.lock);
  return in_progress;
}

bool reload_end(void) {
  lock_acquire(&reloads.lock);
  reloads.ending = true;
  pthread_cond_signal(&reloads.changed);
  lock_release(&reloads.lock);
  for (int64_t until_ns = clock_ns() + reload_wait_ns; is_in_progress();) {
    if (clock_ns() > until_ns) return false;
    signals_rest();
  }
  return pthread_join(reloads.thread, NULL) == 0;
}

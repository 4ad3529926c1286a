// See signals.h.
#include "server/daemon/signals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/base/base.h"

static const struct timespec moment = {.tv_nsec = 2 * NS_PER_MS};
static const int64_t patience_ns = NS_PER_S;  // for a thread that may hang; see signals_join
static sigset_t signals;
static int stops_asked;  // SIGTERM and SIGINT so far

void signals_block(void) {
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGNAL_DEVICE_LOST);
  sigaddset(&signals, SIGNAL_STDIN_ENDED);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

void signals_unblock(void) { pthread_sigmask(SIG_UNBLOCK, &signals, NULL); }

static void unblock(int number) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

static void *stdin_main(void *unused) {
  (void)unused;
  char bytes[256];
  ssize_t got;
  do got = read(STDIN_FILENO, bytes, sizeof bytes);
  while (got > 0 || (got < 0 && errno == EINTR));
  kill(getpid(), SIGNAL_STDIN_ENDED);
  return NULL;
}

bool signals_follow_stdin(struct error *error) {
  pthread_t thread;
  int code = pthread_create(&thread, NULL, stdin_main, NULL);
  if (code == 0) code = pthread_detach(thread);
  return code == 0 || error_set(error, "standard input: pthread_create: %s", strerror(code));
}

void signals_device_lost(void) { kill(getpid(), SIGNAL_DEVICE_LOST); }

int signals_wait(void) {
  int number = 0;
  sigwait(&signals, &number);
  return number;
}

static _Noreturn void end_by(int number) {
  raise(number);
  unblock(number);      // now the raised signal ends the process, unless it is process 1 of a container
  _exit(128 + number);  // the status that a shell reports for a signal
}

static int pending_stop(void) {
  sigset_t pending;
  if (sigpending(&pending) != 0) return 0;
  static const int stops[] = {SIGTERM, SIGINT, SIGNAL_STDIN_ENDED};
  for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
    if (sigismember(&pending, stops[i])) return stops[i];
  return 0;
}

void signals_join(pthread_t thread) {
  int64_t end_ns = INT64_MAX;
  while (pthread_tryjoin_np(thread, NULL) == EBUSY) {
    int number = pending_stop();
    if (number && end_ns == INT64_MAX) end_ns = clock_ns() + patience_ns;
    if (number && clock_ns() > end_ns) end_by(number);
    nanosleep(&moment, NULL);
  }
}

static void take(int number) {
  if (number == SIGTERM || number == SIGINT) stops_asked++;
  if (stops_asked >= 2) end_by(number);
}

void signals_drain(int number) {
  signal(SIGHUP, SIG_IGN);
  take(number);
}

void signals_let_end(void) {
  if (!stops_asked) return;
  unblock(SIGTERM);
  unblock(SIGINT);
}

void signals_rest(void) {
  int number = sigtimedwait(&signals, NULL, &moment);
  if (number > 0) take(number);
}

void signals_rest_until(int64_t until_ns) {
  while (clock_ns() < until_ns) signals_rest();
}

// Signals; see signals.h.
#include "server/daemon/signals.h"

#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "server/base/clock.h"

static sigset_t signals, mask_before;
static void (*pipe_before)(int);
static int stops_asked;  // SIGTERM and SIGINT so far

void signals_block(void) {
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGNAL_DEVICE_LOST);
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before);
  pipe_before = signal(SIGPIPE, SIG_IGN);
}

void signals_restore(void) {
  signal(SIGPIPE, pipe_before);
  pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
}

void signals_device_lost(void) { kill(getpid(), SIGNAL_DEVICE_LOST); }

int signals_wait(void) {
  int number = 0;
  sigwait(&signals, &number);
  return number;
}

static void take(int number) {
  if (number == SIGTERM || number == SIGINT) stops_asked++;
  if (stops_asked < 2) return;
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);  // the signal ends the process here,
  _exit(128 + number);                           // or here as process 1 of a container, which it does not end
}

void signals_drain(int number) {
  signal(SIGHUP, SIG_IGN);
  take(number);
}

void signals_let_end(void) {
  if (stops_asked) pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

void signals_rest(void) {
  const struct timespec pause = {.tv_nsec = 2 * NS_PER_MS};
  int number = sigtimedwait(&signals, NULL, &pause);
  if (number > 0) take(number);
}

void signals_rest_until(int64_t until_ns) {
  while (clock_ns() < until_ns) signals_rest();
}

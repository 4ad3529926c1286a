// The signals that main waits for; all other threads have them blocked too.
//
// SIGTERM and SIGINT: the first begins the drain, a second ends the process at once. SIGHUP: a reload.
// SIGNAL_DEVICE_LOST comes from the process itself. Main's thread alone, but for signals_device_lost.
#ifndef VOXELD_SIGNALS_H
#define VOXELD_SIGNALS_H

#include <signal.h>
#include <stdint.h>

#define SIGNAL_DEVICE_LOST SIGUSR1

// From here on they wait until main takes them: one that comes while the service starts is not lost, not even on
// process 1.
void signals_block(void);
// Any thread: sends SIGNAL_DEVICE_LOST to the process.
void signals_device_lost(void);
// Waits for one.
int signals_wait(void);
// SIGHUP is over: the drain begins for this reason.
void signals_drain(int number);
// Nothing is left to lose: a signal that was asked for twice, or comes now, ends the process.
void signals_let_end(void);

// Moments in which signals count.
void signals_rest(void);
void signals_rest_until(int64_t until_ns);

#endif

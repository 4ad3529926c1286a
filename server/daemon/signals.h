// The signals that main waits for. All threads block them.
//
// The first SIGTERM or SIGINT begins the drain; a second ends the process at once. SIGHUP reloads. The process sends
// SIGNAL_DEVICE_LOST and SIGNAL_STDIN_ENDED to itself: these begin a drain too, but a second does nothing.
//
// Main's thread, except for signals_device_lost, signals_follow_stdin and signals_unblock.
#ifndef VOXELD_SIGNALS_H
#define VOXELD_SIGNALS_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "kernels/kernels.h"

#define SIGNAL_DEVICE_LOST SIGUSR1
#define SIGNAL_STDIN_ENDED SIGUSR2

// Blocks the signals in this thread and in all threads that it starts. Main calls this first: the kernel discards a
// signal that process 1 of a container neither blocks nor handles.
void signals_block(void);
// Unblocks them in this thread, for actions that do not serve: the first SIGTERM or SIGINT then ends the process.
void signals_unblock(void);
// Waits for the end of a thread that may hang, such as the one that starts the service. Ends the process if the thread
// does not end within a second after SIGTERM, SIGINT or the end of standard input. Signals stay pending meanwhile.
void signals_join(pthread_t thread);
// Starts a thread that reads standard input, and sends SIGNAL_STDIN_ENDED to the process when the input ends. The
// thread is not joined, since a read may wait for ever. False with a reason.
VX_WARN_UNUSED bool signals_follow_stdin(struct error *error);
void signals_device_lost(void);
int signals_wait(void);
// The drain begins because of this signal. From here on SIGHUP is ignored.
void signals_drain(int number);
// The drain is over. If SIGTERM or SIGINT has come, the next ends the process at once, even during the stop.
void signals_let_end(void);

// Sleep for 2 ms, or until a time of clock_ns. A second SIGTERM or SIGINT ends the process meanwhile.
void signals_rest(void);
void signals_rest_until(int64_t until_ns);

#endif

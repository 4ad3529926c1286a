// Notifies the supervisor, such as systemd, by the protocol of sd_notify(3): one datagram for each message.
#ifndef VOXELD_NOTIFY_H
#define VOXELD_NOTIFY_H

// Sends a message, lines of NAME=VALUE, to the socket that $NOTIFY_SOCKET names. Does nothing if it is not set, or
// after notify_stopping. Logs a warning if it fails. Any thread.
__attribute__((format(printf, 1, 2))) void notify_supervisor(const char *format, ...);
// Sends the last message: the stop has begun. A reload that ends later can no longer report READY=1.
void notify_stopping(void);

#endif

// Notifies the supervisor, such as systemd, by the protocol of sd_notify(3): one datagram for each message.
#ifndef VOXELD_NOTIFY_H
#define VOXELD_NOTIFY_H

// Sends a message, lines of NAME=VALUE, to the socket that $NOTIFY_SOCKET names. Does nothing if it is not set. Logs a
// warning if it fails. Main's thread.
__attribute__((format(printf, 1, 2))) void notify_supervisor(const char *format, ...);

#endif

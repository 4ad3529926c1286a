// What the service tells its supervisor: the protocol of sd_notify(3), one datagram a message.
#ifndef VOXELD_NOTIFY_H
#define VOXELD_NOTIFY_H

// Sends the message, lines of NAME=VALUE, to the socket that $NOTIFY_SOCKET names; where there is none, nothing. Main
// only.
__attribute__((format(printf, 1, 2))) void notify_supervisor(const char *format, ...);

#endif

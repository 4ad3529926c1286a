// See base.h.
#include "server/base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/lock.h"
#include "server/base/log.h"

static struct lock lock = LOCK_INITIALIZER;
static bool stopping;  // under the lock, which is also held to send: so no message follows STOPPING=1
static const char last[] = "STOPPING=1";

static bool send_message(const char *message, size_t size) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  const char *path = getenv("NOTIFY_SOCKET");
  size_t length = path ? strlen(path) : 0;
  if (length < 2 || length >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) return true;
  memcpy(to.sun_path, path, length);
  if (path[0] == '@') to.sun_path[0] = '\0';  // an abstract name
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool sent = sendto(fd, message, size, MSG_NOSIGNAL, (const struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) == (ssize_t)size;
  int reason = errno;
  close(fd);
  errno = reason;
  return sent;
}

void notify_supervisor(const char *format, ...) {
  char message[2048];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (size < 0) return;
  lock_acquire(&lock);
  bool good = stopping || send_message(message, strlen(message));
  int reason = errno;
  stopping = stopping || strncmp(message, last, strlen(last)) == 0;
  lock_release(&lock);
  if (!good) log_event(LOG_WARNING, "the supervisor could not be notified", "reason", strerror(reason));
}

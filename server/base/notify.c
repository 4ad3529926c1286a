// Notifying the supervisor; see notify.h.
#include "server/base/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/log.h"

void notify_supervisor(const char *format, ...) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  const char *path = getenv("NOTIFY_SOCKET");
  size_t length = path ? strlen(path) : 0;
  if (length < 2 || length >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) return;
  memcpy(to.sun_path, path, length);
  if (path[0] == '@') to.sun_path[0] = '\0';  // an abstract name
  char message[2048];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || size < 0 || size >= (int)sizeof message ||
      sendto(fd, message, (size_t)size, MSG_NOSIGNAL, (const struct sockaddr *)&to,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) != size)
    log_event(LOG_WARNING, "the supervisor could not be notified", "reason", strerror(errno));
  if (fd >= 0) close(fd);
}

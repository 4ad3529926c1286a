// Opening the listening socket; see listener.h.
#include "server/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };
static const char unix_prefix[] = "unix:";

static int fail(int fd, const char *where, const char *what, const char *why, char *error, size_t error_size) {
  snprintf(error, error_size, "cannot listen on %s: %s%s%s", where, what, why ? ": " : "", why ? why : "");
  if (fd >= 0) close(fd);
  return -1;
}

// A socket file that nobody listens on is left over from a process that died.
static void remove_stale(const struct sockaddr_un *name) {
  struct stat status;
  if (stat(name->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 && errno == ECONNREFUSED) unlink(name->sun_path);
  close(fd);
}

static int open_unix(const char *where, char *address, size_t address_size, char *error, size_t error_size) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const char *path = where + strlen(unix_prefix);
  if (!path[0] || strlen(path) >= sizeof name.sun_path)
    return fail(-1, where, "the path must have 1 to 107 bytes", NULL, error, error_size);
  strcpy(name.sun_path, path);
  remove_stale(&name);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fail(fd, where, "socket", strerror(errno), error, error_size);
  if (bind(fd, (const struct sockaddr *)&name, sizeof name) != 0)
    return fail(fd, where, "bind", strerror(errno), error, error_size);
  if (chmod(path, 0660) != 0 || listen(fd, BACKLOG) != 0)
    return fail(fd, where, "listen", strerror(errno), error, error_size);
  snprintf(address, address_size, "%s", where);
  return fd;
}

// Splits ADDRESS:PORT or [ADDRESS]:PORT; false where it has another form.
static bool split(const char *where, char host[128], char port[8]) {
  const char *colon = strrchr(where, ':');
  if (!colon || strlen(colon + 1) == 0 || strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
    return false;
  if (strtol(colon + 1, NULL, 10) > 65535) return false;
  size_t length = (size_t)(colon - where);
  bool bracketed = length >= 2 && where[0] == '[' && colon[-1] == ']';
  if (length - (bracketed ? 2 : 0) >= 128 || (!bracketed && memchr(where, ':', length))) return false;
  snprintf(host, 128, "%.*s", (int)(length - (bracketed ? 2 : 0)), where + (bracketed ? 1 : 0));
  snprintf(port, 8, "%s", colon + 1);
  return host[0] != '\0';
}

static void write_address(int fd, char *address, size_t address_size) {
  struct sockaddr_storage bound;
  socklen_t length = sizeof bound;
  char host[128] = "?", port[8] = "?";
  if (getsockname(fd, (struct sockaddr *)&bound, &length) == 0)
    (void)!getnameinfo((struct sockaddr *)&bound, length, host, sizeof host, port, sizeof port,
                       NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(address, address_size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int listener_open(const char *where, char *address, size_t address_size, char *error, size_t error_size) {
  if (strncmp(where, unix_prefix, strlen(unix_prefix)) == 0)
    return open_unix(where, address, address_size, error, error_size);
  char host[128], port[8];
  if (!split(where, host, port))
    return fail(-1, where, "expected ADDRESS:PORT, [IPV6]:PORT or unix:PATH", NULL, error, error_size);
  struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found = NULL;
  int code = getaddrinfo(host, port, &hints, &found);
  if (code) return fail(-1, where, host, gai_strerror(code), error, error_size);
  int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const char *failed = fd < 0 ? "socket" : NULL;
  if (!failed && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) failed = "setsockopt";
  if (!failed && bind(fd, found->ai_addr, found->ai_addrlen) != 0) failed = "bind";
  if (!failed && listen(fd, BACKLOG) != 0) failed = "listen";
  int reason = errno;
  freeaddrinfo(found);
  if (failed) return fail(fd, where, failed, strerror(reason), error, error_size);
  write_address(fd, address, address_size);
  return fd;
}

void listener_peer(int fd, char *address, size_t address_size) {
  union {
    struct sockaddr any;
    struct sockaddr_in6 in6;
    struct sockaddr_storage room;
  } peer;
  struct ucred user;
  socklen_t length = sizeof peer, user_length = sizeof user;
  char host[64];
  snprintf(address, address_size, "unknown");
  if (getpeername(fd, &peer.any, &length) != 0) return;
  if (peer.any.sa_family == AF_UNIX) {
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_length) == 0)
      snprintf(address, address_size, "unix:%u", (unsigned)user.uid);
    return;
  }
  if (getnameinfo(&peer.any, length, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0) return;
  bool wrapped = peer.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&peer.in6.sin6_addr);
  snprintf(address, address_size, "%s", wrapped ? strrchr(host, ':') + 1 : host);
}

void listener_close(const char *where, int fd) {
  if (fd >= 0) close(fd);
  if (strncmp(where, unix_prefix, strlen(unix_prefix)) == 0) unlink(where + strlen(unix_prefix));
}

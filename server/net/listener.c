// See listener.h.
#include "server/net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, FIRST_HANDED_OVER = 3 };
static const char unix_prefix[] = "unix:", systemd_word[] = "systemd";

struct opening {
  struct listeners *listeners;
  bool check;  // nothing is bound
  int before;  // the number of listeners of earlier lists
  const struct listen_rules *rules;
  const char *verb;  // names the failed step in an error
  struct error *error;
  char where[256];  // the item of the list
};

__attribute__((format(printf, 2, 3))) static bool fail(const struct opening *opening, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(opening->error, VX_REFUSED, NULL, format, arguments);
  va_end(arguments);
  return error_prefix(opening->error, "cannot %s %s: ", opening->verb, opening->where);
}

// Fails with the text of errno, and closes `fd` unless it is -1.
static bool fail_call(const struct opening *opening, int fd, const char *call) {
  int reason = errno;
  if (fd >= 0) close(fd);
  return fail(opening, "%s: %s", call, strerror(reason));
}

// ---- addresses ------------------------------------------------------------------------------------------------------

union address {
  struct sockaddr any;
  struct sockaddr_in in;
  struct sockaddr_in6 in6;
  struct sockaddr_un un;
  struct sockaddr_storage room;
};

static bool is_loopback(const union address *address) {
  if (address->any.sa_family == AF_INET) return ntohl(address->in.sin_addr.s_addr) >> 24 == 127;
  const struct in6_addr *in6 = &address->in6.sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

static bool check_exposure(const struct opening *opening, const union address *address) {
  if (opening->rules->may_expose || is_loopback(address)) return true;
  return fail(opening, "clients on other machines could use the service without credentials; set token_file, or "
                       "tls_client_ca with tls_cert and tls_key, or pass --allow-anonymous");
}

// Splits ADDRESS:PORT or [ADDRESS]:PORT. False if `where` has another form.
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

static void write_address(const union address *address, socklen_t length, char *text, size_t size) {
  char host[96] = "?", port[8] = "?";
  (void)!getnameinfo(&address->any, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(text, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

// ---- the list -------------------------------------------------------------------------------------------------------

// Whether a socket on [::] listens on all IPv4 addresses too.
static bool is_dual_stack(void) {
  int v6_only = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t size = sizeof v6_only;
  if (fd >= 0) (void)!getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, &size);
  if (fd >= 0) close(fd);
  return !v6_only;
}

// Whether a socket on `host` prevents one on `other` at the same port. Both are numeric.
static bool covers(const char *host, const char *other) {
  bool other_is_v4 = !strchr(other, ':');
  if (strcmp(host, "0.0.0.0") == 0) return other_is_v4;
  if (strcmp(host, "::") == 0) return !other_is_v4 || is_dual_stack();
  return strcmp(host, other) == 0;
}

// Whether only one of the two can be bound.
static bool collide(const struct listener *one, const struct listener *other) {
  char host[128], other_host[128], port[8], other_port[8];
  if (!one->tcp || !other->tcp) return strcmp(one->address, other->address) == 0;
  if (!split(one->address, host, port) || !split(other->address, other_host, other_port)) return false;
  if (strcmp(port, other_port) != 0 || strcmp(port, "0") == 0) return false;
  return covers(host, other_host) || covers(other_host, host);
}

// If the list is only checked, refuses a listener that collides with an earlier one.
static bool add(const struct opening *opening, const struct listener *listener) {
  struct listeners *listeners = opening->listeners;
  for (int i = 0; opening->check && i < listeners->count; i++)
    if (collide(listener, &listeners->at[i]))
      return fail(opening, "it cannot be bound together with %s, which is listed too", listeners->at[i].address);
  if (listeners->count - opening->before == LISTENERS_MAX) {
    if (!opening->check) close(listener->fd);
    return fail(opening, "allowed: up to %d listeners", LISTENERS_MAX);
  }
  listeners->at[listeners->count] = *listener;
  listeners->at[listeners->count++].group = opening->rules->group;
  return true;
}

// ---- TCP ------------------------------------------------------------------------------------------------------------

// False with errno, and the failed call in `call`.
static bool bind_tcp(const struct addrinfo *info, struct listener *listener, const char **call) {
  union address bound;
  socklen_t length = sizeof bound;
  int on = 1;
  *call = "socket";
  listener->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener->fd < 0) return false;
  if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    *call = "setsockopt";
  else if (bind(listener->fd, info->ai_addr, info->ai_addrlen) != 0)
    *call = "bind";
  else if (listen(listener->fd, BACKLOG) != 0)
    *call = "listen";
  else if (getsockname(listener->fd, &bound.any, &length) != 0)
    *call = "getsockname";
  else
    *call = NULL;
  if (!*call) {
    write_address(&bound, length, listener->address, sizeof listener->address);
    return true;
  }
  int reason = errno;
  close(listener->fd);
  errno = reason;
  return false;
}

// NULL with an error.
static struct addrinfo *find_tcp(const struct opening *opening) {
  char host[128], port[8];
  struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found = NULL;
  if (!split(opening->where, host, port)) {
    (void)fail(opening, "expected ADDRESS:PORT, [IPV6]:PORT, unix:PATH or systemd");
    return NULL;
  }
  int code = getaddrinfo(host, port, &hints, &found);
  if (code) (void)fail(opening, "%s: %s", host, gai_strerror(code));
  return code ? NULL : found;
}

static bool open_tcp(const struct opening *opening) {
  struct addrinfo *found = find_tcp(opening);
  if (!found) return false;
  struct listener listener = {.fd = -1, .tcp = true};
  const char *call = "no address";
  bool allowed = true, good = false;
  for (const struct addrinfo *info = found; info && allowed && !good; info = info->ai_next) {
    union address address;
    memcpy(&address, info->ai_addr, info->ai_addrlen);
    allowed = check_exposure(opening, &address);
    if (opening->check) write_address(&address, info->ai_addrlen, listener.address, sizeof listener.address);
    good = allowed && (opening->check || bind_tcp(info, &listener, &call));
  }
  bool known = !opening->check || !found->ai_next;  // any of several addresses may be bound
  int reason = errno;
  freeaddrinfo(found);
  errno = reason;
  if (!allowed) return false;
  if (!good) return fail_call(opening, -1, call);
  return !known || add(opening, &listener);
}

// ---- Unix domain ----------------------------------------------------------------------------------------------------

// Removes a socket file on which no process listens. Without SOCK_NONBLOCK, connect would wait for a listener whose
// queue is full.
static void remove_stale(const struct sockaddr_un *name) {
  struct stat status;
  if (stat(name->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  if (connect(fd, (const struct sockaddr *)name, sizeof *name) != 0 && errno == ECONNREFUSED) unlink(name->sun_path);
  close(fd);
}

// The umask sets the permissions, so that the file has them from its creation on. No other thread makes files
// meanwhile.
static bool bind_unix(int fd, const struct sockaddr_un *name, unsigned mode) {
  mode_t before = umask(~mode & 0777);
  bool bound = bind(fd, (const struct sockaddr *)name, sizeof *name) == 0;
  umask(before);
  return bound;
}

static bool name_unix(const struct opening *opening, struct sockaddr_un *name) {
  const char *path = opening->where + strlen(unix_prefix);
  *name = (struct sockaddr_un){.sun_family = AF_UNIX};
  if (!path[0] || strlen(path) >= sizeof name->sun_path)
    return fail(opening, "the path must have 1 to %zu bytes", sizeof name->sun_path - 1);
  strcpy(name->sun_path, path);
  return true;
}

static bool open_unix(const struct opening *opening) {
  struct sockaddr_un name;
  if (!name_unix(opening, &name)) return false;
  struct listener listener = {.fd = -1};
  struct stat status;
  snprintf(listener.address, sizeof listener.address, "%s%s", unix_prefix, name.sun_path);
  if (opening->check) return add(opening, &listener);
  remove_stale(&name);
  listener.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener.fd < 0) return fail_call(opening, -1, "socket");
  if (!bind_unix(listener.fd, &name, opening->rules->unix_mode)) return fail_call(opening, listener.fd, "bind");
  if (listen(listener.fd, BACKLOG) != 0) return fail_call(opening, listener.fd, "listen");
  if (stat(name.sun_path, &status) != 0) return fail_call(opening, listener.fd, "stat");
  listener.device = status.st_dev;
  listener.inode = status.st_ino;
  snprintf(listener.path, sizeof listener.path, "%s", name.sun_path);
  return add(opening, &listener);
}

// Removes the file of a Unix socket, unless another file has taken its path. While a socket is open, no other file gets
// its inode number.
static void remove_path(const struct listener *listener) {
  struct stat status;
  if (listener->path[0] && stat(listener->path, &status) == 0 && status.st_dev == listener->device &&
      status.st_ino == listener->inode)
    unlink(listener->path);
}

// ---- systemd (sd_listen_fds(3)) -------------------------------------------------------------------------------------

static bool take_handed_over(const struct opening *opening, int fd) {
  union address address = {.any = {.sa_family = AF_UNSPEC}};
  socklen_t length = sizeof address, size = sizeof(int);
  int type = 0, listens = 0, flags;
  struct listener listener = {.fd = fd};
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || getsockname(fd, &address.any, &length) != 0 ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || (flags = fcntl(fd, F_GETFL)) < 0 ||
      fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail(opening, "descriptor %d: %s", fd, strerror(errno));
  listener.tcp = address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6;
  if (type != SOCK_STREAM || !listens || (!listener.tcp && address.any.sa_family != AF_UNIX))
    return fail(opening, "descriptor %d is not a listening stream socket", fd);
  if (listener.tcp && !check_exposure(opening, &address)) return false;
  if (listener.tcp)
    write_address(&address, length, listener.address, sizeof listener.address);
  else
    snprintf(listener.address, sizeof listener.address, "unix:%.*s",
             (int)(length - offsetof(struct sockaddr_un, sun_path)), address.un.sun_path);
  return add(opening, &listener);
}

static bool open_systemd(const struct opening *opening) {
  struct listener unknown = {.fd = -1};
  snprintf(unknown.address, sizeof unknown.address, "%s", systemd_word);
  if (opening->check) return add(opening, &unknown);
  const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
  long number = process && count && strtol(process, NULL, 10) == getpid() ? strtol(count, NULL, 10) : 0;
  if (number <= 0) return fail(opening, "no socket was handed over (LISTEN_PID, LISTEN_FDS)");
  for (int i = 0; i < opening->listeners->count; i++)
    if (opening->listeners->at[i].fd == FIRST_HANDED_OVER) return fail(opening, "it is listed twice");
  if (number > LISTENERS_MAX) return fail(opening, "allowed: up to %d listeners", LISTENERS_MAX);
  for (int i = 0; i < number; i++)
    if (!take_handed_over(opening, FIRST_HANDED_OVER + i)) return false;
  return true;
}

// ---- all listeners --------------------------------------------------------------------------------------------------

static bool is_unix(const struct opening *opening) {
  return strncmp(opening->where, unix_prefix, strlen(unix_prefix)) == 0;
}

static bool open_one(const struct opening *opening) {
  if (strcmp(opening->where, systemd_word) == 0) return open_systemd(opening);
  return is_unix(opening) ? open_unix(opening) : open_tcp(opening);
}

static bool open_all(struct listeners *listeners, bool check, const char *list, const struct listen_rules *rules,
                     struct error *error) {
  struct opening opening = {.listeners = listeners,
                            .check = check,
                            .before = listeners->count,
                            .rules = rules,
                            .verb = "listen on",
                            .error = error};
  int items = 0;
  for (const char *next = list;; next++) {
    size_t length = strcspn(next, ",");
    snprintf(opening.where, sizeof opening.where, "%.*s", (int)length, next);
    if (++items > LISTENERS_MAX) return fail(&opening, "allowed: up to %d listeners", LISTENERS_MAX);
    if (!open_one(&opening)) return false;
    next += length;
    if (!*next) return true;
  }
}

bool listeners_open(struct listeners *listeners, const char *list, const struct listen_rules *rules,
                    struct error *error) {
  if (open_all(listeners, false, list, rules, error)) return true;
  listeners_close(listeners);
  return false;
}

bool listeners_check(struct listeners *checked, const char *list, const struct listen_rules *rules,
                     struct error *error) {
  return open_all(checked, true, list, rules, error);
}

void listeners_close(struct listeners *listeners) {
  for (int i = 0; i < listeners->count; i++) {
    remove_path(&listeners->at[i]);
    if (listeners->at[i].fd >= 0) close(listeners->at[i].fd);
  }
  listeners->count = 0;
}

// ---- their clients --------------------------------------------------------------------------------------------------

// -1 with errno.
static int connect_socket(const struct sockaddr *address, socklen_t length, int timeout_s) {
  const struct timeval timeout = {.tv_sec = timeout_s};
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0 &&
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0 && connect(fd, address, length) == 0)
    return fd;
  int reason = errno == EINPROGRESS || errno == EAGAIN ? ETIMEDOUT : errno;  // SO_SNDTIMEO ends connect with these
  close(fd);
  errno = reason;
  return -1;
}

// Linux takes 0.0.0.0 and [::] for loopback here. If IPv6 loopback is off, IPv4 may still reach a listener on [::].
static int connect_one(const struct addrinfo *info, int timeout_s) {
  static const struct in6_addr loopback = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}};
  union address address;
  memcpy(&address, info->ai_addr, info->ai_addrlen);
  int fd = connect_socket(&address.any, info->ai_addrlen, timeout_s);
  if (fd >= 0 || address.any.sa_family != AF_INET6 || !IN6_IS_ADDR_UNSPECIFIED(&address.in6.sin6_addr)) return fd;
  address.in6.sin6_addr = loopback;
  return connect_socket(&address.any, info->ai_addrlen, timeout_s);
}

static int connect_tcp(const struct opening *opening, int timeout_s) {
  int fd = -1;
  struct addrinfo *found = find_tcp(opening);
  if (!found) return -1;
  for (const struct addrinfo *info = found; info && fd < 0; info = info->ai_next) fd = connect_one(info, timeout_s);
  int reason = errno;
  freeaddrinfo(found);
  errno = reason;
  if (fd < 0) (void)fail_call(opening, -1, "connect");
  return fd;
}

static int connect_unix(const struct opening *opening, int timeout_s) {
  struct sockaddr_un name;
  if (!name_unix(opening, &name)) return -1;
  int fd = connect_socket((const struct sockaddr *)&name, sizeof name, timeout_s);
  if (fd < 0) (void)fail_call(opening, -1, "connect");
  return fd;
}

int listener_connect(const char *list, int timeout_s, bool *tcp, struct error *error) {
  struct opening opening = {.verb = "connect to", .error = error};
  snprintf(opening.where, sizeof opening.where, "%.*s", (int)strcspn(list, ","), list);
  *tcp = !is_unix(&opening);
  if (strcmp(opening.where, systemd_word) == 0) {
    (void)fail(&opening, "systemd gives the address of its socket only to the service");
    return -1;
  }
  return *tcp ? connect_tcp(&opening, timeout_s) : connect_unix(&opening, timeout_s);
}

void listener_peer(int fd, char address[ADDRESS_SIZE]) {
  union address peer = {.any = {.sa_family = AF_UNSPEC}};
  struct ucred user;
  socklen_t length = sizeof peer, user_length = sizeof user;
  char host[ADDRESS_SIZE];
  snprintf(address, ADDRESS_SIZE, "unknown");
  if (getpeername(fd, &peer.any, &length) != 0) return;
  if (peer.any.sa_family == AF_UNIX) {
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &user_length) == 0)
      snprintf(address, ADDRESS_SIZE, "unix:%u", (unsigned)user.uid);
    return;
  }
  if (getnameinfo(&peer.any, length, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0) return;
  host[strcspn(host, "%")] = '\0';  // without the name of the interface, which a link-local address has
  bool wrapped = peer.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&peer.in6.sin6_addr);
  snprintf(address, ADDRESS_SIZE, "%s", wrapped ? strrchr(host, ':') + 1 : host);
}

bool listener_is_exposed(const struct listener *listener) {
  char host[128], port[8];
  return listener->tcp && !(split(listener->address, host, port) && address_is_local(host));
}

bool address_is_local(const char *address) {
  return strncmp(address, "unix:", 5) == 0 || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

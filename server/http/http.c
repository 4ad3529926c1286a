// libmicrohttpd's side of the daemon; see http.h.
//
// The library runs an epoll thread pool, with suspend and resume. A thread per connection would lose wake-ups of
// suspended connections, and poll gets slow with many idle clients. The acceptor hands the library its connections, and
// the library spreads them over its threads. Do not call MHD_quiesce_daemon, which can abort.
#include "server/http/http.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/base.h"
#include "server/base/log.h"
#include "server/net/connections.h"

// on_uri marks a request with the address of one of these. Nothing is allocated before the head is whole, since the
// library may give up a head.
static struct line_fault sound_line = {ERROR_NONE, ""},
                         malformed_line = {ERROR_BAD_REQUEST,
                                           "the path or query has a malformed percent-encoding, or a NUL"},
                         crowded_line = {ERROR_HEAD_TOO_LARGE,
                                         "the query has more than 1000 parameters, or is longer than 64 KiB"};

static bool is_line_mark(const void *request_cls) {
  return request_cls == &sound_line || request_cls == &malformed_line || request_cls == &crowded_line;
}

static struct peer *peer_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

// Whether a target's query may be too large for a connection's memory.
static bool is_crowded(const char *target) {
  enum { MOST_PARAMETERS = 1000, LONGEST_QUERY = 64 * 1024 };
  const char *query = strchr(target, '?');
  if (!query) return false;
  int parameters = 1;
  for (const char *next = query; (next = strchr(next + 1, '&'));) parameters++;
  return parameters > MOST_PARAMETERS || strlen(query) > LONGEST_QUERY;
}

// Whether a % is followed by 00, or not by two hexadecimal digits. The library would pass a malformed code through, and
// would cut the path at %00.
static bool is_malformed(const char *target) {
  static const char hexadecimal[] = "0123456789abcdefABCDEF";
  for (const char *percent = target; (percent = strchr(percent, '%')); percent += 3)
    if (!percent[1] || !strchr(hexadecimal, percent[1]) || !percent[2] || !strchr(hexadecimal, percent[2]) ||
        (percent[1] == '0' && percent[2] == '0'))
      return true;
  return false;
}

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection) {
  const struct service *service = cls;
  struct peer *peer = peer_of(connection);
  if (peer) peer->head_open = true;
  if (peer) peer->target_end = uri + strlen(uri);
  if (!is_crowded(uri)) return is_malformed(uri) ? &malformed_line : &sound_line;
  if (service->library.cut_query) library_cut_query(uri);
  return &crowded_line;
}

static struct request *open_request(struct service *service, struct MHD_Connection *connection,
                                    const struct line_fault *fault, const char *version) {
  struct peer *peer = peer_of(connection);
  if (!peer || peer_is_failed(peer)) return NULL;  // without a peer the connection cannot be watched
  peer->head_open = false;
  peer->asked = true;
  struct request *request = request_begin(service, connection, peer);
  peer->turned_away = !request;
  if (!request) return NULL;
  request->line_fault = fault;
  request->takes_interim = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
  head_trace_begin(&request->head_trace, peer->target_end, version);
  return request;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **request_cls) {
  if (is_line_mark(*request_cls)) *request_cls = open_request(cls, connection, *request_cls, version);
  struct request *request = *request_cls;
  if (!request) return MHD_NO;
  bool chunked = request->body_bytes < 0;
  if (*size && chunked && request->head_end && !head_trace_chunk_is_sound(request->head_end, data))
    request->chunk_broken = true;
  return exchange_advance(request, method, path, data, size);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request_cls,
                         enum MHD_RequestTerminationCode code) {
  (void)cls, (void)connection;
  if (*request_cls && !is_line_mark(*request_cls)) exchange_end(*request_cls, code);
  *request_cls = NULL;
}

// The next MHD_get_connection_info may overwrite `*info`.
static int descriptor_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

static void *gnutls_session_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  return info ? info->tls_session : NULL;
}

// NULL if the connection cannot be watched or its TLS session cannot be opened. Its requests are then not answered.
static struct peer *open_peer(struct service *service, struct listener_group *group,
                              struct MHD_Connection *connection) {
  int fd = descriptor_of(connection);
  void *secure = gnutls_session_of(connection);
  struct tls_session *tls = secure ? tls_session_open(&service->access.tls, secure) : NULL;
  char address[ADDRESS_SIZE];
  if (fd < 0 || (secure && !tls)) {
    tls_session_refuse(tls);
    return NULL;
  }
  listener_peer(fd, address);
  bool proxy = proxies_have(&service->proxies, address);
  struct peer *peer = connection_opened(&service->watcher, group, fd, address, proxy, tls);
  if (!peer) tls_session_refuse(tls);
  return peer;
}

// Ends the connection's request too: if a chunk's first line is too long, version 1.0.1 does not call on_completed.
static void close_peer(struct service *service, struct peer *peer) {
  struct tls_session *tls = peer->tls;
  struct request *request = peer->request;
  if (request && request->connection) exchange_end(request, MHD_REQUEST_TERMINATED_WITH_ERROR);
  if (request) pool_release(&request->job.asked.pool);
  free(request);
  connection_closed(&service->watcher, peer);
  tls_session_close(tls);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **peer,
                          enum MHD_ConnectionNotificationCode code) {
  const struct listener_daemon *own = cls;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    *peer = open_peer(own->service, own->group, connection);
    listener_group_came(own->group);
  } else if (*peer) {
    close_peer(own->service, *peer);
    *peer = NULL;
  }
}

// The library itself answers what it cannot parse. Its log messages tell of these answers, which are counted here.
static void on_library_message(void *cls, const char *format, va_list arguments) {
  struct service *service = cls;
  char text[512];
  vsnprintf(text, sizeof text, format, arguments);
  text[strcspn(text, "\r\n")] = '\0';
  int status = library_own_status(text);
  if (status) {
    struct log_line line;
    counters_unparsed(&service->counters, status);
    if (service->options.access_log == ACCESS_LOG_NONE) return;
    log_begin(&line, LOG_INFO, "answered by libmicrohttpd");
    log_integer(&line, "status", status);
    log_end(&line);
    return;
  }
  log_event(library_tells_of_one_end(text) ? LOG_DEBUG : LOG_WARNING, "libmicrohttpd", "text", text);
}

// Ends the handshake of a connection that did not get the server's certificates (tls_session_refuse).
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *issuers, int issuer_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **certificates,
                          unsigned *certificate_count, gnutls_privkey_t *key) {
  (void)session, (void)issuers, (void)issuer_count, (void)algorithms, (void)algorithm_count, (void)certificates;
  *certificate_count = 0;
  *key = NULL;
  return -1;
}

static bool start_one(struct service *service, int index) {
  const struct options *options = &service->options;
  const struct listener *listener = &service->listeners.at[index];
  bool tls = listener->tcp && options->tls_cert[0];
  int64_t threads = listener->group->pages ? PAGES_THREADS : options->io_threads;
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME |
                   MHD_USE_ERROR_LOG;
  struct listener_daemon *own = &service->daemons[index];
  own->service = service;
  own->group = listener->group;
  own->daemon = MHD_start_daemon(
      flags | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request, service, MHD_OPTION_EXTERNAL_LOGGER,
      on_library_message, service,  // first, so that messages about the other options reach it
      MHD_OPTION_THREAD_POOL_SIZE, (unsigned)threads,
      // The watcher limits connections. The library must not reach its own limit: there version 0.9.75 takes a lock and
      // never releases it. The library divides the limit by its threads; none has more than peer_count connections.
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
      (unsigned)(threads * (int64_t)service->watcher.peer_count), MHD_OPTION_CONNECTION_TIMEOUT,
      (unsigned)options->idle_timeout_s, MHD_OPTION_URI_LOG_CALLBACK, on_uri, service, MHD_OPTION_NOTIFY_COMPLETED,
      on_completed, service, MHD_OPTION_NOTIFY_CONNECTION, on_connection, own, MHD_OPTION_STRICT_FOR_CLIENT,
      (int)service->library.strict,
      tls ? MHD_OPTION_HTTPS_PRIORITIES : MHD_OPTION_END,  // ends the list without TLS
      options->tls_priorities, MHD_OPTION_HTTPS_CERT_CALLBACK, no_certificate, MHD_OPTION_END);
  return own->daemon;
}

// The library owns the descriptor from now on, even if it cannot serve the connection.
static bool take_connection(void *cls, int index, int fd, const struct sockaddr *address, socklen_t length) {
  const struct service *service = cls;
  return MHD_add_connection(service->daemons[index].daemon, fd, address, length) == MHD_YES;
}

static struct listen_rules rules_of(struct service *service) {
  struct listen_rules rules = {.may_expose = access_may_expose(&service->access), .group = &service->watcher.group};
  (void)!mode_read(service->options.unix_mode, &rules.unix_mode);  // checked with the options
  return rules;
}

const char *http_library_version(void) { return MHD_get_version(); }

bool http_check(struct service *service, struct error *error) {
  struct listen_rules rules = rules_of(service);
  const char *pages = service->options.pages_listen;
  struct listeners checked = {0};
  return library_find(&service->library, MHD_get_version(), error) &&
         listeners_check(&checked, service->options.listen, &rules, error) &&
         (!pages[0] || listeners_check(&checked, pages, &rules, error));
}

static bool open_listeners(struct service *service, struct error *error) {
  const struct options *options = &service->options;
  struct listen_rules rules = rules_of(service);
  struct listeners *listeners = &service->listeners;
  if (!listeners_open(listeners, options->listen, &rules, error)) return false;
  rules.group = &service->watcher.page_group;
  if (options->pages_listen[0] && !listeners_open(listeners, options->pages_listen, &rules, error)) return false;
  struct text all = text_over(service->address, sizeof service->address);
  struct text pages = text_over(service->pages_address, sizeof service->pages_address);
  for (int i = 0; i < listeners->count; i++) {
    struct text *text = listeners->at[i].group->pages ? &pages : &all;
    text_printf(text, "%s%s", text->length ? "," : "", listeners->at[i].address);
  }
  return true;
}

bool http_start(struct service *service, struct error *error) {
  struct listeners *listeners = &service->listeners;
  if (!library_find(&service->library, MHD_get_version(), error) || !open_listeners(service, error)) return false;
  for (int i = 0; i < listeners->count; i++) {
    if (start_one(service, i)) continue;
    error_set(error, "libmicrohttpd did not start on %s", listeners->at[i].address);
    listeners_close(listeners);
    return false;
  }
  if (acceptor_start(&service->acceptor, listeners, take_connection, service, error)) return true;
  listeners_close(listeners);
  return false;
}

// Reads `coming` before `open`, since a connection moves from the first count to the second.
static bool has_connections(const struct watcher *watcher) {
  const struct listener_group *all = &watcher->group, *pages = &watcher->page_group;
  return atomic_load(&all->coming) || atomic_load(&pages->coming) || atomic_load(&all->open) ||
         atomic_load(&pages->open);
}

// Ends all connections and waits up to 1 s until they are closed: up to 1.0.0, the library crashes if it refuses a
// request by itself while it is being stopped.
static void send_all_away(struct watcher *watcher) {
  const struct timespec pause = {.tv_nsec = NS_PER_MS};
  connections_end_all(watcher);
  for (int waited = 0; has_connections(watcher) && waited < 1000; waited++) nanosleep(&pause, NULL);
}

void http_stop(struct service *service) {
  int count = service->listeners.count;
  acceptor_stop(&service->acceptor);
  listeners_close(&service->listeners);
  send_all_away(&service->watcher);
  for (int i = 0; i < count; i++) MHD_stop_daemon(service->daemons[i].daemon);
}

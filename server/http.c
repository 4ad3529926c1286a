// libmicrohttpd's side of the daemon; see http.h.
//
// An epoll thread pool with suspend and resume: a thread per connection loses wake-ups together with suspend, and poll
// collapses under idle clients. 256 KiB of memory a connection: with less, bodies of megabytes come several times slower.
// The daemon is never quiesced (the library can abort in it); a drain refuses new work instead.
#include "server/http.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "server/listener.h"
#include "server/log.h"
#include "server/server.h"

enum { CONNECTION_MEMORY = 256 * 1024 };

static void *on_uri(void *cls, const char *uri, struct MHD_Connection *connection) {
  (void)connection;
  return request_open(cls, uri);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **request_cls) {
  (void)cls, (void)version;
  struct request *request = *request_cls;
  if (!request) return MHD_NO;  // no memory for it
  if (!request->connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    request->connection = connection;
    request->peer = info ? info->socket_context : NULL;
    if (!request->peer) return MHD_NO;  // a connection that cannot be watched
  }
  return request_advance(request, method, path, data, size);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request_cls,
                         enum MHD_RequestTerminationCode code) {
  (void)cls;
  struct request *request = *request_cls;
  if (!request) return;
  if (!request->connection) request->connection = connection;  // it never came as far as its headers' end
  request_close(request, code);
  *request_cls = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **peer,
                          enum MHD_ConnectionNotificationCode code) {
  struct server *server = cls;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *peer = info ? watcher_opened(&server->watcher, info->connect_fd) : NULL;
  } else if (*peer) {
    watcher_closed(&server->watcher, *peer);
    *peer = NULL;
  }
}

static void on_library_message(void *cls, const char *format, va_list arguments) {
  (void)cls;
  char text[512];
  vsnprintf(text, sizeof text, format, arguments);
  text[strcspn(text, "\r\n")] = '\0';
  log_event(LOG_WARNING, "libmicrohttpd", "text", text);
}

bool http_start(struct server *server, char *error, size_t error_size) {
  const struct options *options = &server->options;
  int fd = listener_open(options->listen, server->address, sizeof server->address, error, error_size);
  if (fd < 0) return false;
  server->http = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, server,
      MHD_OPTION_EXTERNAL_LOGGER, on_library_message, server,  // first, so that it hears of the others
      MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)options->io_threads,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT,
      (unsigned)options->max_connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)options->idle_timeout_s,
      MHD_OPTION_URI_LOG_CALLBACK, on_uri, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
      MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
  if (server->http) return true;
  listener_close(options->listen, fd);
  snprintf(error, error_size, "libmicrohttpd did not start");
  return false;
}

void http_stop(struct server *server) {
  MHD_stop_daemon(server->http);  // closes the listening socket too
  server->http = NULL;
  listener_close(server->options.listen, -1);
}

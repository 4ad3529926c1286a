// Plays one request within the process; see rehearsal.h.
#include "tests/library/rehearsal.h"

#include <ctype.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/head_trace.h"

enum { ROUNDS = 100 };  // maximum rounds of the library's loop; a request takes a handful
static const char said[] = "heard";

struct stage {
  struct rehearsal *rehearsal;
  struct MHD_Connection *suspended;
  int suspensions;
  size_t expected, received;  // bytes of the body
  struct head_trace layout;
  const char *target_end, *head_end;
  bool idle_added, whole, ended;
};

static void note(struct stage *stage, char call) {
  char *calls = stage->rehearsal->calls;
  size_t length = strlen(calls);
  if (length + 1 < sizeof stage->rehearsal->calls) calls[length] = call;
}

// ---- the library's callbacks ----------------------------------------------------------------------------------------

static void *on_target(void *cls, const char *target, struct MHD_Connection *connection) {
  struct stage *stage = cls;
  (void)connection;
  note(stage, 't');
  stage->target_end = target + strlen(target);
  if (strchr(target, '?') && stage->rehearsal->library->cut_query) library_cut_query(target);
  return NULL;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                 const char *value, size_t value_size) {
  (void)kind;
  head_trace_header(cls, name, name_size, value, value_size);
  return MHD_YES;
}

static void look_at_head(struct stage *stage, struct MHD_Connection *connection, const char *method,
                         const char *version) {
  if (!stage->rehearsal->library->laid_out) return;
  stage->head_end = library_head_end(connection, method);
  head_trace_begin(&stage->layout, stage->target_end, version);
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_header, &stage->layout);
  stage->rehearsal->broken = !head_trace_end(&stage->layout, stage->head_end);
}

static void on_freed(void *cls) { note(cls, 'f'); }

static enum MHD_Result answer(struct stage *stage, struct MHD_Connection *connection) {
  note(stage, 'd');
  struct MHD_Response *response =
      MHD_create_response_from_buffer_with_free_callback_cls(sizeof said - 1, (void *)(uintptr_t)said, on_freed, stage);
  if (!response) return MHD_NO;
  enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result suspend(struct stage *stage, struct MHD_Connection *connection) {
  stage->suspended = connection;
  stage->suspensions++;
  MHD_suspend_connection(connection);
  return MHD_YES;
}

// With `held`, takes the steps of exchange_advance for a job: gate, body, whole body, job, answer; else for a page.
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **request_cls) {
  struct stage *stage = cls;
  struct rehearsal *rehearsal = stage->rehearsal;
  (void)path, (void)request_cls;
  if (*size) {
    note(stage, 'b');
    if (stage->head_end && !head_trace_chunk_is_sound(stage->head_end, data)) rehearsal->broken = true;
    stage->received += *size;
    *size = 0;
    return MHD_YES;
  }
  if (!rehearsal->reached) {
    note(stage, 'h');
    rehearsal->reached = true;
    look_at_head(stage, connection, method, version);
    return rehearsal->held ? suspend(stage, connection) : MHD_YES;
  }
  if (!rehearsal->held) return answer(stage, connection);
  if (stage->received < stage->expected) return MHD_YES;  // the call for the head is repeated
  if (!stage->whole) {
    note(stage, 'w');
    stage->whole = true;
    return MHD_YES;  // without an answer, so the library must call again
  }
  return stage->suspensions == 1 ? suspend(stage, connection) : answer(stage, connection);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request_cls,
                         enum MHD_RequestTerminationCode code) {
  (void)connection, (void)request_cls, (void)code;
  note(cls, 'c');
}

// Notes the end of the request's connection. The idle connection has no context, and its end is ignored.
static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
  struct stage *stage = cls;
  (void)connection;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) *context = stage->idle_added ? stage : NULL;
  if (code != MHD_CONNECTION_NOTIFY_CLOSED || !*context) return;
  note(stage, 'e');
  stage->ended = true;
}

static void on_message(void *cls, const char *format, va_list arguments) {
  (void)cls, (void)format, (void)arguments;  // refusals are expected
}

// ---- the client -----------------------------------------------------------------------------------------------------

static void receive(struct rehearsal *rehearsal, int client, size_t *length) {
  size_t room = sizeof rehearsal->answer - 1 - *length;
  ssize_t got = room ? recv(client, rehearsal->answer + *length, room, MSG_DONTWAIT) : 0;
  if (got > 0) *length += (size_t)got;
}

// Resumes the connection if it is suspended. Before the second resume, shuts the client's sending side, which the
// library must not take for a client that has left.
static void resume(struct stage *stage, int client) {
  struct MHD_Connection *connection = stage->suspended;
  if (!connection) return;
  stage->suspended = NULL;
  if (stage->suspensions == 2) (void)shutdown(client, SHUT_WR);
  MHD_resume_connection(connection);
}

static void play(struct stage *stage, struct MHD_Daemon *daemon, int client) {
  struct rehearsal *rehearsal = stage->rehearsal;
  size_t length = 0;
  if (send(client, rehearsal->request, rehearsal->length, MSG_NOSIGNAL) != (ssize_t)rehearsal->length) return;
  for (int round = 0; round < ROUNDS && !stage->ended; round++) {
    (void)MHD_run(daemon);
    resume(stage, client);
    receive(rehearsal, client, &length);
  }
  (void)shutdown(client, SHUT_RDWR);  // ends a kept connection
  for (int round = 0; round < ROUNDS && !stage->ended; round++) {
    (void)MHD_run(daemon);
    resume(stage, client);
  }
  static const char status_line[] = "HTTP/1.1 ";
  for (const char *at = rehearsal->answer; (at = strstr(at, status_line)); at += strlen(status_line))
    rehearsal->answers += isdigit((unsigned char)at[strlen(status_line)]) != 0;
}

// Makes a connection to the library. Returns the client's end, or -1.
static int connect_to(struct MHD_Daemon *daemon) {
  struct sockaddr address = {.sa_family = AF_UNIX};
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return -1;
  // The library closes its end in any case.
  if (MHD_add_connection(daemon, pair[0], &address, sizeof address.sa_family) == MHD_YES) return pair[1];
  close(pair[1]);
  return -1;
}

// Plays the request beside an older, idle connection: if there is one, the library reads from a resumed connection
// before it calls on_request.
static bool play_beside_another(struct stage *stage, struct MHD_Daemon *daemon) {
  int idle = connect_to(daemon);
  (void)MHD_run(daemon);
  stage->idle_added = true;
  int client = connect_to(daemon);
  bool connected = idle >= 0 && client >= 0;
  if (connected) play(stage, daemon, client);
  if (idle >= 0) close(idle);
  if (client >= 0) close(client);
  return connected;
}

bool rehearse(struct rehearsal *rehearsal) {
  const char *body = strstr(rehearsal->request, "\r\n\r\n");
  struct stage stage = {.rehearsal = rehearsal};
  if (body) stage.expected = rehearsal->length - (size_t)(body + 4 - rehearsal->request);
  struct MHD_Daemon *daemon = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
      on_request, &stage, MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_STRICT_FOR_CLIENT,
      (int)rehearsal->library->strict, MHD_OPTION_URI_LOG_CALLBACK, on_target, &stage, MHD_OPTION_NOTIFY_COMPLETED,
      on_completed, &stage, MHD_OPTION_NOTIFY_CONNECTION, on_connection, &stage, MHD_OPTION_END);
  if (!daemon) return false;
  bool played = play_beside_another(&stage, daemon);
  MHD_stop_daemon(daemon);
  return played;
}

// The library and its clients for one try; see stage.h.
#include "tests/library/stage.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200 };  // of the library's loop; more than any try takes
bool stage_strict;
static const char said[] = "heard";

// ---- time -----------------------------------------------------------------------------------------------------------

static atomic_int aged_s;

void stage_age(int seconds) { atomic_fetch_add(&aged_s, seconds); }

// Replaces libc's function, for the library too.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's names are reserved
int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  now->tv_sec += atomic_load(&aged_s);
  return result;
}

bool await(const atomic_int *value, int least) {
  const struct timespec pause = {.tv_nsec = 1000000};
  for (int i = 0; i < 5000 && atomic_load(value) < least; i++) nanosleep(&pause, NULL);
  return atomic_load(value) >= least;
}

// ---- the library's side ---------------------------------------------------------------------------------------------

static void note(struct stage *stage, char letter) {
  int at = atomic_fetch_add(&stage->letters, 1);
  if (at < (int)sizeof stage->calls - 1) stage->calls[at] = letter;
}

bool stage_called(const struct stage *stage, char letter) { return strchr(stage->calls, letter); }

static ssize_t read_answer(void *cls, uint64_t position, char *block, size_t most) {
  (void)cls;
  memcpy(block, said + position, most);
  return (ssize_t)most;
}

static void on_freed(void *cls) { note(cls, 'f'); }

enum MHD_Result stage_answer(struct stage *stage, struct MHD_Connection *connection) {
  struct MHD_Response *response =
      MHD_create_response_from_callback(sizeof said - 1, sizeof said, read_answer, stage, on_freed);
  enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
  note(stage, result == MHD_YES ? 'd' : 'D');
  MHD_destroy_response(response);
  return result;
}

enum MHD_Result stage_suspend(struct stage *stage, struct MHD_Connection *connection) {
  stage->suspended = connection;
  MHD_suspend_connection(connection);
  atomic_fetch_add(&stage->suspensions, 1);
  return MHD_YES;
}

enum MHD_Result handle_whole(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  char last = stage->calls[atomic_load(&stage->letters) - 1];
  if (*size) *size = 0;
  return last == 'w' ? stage_answer(stage, connection) : MHD_YES;
}

enum MHD_Result handle_at_once(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  *size = 0;
  return stage_answer(stage, connection);
}

static enum MHD_Result on_value(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                const char *value, size_t value_size) {
  struct stage *stage = cls;
  (void)name_size;
  if (kind == MHD_HEADER_KIND && name[0] != 'X') return MHD_YES;
  snprintf(stage->name, sizeof stage->name, "%s", name);
  snprintf(stage->value, sizeof stage->value, "%s", value ? value : "");
  stage->value_missing = !value;
  stage->value_size = value_size;
  return MHD_YES;
}

static char head_seen;

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **request) {
  struct stage *stage = cls;
  (void)version, (void)data;
  char letter = *request == &head_seen ? 'w' : 'h';
  if (*size) letter = 'b';
  note(stage, letter);
  if (stage->threads) return stage->handle(stage, connection, size);  // the rest is for one thread
  if (stage->body == 0) stage->first_part = *size;
  stage->body += *size;
  if (*request != &head_seen) {
    snprintf(stage->method, sizeof stage->method, "%s", method);
    snprintf(stage->path, sizeof stage->path, "%s", path);
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_value, stage);
    MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, on_value, stage);
  }
  *request = &head_seen;
  return stage->handle(stage, connection, size);
}

static void *on_target(void *cls, const char *target, struct MHD_Connection *connection) {
  struct stage *stage = cls;
  (void)connection;
  note(stage, 't');
  stage->target_missing = !target;
  snprintf(stage->target, sizeof stage->target, "%s", target ? target : "");
  if (stage->on_target) stage->on_target(stage, target);
  return NULL;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code) {
  struct stage *stage = cls;
  (void)connection;
  *request = NULL;
  stage->code = code;
  note(stage, 'c');
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code) {
  struct stage *stage = cls;
  (void)context;
  note(stage, code == MHD_CONNECTION_NOTIFY_STARTED ? 's' : 'e');
  if (code == MHD_CONNECTION_NOTIFY_CLOSED && stage->on_closed) stage->on_closed(stage, connection);
}

static void on_message(void *cls, const char *format, va_list arguments) { (void)cls, (void)format, (void)arguments; }

// ---- the client's side ----------------------------------------------------------------------------------------------

static void need(bool good, const char *what) {
  if (good) return;
  perror(what);
  exit(OUTCOME_UNTRIED);
}

int stage_connect(const struct stage *stage) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  need(fd >= 0 && connect(fd, (const struct sockaddr *)&stage->address, stage->address_size) == 0, "connect");
  return fd;
}

static void count_answers(struct stage *stage) {
  static const char start[] = "HTTP/1.1 ";
  stage->answers = 0;
  for (const char *at = stage->answer; (at = strstr(at, start)); at += strlen(start))
    stage->answers += isdigit((unsigned char)at[strlen(start)]) != 0;
}

int stage_status(const struct stage *stage) {
  return stage->answers ? (int)strtol(strstr(stage->answer, "HTTP/1.1 ") + 9, NULL, 10) : 0;
}

void stage_send(struct stage *stage, const char *data, size_t size) {
  if (send(stage->client, data, size, MSG_NOSIGNAL) != (ssize_t)size) stage->reset = true;
}

void stage_receive(struct stage *stage) {
  ssize_t got;
  do {
    size_t room = sizeof stage->answer - 1 - stage->answered;
    got = recv(stage->client, stage->answer + stage->answered, room, MSG_DONTWAIT);
    if (got > 0) stage->answered += (size_t)got;
    if (got == 0 && room) stage->ended = true;
    if (got < 0 && errno != EAGAIN) stage->reset = true;
  } while (got > 0);
  count_answers(stage);
}

void stage_run(struct stage *stage) {
  for (int i = 0; i < ROUNDS; i++) (void)MHD_run(stage->daemon);
  if (stage->client >= 0) stage_receive(stage);
}

void stage_leave(struct stage *stage) {
  close(stage->client);
  stage->client = -1;
  stage_run(stage);
}

void stage_resume(struct stage *stage) {
  struct MHD_Connection *connection = stage->suspended;
  stage->suspended = NULL;
  if (connection) MHD_resume_connection(connection);
  stage_run(stage);
}

void stage_open(struct stage *stage) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct sockaddr_un any = {.sun_family = AF_UNIX};
  stage->address_size = sizeof stage->address;
  need(fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof any.sun_family) == 0 && listen(fd, 64) == 0 &&
           getsockname(fd, (struct sockaddr *)&stage->address, &stage->address_size) == 0,
       "a listening socket");
  if (!stage->handle) stage->handle = handle_whole;
  unsigned flags = stage->threads ? stage->threads : MHD_USE_EPOLL;
  stage->daemon =
      MHD_start_daemon(flags | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, stage,
                       MHD_OPTION_EXTERNAL_LOGGER, on_message, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
                       MHD_OPTION_STRICT_FOR_CLIENT, (int)stage_strict, MHD_OPTION_URI_LOG_CALLBACK, on_target, stage,
                       MHD_OPTION_NOTIFY_COMPLETED, on_completed, stage, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
                       stage, MHD_OPTION_CONNECTION_TIMEOUT, stage->timeout_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                       stage->memory ? stage->memory : (size_t)32 * 1024, MHD_OPTION_CONNECTION_LIMIT,
                       stage->most ? stage->most : 64, MHD_OPTION_THREAD_POOL_SIZE, stage->pool, MHD_OPTION_END);
  need(stage->daemon, "MHD_start_daemon");
  stage->client = stage_connect(stage);
  if (!stage->threads) stage_run(stage);
}

// Fuzzes the whole daemon: libmicrohttpd, all of server/ and the CPU backend, started once in this process on a Unix
// socket. Each input is what one client does on one connection. After it the answers must be sound HTTP, and nothing
// may be left: no connection, no request, no buffer in use, nothing held by a client.
//
// The input is what is sent, with three words for what a client may do besides: <cut> waits until the server has taken
// what came before, <fin> finishes sending and <rst> goes away without reading. Every client finishes sending at the
// end.
//
// This thread is the client; the daemon's threads are its own.
#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/daemon/drain.h"
#include "server/daemon/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_REQUESTS = 1 << 20, MOST_ANSWERS = 16 << 20 };
static const int64_t patience_ns = 20 * NS_PER_S;

// ---- the daemon -----------------------------------------------------------------------------------------------------

static struct server server;
static char directory[] = "/tmp/voxeld-fuzz-XXXXXX";

static void on_gpu_lost(void *cls) { (void)cls; }

// The leak check of the process comes after this.
static void stop_daemon(void) {
  atomic_store(&server.phase, PHASE_DRAINING);
  assert(drain(&server));
  server_stop(&server);
  log_stop();
  assert(rmdir(directory) == 0);
}

static void start_daemon(void) {
  char error[512], where[sizeof directory + 16], *none[] = {NULL};
  assert(mkdtemp(directory));
  snprintf(where, sizeof where, "unix:%s/socket", directory);
  char *arguments[] = {"voxeld",  "--listen",
                       where,     "--backend",
                       "cpu",     "--workers",
                       "1",       "--sampling-workers",
                       "1",       "--log-level",
                       "error",   "--max-body-bytes",
                       "65536",   "--max-response-bytes",
                       "1048576", "--memory-budget-bytes",
                       "4194304", "--max-sampling-work",
                       "1000000", NULL};
  enum options_action action;
  int count = (int)(sizeof arguments / sizeof *arguments) - 1;
  assert(options_read(count, arguments, none, &server.options, &action, error, sizeof error));
  log_configure((enum log_level)server.options.log_level, (enum log_format)server.options.log_format);
  signal(SIGPIPE, SIG_IGN);
  server.started_ns = clock_ns();
  if (!server_prepare(&server, error, sizeof error) || !log_start(error, sizeof error) ||
      !server_start(&server, on_gpu_lost, NULL, error, sizeof error)) {
    fprintf(stderr, "%s\n", error);
    abort();
  }
  atexit(stop_daemon);
}

static bool is_quiet(void) {
  const struct request_pool *requests = &server.http.service.requests;
  struct clients_use clients = clients_use(&server.clients);
  int64_t held = clients.present;
  for (int share = 0; share < SHARES; share++) held += clients.held[share];
  return held == 0 && atomic_load(&requests->open) == 0 && atomic_load(&requests->active) == 0 &&
         atomic_load(&server.watcher.connections) == 0 && buffers_use(&server.jobs.buffers).in_use == 0;
}

static void await_quiet(void) {
  for (int64_t until_ns = clock_ns() + patience_ns; !is_quiet(); sched_yield()) assert(clock_ns() < until_ns);
}

// ---- the client -----------------------------------------------------------------------------------------------------

struct caller {
  int fd;
  bool ended;  // the server has closed
  size_t sent, received;
};
static char requests[MOST_REQUESTS], answers[MOST_ANSWERS];  // what the client has sent and received

static void open_caller(struct caller *caller) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", directory);
  *caller = (struct caller){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  assert(caller->fd >= 0 && connect(caller->fd, (struct sockaddr *)&name, sizeof name) == 0);
}

// Takes what the server has sent.
static void take(struct caller *caller, int flags) {
  while (!caller->ended) {
    assert(caller->received < MOST_ANSWERS);
    ssize_t got = recv(caller->fd, answers + caller->received, MOST_ANSWERS - caller->received, flags);
    if (got < 0 && errno == EAGAIN) return;
    caller->ended = got <= 0;
    caller->received += got > 0 ? (size_t)got : 0;
  }
}

static void send_piece(struct caller *caller, const char *bytes, size_t size) {
  int64_t until_ns = clock_ns() + patience_ns;
  while (size && !caller->ended) {
    ssize_t sent = send(caller->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return;  // the server has closed; its last answer may still be there
    if (sent > 0) {
      memcpy(requests + caller->sent, bytes, (size_t)sent);
      caller->sent += (size_t)sent;
      bytes += sent;
      size -= (size_t)sent;
    }
    take(caller, MSG_DONTWAIT);
    assert(clock_ns() < until_ns);
  }
}

// Until the server has taken all of it, or has closed. The library misses an end that comes together with data until
// the watcher tells it, which takes time that a fuzzer has not.
static void await_taken(struct caller *caller) {
  int left = 1;
  for (int64_t until_ns = clock_ns() + patience_ns; left && !caller->ended; sched_yield()) {
    take(caller, MSG_DONTWAIT);
    assert(ioctl(caller->fd, SIOCOUTQ, &left) == 0 && clock_ns() < until_ns);
  }
}

// ---- its answers ----------------------------------------------------------------------------------------------------

static const char *line_end(const char *cursor, const char *end) {
  const char *stop = memmem(cursor, (size_t)(end - cursor), "\r\n", 2);
  assert(stop);
  return stop;
}

struct head {
  int status;
  long long length;  // Content-Length; -1 without
  bool own;          // the daemon's, not the library's own
};

// Reads one head; returns what is behind it.
static const char *read_head(const char *cursor, const char *end, struct head *head) {
  static const char version[] = "HTTP/1.1 ", length[] = "Content-Length: ", id[] = "X-Request-Id: ";
  const char *stop = line_end(cursor, end);
  assert((size_t)(stop - cursor) > strlen(version) + 4 && memcmp(cursor, version, strlen(version)) == 0);
  *head = (struct head){.status = atoi(cursor + strlen(version)), .length = -1};
  assert(head->status >= 100 && head->status <= 505 && cursor[strlen(version) + 3] == ' ');
  for (cursor = stop + 2; (stop = line_end(cursor, end)) != cursor; cursor = stop + 2) {
    assert(memchr(cursor, ':', (size_t)(stop - cursor)));
    if (strncasecmp(cursor, length, strlen(length)) == 0) {
      assert(head->length < 0);
      head->length = atoll(cursor + strlen(length));
    }
    head->own = head->own || strncasecmp(cursor, id, strlen(id)) == 0;
  }
  return stop + 2;
}

// One answer after the other, each whole. A client that asks HEAD gets a length without a body. What the library
// refuses by itself ends the connection; it may tell the head of that twice, so behind it nothing is looked at.
static void check_answers(const struct caller *caller) {
  bool heads_asked = memmem(requests, caller->sent, "HEAD ", 5);
  const char *cursor = answers, *end = answers + caller->received;
  while (cursor < end) {
    struct head head;
    cursor = read_head(cursor, end, &head);
    if (head.status == 100) continue;
    assert(head.length >= 0);
    if (!head.own) {
      assert(head.status >= 400);
      return;
    }
    if (heads_asked && (cursor == end || strncmp(cursor, "HTTP/1.1 ", 9) == 0)) continue;
    assert(head.length <= end - cursor);
    cursor += head.length;
  }
}

// ---- one input ------------------------------------------------------------------------------------------------------

// The next word in the input, and where; its end where there is none.
static const char *find_word(const char *cursor, const char *end, const char **word) {
  static const char *const words[] = {"<cut>", "<fin>", "<rst>"};
  const char *first = end;
  *word = NULL;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    const char *found = memmem(cursor, (size_t)(end - cursor), words[i], strlen(words[i]));
    if (found && found < first) first = found, *word = words[i];
  }
  return first;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!server.http.daemon[0]) start_daemon();
  if (size > MOST_REQUESTS) return -1;
  const char *cursor = (const char *)data, *end = cursor + size, *word = NULL;
  struct caller caller;
  bool gone = false;
  open_caller(&caller);
  do {
    const char *stop = find_word(cursor, end, &word);
    send_piece(&caller, cursor, (size_t)(stop - cursor));
    gone = word && strcmp(word, "<rst>") == 0;
    if (!gone) await_taken(&caller);
    cursor = stop + (word ? strlen(word) : 0);
  } while (word && strcmp(word, "<cut>") == 0);
  if (!gone) {
    shutdown(caller.fd, SHUT_WR);
    struct timeval patience = {.tv_sec = patience_ns / NS_PER_S};
    assert(setsockopt(caller.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    take(&caller, 0);
    assert(caller.ended);
    check_answers(&caller);
  }
  close(caller.fd);
  await_quiet();
  return 0;
}

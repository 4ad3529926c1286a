// load-client: one client of the daemon, at one address, that posts the same body again and again on some connections.
//
// Unlike wrk, it chooses its address and distinguishes statuses, for tests/measure/load/fairness. It ignores
// Retry-After unless --polite is given. Prints one line of JSON; its latencies are of answers with 200. One thread,
// with epoll. The bodies of answers are not copied, so that the client costs little.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 4096, STATUSES = 600, MOST_CONNECTIONS = 4096 };

struct connection {
  int fd;
  size_t sent;              // bytes of the request
  char head[HEAD_MAX + 1];  // of the answer, as far as received
  size_t head_length;
  int64_t body_left;  // of the answer; -1: the head is incomplete
  int status;
  bool closes;                   // after this answer
  int64_t began_ns, waiting_ns;  // start of the request; time of the next attempt, 0: not waiting
};

static struct {
  struct sockaddr_in from, to;
  const char *path, *body_path;
  unsigned long connections;
  double seconds;
  bool polite;
  char *request;
  size_t request_length;
  int epoll_fd;
  uint64_t statuses[STATUSES], broken;  // broken: connections that ended without an answer
  uint32_t *latency_us;
  size_t latencies, latency_room;
} client = {.path = "/v1/voxelize?preset=kitti_second", .connections = 1, .seconds = 2};

static void *die(const char *what) {
  fprintf(stderr, "load-client: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void begin(struct connection *c) {
  c->sent = c->head_length = 0;
  c->body_left = -1;
  c->began_ns = now_ns();
}

// Connects with a blocking call, which waits if the service's backlog is full.
static void open_connection(struct connection *c) {
  int one = 1;
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (c->fd < 0 || bind(c->fd, (struct sockaddr *)&client.from, sizeof client.from) != 0) die("bind");
  if (connect(c->fd, (struct sockaddr *)&client.to, sizeof client.to) != 0) die("connect");
  if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 || fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0)
    die("socket");
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
  if (epoll_ctl(client.epoll_fd, EPOLL_CTL_ADD, c->fd, &event) != 0) die("epoll_ctl");
  begin(c);
}

static void reopen(struct connection *c) {
  close(c->fd);
  open_connection(c);
}

static void keep_latency(int64_t ns) {
  if (client.latencies == client.latency_room) {
    client.latency_room = client.latency_room ? 2 * client.latency_room : 4096;
    client.latency_us = realloc(client.latency_us, client.latency_room * sizeof *client.latency_us);
    if (!client.latency_us) die("realloc");
  }
  client.latency_us[client.latencies++] = (uint32_t)(ns / 1000);
}

// The value of a header of the answer, or NULL.
static const char *header(const struct connection *c, const char *name) {
  const char *found = strcasestr(c->head, name);
  return found ? found + strlen(name) : NULL;
}

static void answered(struct connection *c) {
  client.statuses[c->status]++;
  if (c->status == 200) keep_latency(now_ns() - c->began_ns);
  const char *wait = client.polite ? header(c, "\nRetry-After:") : NULL;
  c->waiting_ns = wait ? now_ns() + strtoll(wait, NULL, 10) * 1000000000 : 0;
  // A refusal that arrives before the whole body is sent leaves the connection in the middle of a request.
  if (c->closes || c->sent < client.request_length)
    reopen(c);
  else
    begin(c);
}

// Returns false if the answer is not HTTP. One request is in progress, so all received bytes belong to its answer.
static bool parse_head(struct connection *c) {
  c->head[c->head_length] = '\0';
  const char *end = strstr(c->head, "\r\n\r\n");
  if (!end) return c->head_length < HEAD_MAX;
  const char *length = header(c, "\nContent-Length:"), *connection = header(c, "\nConnection:");
  c->status = strncmp(c->head, "HTTP/1.1 ", 9) == 0 ? (int)strtol(c->head + 9, NULL, 10) : 0;
  c->body_left = (length ? strtoll(length, NULL, 10) : 0) - (c->head + c->head_length - (end + 4));
  c->closes = connection && strncasecmp(connection + strspn(connection, " "), "close", 5) == 0;
  return c->status > 0 && c->status < STATUSES && c->body_left >= 0;
}

static bool write_request(struct connection *c) {
  if (c->sent == client.request_length) return false;
  ssize_t wrote = send(c->fd, client.request + c->sent, client.request_length - c->sent, MSG_NOSIGNAL);
  if (wrote > 0) c->sent += (size_t)wrote;
  return wrote > 0;
}

// Returns what recv returns.
static ssize_t read_answer(struct connection *c) {
  ssize_t got;
  if (c->body_left < 0) {
    got = recv(c->fd, c->head + c->head_length, HEAD_MAX - c->head_length, 0);
    if (got > 0) c->head_length += (size_t)got;
    if (got > 0 && !parse_head(c)) die("the answer is not HTTP");
  } else {
    got = recv(c->fd, NULL, (size_t)c->body_left, MSG_TRUNC);
    if (got > 0) c->body_left -= got;
  }
  return got;
}

// Writes and reads as much as possible. If the connection ends without an answer, opens a new one.
static void advance(struct connection *c) {
  while (!c->waiting_ns) {
    bool wrote = write_request(c);
    ssize_t got = read_answer(c);
    if (got > 0 && c->body_left == 0) {
      answered(c);
    } else if (got == 0 || (got < 0 && errno != EAGAIN)) {
      client.broken++;
      reopen(c);
    } else if (got < 0 && !wrote) {
      return;
    }
  }
}

static void make_request(void) {
  struct stat file;
  char head[1024];
  FILE *body = fopen(client.body_path, "rb");
  if (!body || fstat(fileno(body), &file) != 0) die(client.body_path);
  size_t size = (size_t)file.st_size;
  int length = snprintf(head, sizeof head,
                        "POST %s HTTP/1.1\r\nHost: voxeld\r\nContent-Type: application/octet-stream\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        client.path, size);
  client.request_length = (size_t)length + size;
  client.request = malloc(client.request_length);
  if (length < 0 || (size_t)length >= sizeof head || !client.request) die("the request");
  memcpy(client.request, head, (size_t)length);
  if (fread(client.request + length, 1, size, body) != size) die(client.body_path);
  fclose(body);
}

static void resume_waiting(struct connection *connections, int64_t now) {
  for (unsigned long i = 0; i < client.connections; i++) {
    struct connection *c = &connections[i];
    if (!c->waiting_ns || c->waiting_ns > now) continue;
    c->waiting_ns = 0;
    c->began_ns = now;
    advance(c);
  }
}

static void run(void) {
  enum { EVENTS = 64, TICK_MS = 10 };
  struct epoll_event events[EVENTS];
  struct connection *connections = calloc(client.connections, sizeof *connections);
  client.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (!connections || client.epoll_fd < 0) die("start");
  for (unsigned long i = 0; i < client.connections; i++) open_connection(&connections[i]);
  for (int64_t end = now_ns() + (int64_t)(client.seconds * 1e9); now_ns() < end;) {
    int count = epoll_wait(client.epoll_fd, events, EVENTS, TICK_MS);
    for (int i = 0; i < count; i++) advance(events[i].data.ptr);
    if (client.polite) resume_waiting(connections, now_ns());
  }
  free(connections);
}

static int by_size(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static double percentile_ms(double percent) {
  if (!client.latencies) return 0;
  return client.latency_us[(size_t)((double)(client.latencies - 1) * percent / 100)] / 1e3;
}

static void report(double seconds) {
  const char *comma = "";
  if (client.latencies) qsort(client.latency_us, client.latencies, sizeof *client.latency_us, by_size);
  printf("{\"rps\":%.3f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"broken\":%llu,\"statuses\":{",
         (double)client.statuses[200] / seconds, percentile_ms(50), percentile_ms(99),
         (unsigned long long)client.broken);
  for (int status = 0; status < STATUSES; status++) {
    if (!client.statuses[status]) continue;
    printf("%s\"%d\":%llu", comma, status, (unsigned long long)client.statuses[status]);
    comma = ",";
  }
  puts("}}");
}

static void read_options(int argc, char **argv) {
  enum { FROM = 1, PORT, PATH, BODY, CONNECTIONS, SECONDS, POLITE };
  static const struct option table[] = {
      {"from", required_argument, NULL, FROM},
      {"port", required_argument, NULL, PORT},
      {"path", required_argument, NULL, PATH},
      {"body", required_argument, NULL, BODY},
      {"connections", required_argument, NULL, CONNECTIONS},
      {"seconds", required_argument, NULL, SECONDS},
      {"polite", no_argument, NULL, POLITE},
      {NULL, 0, NULL, 0},
  };
  client.from = client.to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  bool good = true;
  for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
    switch (option) {
      case FROM: good = good && inet_pton(AF_INET, optarg, &client.from.sin_addr) == 1; break;
      case PORT: client.to.sin_port = htons((uint16_t)strtoul(optarg, NULL, 10)); break;
      case PATH: client.path = optarg; break;
      case BODY: client.body_path = optarg; break;
      case CONNECTIONS: client.connections = strtoul(optarg, NULL, 10); break;
      case SECONDS: client.seconds = strtod(optarg, NULL); break;
      case POLITE: client.polite = true; break;
      default: good = false;
    }
  }
  if (good && client.to.sin_port && client.body_path && client.connections && client.connections <= MOST_CONNECTIONS)
    return;
  fputs("usage: load-client --port N --body FILE [--path PATH] [--from ADDRESS] [--connections N] [--seconds S] "
        "[--polite]\n",
        stderr);
  exit(2);
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  make_request();
  int64_t began = now_ns();
  run();
  report((double)(now_ns() - began) / 1e9);
  return EXIT_SUCCESS;
}

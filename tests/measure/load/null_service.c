// null-service: the baseline for the daemon.
//
// An HTTP service on libmicrohttpd that computes nothing. It reads a POST body into a reused buffer, passes the request
// to a worker thread and back, and answers a fixed number of bytes. It is set up like the daemon (epoll threads,
// suspend and resume, 256 KiB of memory per connection). So the ratio of both request rates, with the same client,
// shows the cost of the daemon's own work.
//
// Threads: libmicrohttpd's I/O threads run on_request and on_completed. A worker takes a request from the queue and
// resumes its connection; then the request belongs to its I/O thread again. One mutex protects the queue and the free
// buffers. A signal ends the service at once.
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  CONNECTION_MEMORY = 256 * 1024,  // bytes; half of it is the read buffer
  CONNECTION_TIMEOUT = 30,         // seconds
  CONNECTION_LIMIT = 4096,
  LISTEN_BACKLOG = 1024,
};

// Room for the largest body. Its pages take memory once a body has reached them. A request takes the buffer that was
// freed last.
struct buffer {
  struct buffer *next;
  char *bytes;
};

struct request {
  struct request *next;  // in the queue
  struct MHD_Connection *connection;
  struct buffer *buffer;  // NULL until the first byte
  size_t length;
  bool too_large, done;
};

static struct {
  size_t max_body;
  struct MHD_Response *reply, *refusal;
  pthread_mutex_t lock;
  pthread_cond_t queued;
  struct request *first, *last;  // the queue
  struct buffer *free_buffers;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .queued = PTHREAD_COND_INITIALIZER};

static void *die(const char *what) {
  fprintf(stderr, "null-service: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

static struct buffer *take_buffer(void) {
  pthread_mutex_lock(&service.lock);
  struct buffer *buffer = service.free_buffers;
  if (buffer) service.free_buffers = buffer->next;
  pthread_mutex_unlock(&service.lock);
  if (buffer) return buffer;
  buffer = malloc(sizeof *buffer);
  if (!buffer) die("malloc");
  buffer->bytes =
      mmap(NULL, service.max_body, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (buffer->bytes == MAP_FAILED) die("mmap");
  return buffer;
}

static void give_buffer(struct buffer *buffer) {
  pthread_mutex_lock(&service.lock);
  buffer->next = service.free_buffers;
  service.free_buffers = buffer;
  pthread_mutex_unlock(&service.lock);
}

static void receive(struct request *request, const char *bytes, size_t size) {
  if (!request->buffer) request->buffer = take_buffer();
  if (size > service.max_body - request->length) request->too_large = true;
  if (request->too_large) return;
  memcpy(request->buffer->bytes + request->length, bytes, size);
  request->length += size;
}

// Suspends first, because a worker may resume the connection before this returns.
static void enqueue(struct request *request) {
  MHD_suspend_connection(request->connection);
  pthread_mutex_lock(&service.lock);
  if (service.last)
    service.last->next = request;
  else
    service.first = request;
  service.last = request;
  pthread_cond_signal(&service.queued);
  pthread_mutex_unlock(&service.lock);
}

static void *work(void *unused) {
  for (;;) {
    pthread_mutex_lock(&service.lock);
    while (!service.first) pthread_cond_wait(&service.queued, &service.lock);
    struct request *request = service.first;
    service.first = request->next;
    if (!service.first) service.last = NULL;
    pthread_mutex_unlock(&service.lock);
    request->done = true;
    MHD_resume_connection(request->connection);
  }
  return unused;
}

// Called for the headers, for each piece of the body, at its end, and again after a worker has resumed the connection.
static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *bytes, size_t *size, void **context) {
  (void)cls, (void)url, (void)method, (void)version;
  struct request *request = *context;
  if (!request) {
    *context = request = calloc(1, sizeof *request);
    if (request) request->connection = connection;
    return request ? MHD_YES : MHD_NO;
  }
  if (*size > 0) {
    receive(request, bytes, *size);
    *size = 0;
    return MHD_YES;
  }
  if (!request->done) {
    enqueue(request);
    return MHD_YES;
  }
  if (request->too_large) return MHD_queue_response(connection, 413, service.refusal);
  return MHD_queue_response(connection, MHD_HTTP_OK, service.reply);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code) {
  (void)cls, (void)connection, (void)code;
  struct request *request = *context;
  if (!request) return;
  if (request->buffer) give_buffer(request->buffer);
  free(request);
  *context = NULL;
}

static int listen_on_loopback(uint16_t port, uint16_t *actual) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) die("socket");
  if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, LISTEN_BACKLOG) != 0) die("listen");
  if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) die("getsockname");
  *actual = ntohs(address.sin_port);
  return fd;
}

static void make_replies(size_t reply_bytes) {
  static char refusal[] = "too large\n";
  char *bytes = malloc(reply_bytes + 1);
  if (!bytes) die("malloc");
  memset(bytes, 7, reply_bytes + 1);  // touches every page, so that no reply faults
  service.reply = MHD_create_response_from_buffer(reply_bytes, bytes, MHD_RESPMEM_PERSISTENT);
  service.refusal = MHD_create_response_from_buffer(sizeof refusal - 1, refusal, MHD_RESPMEM_PERSISTENT);
  if (!service.reply || !service.refusal ||
      MHD_add_response_header(service.reply, MHD_HTTP_HEADER_CONTENT_TYPE, "application/octet-stream") != MHD_YES)
    die("response");
}

static void start(int fd, unsigned threads, unsigned workers) {
  for (unsigned i = 0; i < workers; i++) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, work, NULL);
    if (errno) die("pthread_create");
  }
  // The library warns of a pool of one. Without a pool it has one thread.
  struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL}, {MHD_OPTION_END, 0, NULL}};
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                       on_request, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                       (size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTION_LIMIT,
                       MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_TIMEOUT, MHD_OPTION_NOTIFY_COMPLETED,
                       on_completed, NULL, MHD_OPTION_ARRAY, threads > 1 ? pool : pool + 1, MHD_OPTION_END);
  if (!daemon) die("libmicrohttpd");
}

static unsigned long number(const char *option, const char *text, unsigned long high) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 10);
  if (!errno && end != text && !*end && *text != '-' && value <= high) return value;
  fprintf(stderr, "null-service: --%s is '%s', but must be an integer from 0 to %lu\n", option, text, high);
  exit(2);
}

int main(int argc, char **argv) {
  enum { PORT, THREADS, WORKERS, REPLY_BYTES, MAX_BODY_BYTES, NUM_OPTIONS };
  unsigned long value[NUM_OPTIONS] = {0, 2, 2, 0, 256UL << 20};
  static const unsigned long high[NUM_OPTIONS] = {65535, 256, 256, 1UL << 32, 1UL << 40};
  static const struct option table[] = {
      {"port", required_argument, NULL, PORT},
      {"threads", required_argument, NULL, THREADS},
      {"workers", required_argument, NULL, WORKERS},
      {"reply-bytes", required_argument, NULL, REPLY_BYTES},
      {"max-body-bytes", required_argument, NULL, MAX_BODY_BYTES},
      {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
    if (option == '?') {
      fputs("usage: null-service [--port N] [--threads N] [--workers N] [--reply-bytes N] [--max-body-bytes N]\n",
            stderr);
      return 2;
    }
    value[option] = number(table[option].name, optarg, high[option]);
  }
  uint16_t port;
  int fd = listen_on_loopback((uint16_t)value[PORT], &port);
  service.max_body = value[MAX_BODY_BYTES];
  make_replies(value[REPLY_BYTES]);
  start(fd, (unsigned)value[THREADS], (unsigned)(value[WORKERS] ? value[WORKERS] : 1));
  printf("listening %u\n", port);
  if (fflush(stdout) != 0) die("standard output");
  for (;;) pause();
}

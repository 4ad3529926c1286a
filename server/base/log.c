// See log.h.
#include "server/base/log.h"
#include "server/base/lock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/base/json_write.h"
#include "server/base/base.h"

enum { RING_BYTES = 1 << 20, PATIENCE_MS = 100 };
static const int64_t flush_ns = NS_PER_S;  // how long threads still wait for the reader of stderr after log_stop begins

static enum log_level least_level = LOG_INFO;
static enum log_format line_format = LOG_LOGFMT;

void log_configure(enum log_level least, enum log_format format) {
  least_level = least;
  line_format = format;
}

// ---- writing --------------------------------------------------------------------------------------------------------

static atomic_llong patience_ends_ns = INT64_MAX;  // after this time no thread waits for the reader

// Waits for the reader of stderr. True: a write of PIPE_BUF bytes would not block, or would fail.
static bool await_room(void) {
  struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
  for (;;) {
    bool late = clock_ns() > atomic_load(&patience_ends_ns);
    if (poll(&out, 1, late ? 0 : PATIENCE_MS) > 0) return true;
    if (late) return false;
  }
}

// Writes up to PIPE_BUF bytes, which a pipe does not mix with lines of other processes.
static bool write_out(const char *bytes, size_t length) {
  while (length > 0) {
    if (!await_room()) return false;
    ssize_t written = write(STDERR_FILENO, bytes, length);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written < 0) continue;
    bytes += written;
    length -= (size_t)written;
  }
  return true;
}

// ---- the ring -------------------------------------------------------------------------------------------------------

static struct {
  struct lock lock;
  pthread_cond_t more;
  pthread_t thread;
  bool running;        // lines go into the ring
  bool stopping;       // the thread ends once the ring is empty
  size_t first, used;  // `used` bytes from bytes[first] on, wrapping at the end
  uint64_t untold;     // lines dropped and not yet reported by a line
  atomic_uint_fast64_t dropped;
  char bytes[RING_BYTES];
} ring = {.lock = LOCK_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

uint64_t log_lines_dropped(void) { return atomic_load_explicit(&ring.dropped, memory_order_relaxed); }

static void drop(uint64_t lines) {
  ring.untold += lines;
  atomic_fetch_add_explicit(&ring.dropped, lines, memory_order_relaxed);
}

static void push(const char *line, size_t length) HOLDS(ring.lock) {
  if (length > RING_BYTES - ring.used) {
    drop(1);
    return;
  }
  size_t end = (ring.first + ring.used) % RING_BYTES, straight = RING_BYTES - end;
  if (straight > length) straight = length;
  memcpy(ring.bytes + end, line, straight);
  memcpy(ring.bytes, line + straight, length - straight);
  ring.used += length;
  pthread_cond_signal(&ring.more);
}

// Takes as many whole lines as fit. The ring has at least one line.
static size_t take(char batch[PIPE_BUF]) HOLDS(ring.lock) {
  size_t length = ring.used < PIPE_BUF ? ring.used : PIPE_BUF, straight = RING_BYTES - ring.first;
  if (straight > length) straight = length;
  memcpy(batch, ring.bytes + ring.first, straight);
  memcpy(batch + straight, ring.bytes, length - straight);
  while (batch[length - 1] != '\n') length--;
  ring.first = (ring.first + length) % RING_BYTES;
  ring.used -= length;
  return length;
}

// How many dropped lines to report now. 0 while the ring is more than half full.
static uint64_t tell_dropped(void) HOLDS(ring.lock) {
  uint64_t untold = ring.used <= RING_BYTES / 2 ? ring.untold : 0;
  ring.untold -= untold;
  return untold;
}

static uint64_t count_lines(const char *bytes, size_t length) {
  uint64_t lines = 0;
  for (size_t i = 0; i < length; i++) lines += bytes[i] == '\n';
  return lines;
}

static void finish(struct log_line *line);

static void write_dropped(uint64_t lines) {
  struct log_line line;
  log_begin(&line, LOG_WARNING, "lines were dropped");
  log_integer(&line, "lines", (int64_t)lines);
  if (!line.wanted) return;
  finish(&line);
  (void)write_out(line.memory, line.text.length);  // no second try: the metrics have the count
}

// Sleeps for a moment without the lock, while more lines gather: to wake the thread for each line would cost as much as
// the line itself.
static void rest(void) HOLDS(ring.lock) {
  static const struct timespec moment = {.tv_nsec = 5 * NS_PER_MS};
  lock_release(&ring.lock);
  nanosleep(&moment, NULL);
  lock_acquire(&ring.lock);
}

static void *write_lines(void *argument) {
  char batch[PIPE_BUF];
  lock_acquire(&ring.lock);
  for (;;) {
    if (ring.used == 0 && !ring.stopping) rest();
    while (ring.used == 0 && !ring.stopping) lock_wait(&ring.lock, &ring.more);
    if (ring.used == 0) break;
    size_t length = take(batch);
    uint64_t untold = tell_dropped();
    lock_release(&ring.lock);
    bool written = write_out(batch, length);
    if (untold) write_dropped(untold);
    lock_acquire(&ring.lock);
    if (!written) drop(count_lines(batch, length));
  }
  lock_release(&ring.lock);
  return argument;
}

bool log_start(struct error *error) {
  int code = pthread_create(&ring.thread, NULL, write_lines, NULL);
  if (code == 0) {
    lock_acquire(&ring.lock);
    ring.running = true;
    lock_release(&ring.lock);
    return true;
  }
  return error_set(error, "log: pthread_create: %s", strerror(code));
}

void log_stop(void) {
  lock_acquire(&ring.lock);
  bool running = ring.running;
  ring.running = false;
  ring.stopping = true;
  atomic_store(&patience_ends_ns, clock_ns() + flush_ns);
  pthread_cond_signal(&ring.more);
  lock_release(&ring.lock);
  if (!running) return;
  // Another process may fill the pipe between poll and write. Then the thread blocks in write, and this wait times out.
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2 * flush_ns / NS_PER_S;
  (void)pthread_timedjoin_np(ring.thread, NULL, &until);
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// Bytes of a line's memory that fields leave free for its end.
enum { TAIL = sizeof ",'cut':true}\n" };
_Static_assert(sizeof((struct log_line *)0)->memory <= PIPE_BUF, "a line is written at once");

// Writes a value, quoted and escaped as in JSON unless logfmt takes it bare.
static void put_value(struct text *text, const char *value) {
  bool bare = line_format == LOG_LOGFMT && value[0] != '\0';
  for (const unsigned char *c = (const unsigned char *)value; bare && *c; c++)
    bare = *c > ' ' && *c < 0x7f && !strchr("\"=\\", *c);
  if (bare)
    text_put(text, value);
  else
    json_put_string(text, value);
}

static void put_key(struct text *text, const char *key) {
  if (line_format == LOG_JSON) {
    json_member(text, key);
  } else {
    text_put(text, text->length ? " " : "");
    text_put(text, key);
    text_put(text, "=");
  }
}

// Removes a field that did not fit. `before`: the line's text before the field.
static void settle(struct log_line *line, const struct text *before) {
  if (text_complete(&line->text)) return;
  line->text = *before;
  line->cut = true;
}

static void put_time(struct log_line *line) {
  char time[40];
  struct text text = text_over(time, sizeof time);
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  text_printf(&text, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
              utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
  log_string(line, "ts", time);
}

void log_begin(struct log_line *line, enum log_level level, const char *message) {
  static const char *const names[] = {"notice", "error", "warning", "info", "debug"};
  line->wanted = level <= least_level;
  line->cut = false;
  line->text = text_over(line->memory, line->wanted ? sizeof line->memory - TAIL : 0);  // if unwanted, no field fits
  if (!line->wanted) return;
  if (line_format == LOG_JSON) json_printf(&line->text, "{");
  put_time(line);
  log_string(line, "level", names[level - LOG_NOTICE]);
  log_string(line, "msg", message);
}

void log_string(struct log_line *line, const char *key, const char *value) {
  const struct text before = line->text;
  put_key(&line->text, key);
  put_value(&line->text, value);
  settle(line, &before);
}

void log_fixed(struct log_line *line, const char *key, int64_t units, int decimals) {
  const struct text before = line->text;
  put_key(&line->text, key);
  json_put_fixed(&line->text, units, decimals);
  settle(line, &before);
}

static void finish(struct log_line *line) {
  line->text.capacity += TAIL;
  if (line->cut) {
    put_key(&line->text, "cut");
    json_printf(&line->text, "true");
  }
  json_printf(&line->text, line_format == LOG_JSON ? "}\n" : "\n");
}

void log_end(struct log_line *line) {
  if (!line->wanted) return;
  finish(line);
  lock_acquire(&ring.lock);
  bool running = ring.running;
  if (running) push(line->memory, line->text.length);
  lock_release(&ring.lock);
  if (!running) (void)write_out(line->memory, line->text.length);  // there is nowhere to report a failure
}

void log_event(enum log_level level, const char *message, const char *key, const char *value) {
  struct log_line line;
  log_begin(&line, level, message);
  log_string(&line, key, value);
  log_end(&line);
}

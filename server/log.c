// Logfmt lines on stderr; see log.h.
#include "server/log.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static enum log_level least_level = LOG_INFO;

void log_set_level(enum log_level level) { least_level = level; }

// A value stands bare where it has neither spaces nor quotes nor control bytes, else quoted and escaped as in JSON.
static void put_value(struct text *text, const char *value) {
  bool bare = value[0] != '\0';
  for (const unsigned char *c = (const unsigned char *)value; *c; c++)
    bare = bare && *c > ' ' && *c < 0x7f && !strchr("\"=\\", *c);
  if (bare)
    text_put(text, value);
  else
    text_json_string(text, value, strlen(value));
}

void log_begin(struct log_line *line, enum log_level level, const char *message) {
  static const char *const names[] = {"error", "warning", "info", "debug"};
  line->wanted = level <= least_level;
  if (!line->wanted) return;
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  line->text = text_over(line->memory, sizeof line->memory - 1);  // room for the newline
  text_printf(&line->text, "ts=%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ level=%s msg=", utc.tm_year + 1900, utc.tm_mon + 1,
              utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000, names[level]);
  put_value(&line->text, message);
}

void log_string(struct log_line *line, const char *key, const char *value) {
  if (!line->wanted) return;
  text_printf(&line->text, " %s=", key);
  put_value(&line->text, value);
}

void log_integer(struct log_line *line, const char *key, int64_t value) {
  if (line->wanted) text_printf(&line->text, " %s=%lld", key, (long long)value);
}

void log_milliseconds(struct log_line *line, const char *key, int64_t nanoseconds) {
  if (line->wanted) text_printf(&line->text, " %s=%.3f", key, (double)nanoseconds / 1e6);
}

void log_end(struct log_line *line) {
  if (!line->wanted) return;
  size_t length = line->text.length < line->text.capacity ? line->text.length : line->text.capacity - 1;
  line->memory[length++] = '\n';
  // A log that cannot be written has nowhere to say so.
  ssize_t written = write(STDERR_FILENO, line->memory, length);
  (void)written;
}

void log_event(enum log_level level, const char *message, const char *key, const char *value) {
  struct log_line line;
  log_begin(&line, level, message);
  log_string(&line, key, value);
  log_end(&line);
}

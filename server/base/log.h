// The log: one line for each event on stderr, as logfmt or as JSON with the same keys.
//
// A thread builds a line on its stack: log_begin, one call for each field, log_end. Between log_start and log_stop,
// lines go into a ring, and one thread writes them out, so that a stalled reader of stderr stops no other thread. If
// the ring is full, lines are dropped, and a later line says how many. Before log_start and after log_stop, lines are
// written at once. Any thread.
#ifndef VOXELD_LOG_H
#define VOXELD_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/text.h"
#include "kernels/kernels.h"

enum log_level {
  LOG_NOTICE = -1,  // logged at every level: the start and the stop
  LOG_ERROR,
  LOG_WARNING,
  LOG_INFO,
  LOG_DEBUG
};
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log_line {
  char memory[2048];
  struct text text;
  bool wanted;
  bool cut;  // a field that did not fit was left out; the line says so
};

void log_configure(enum log_level least, enum log_format format);  // before threads start

// False with a reason.
VX_WARN_UNUSED bool log_start(struct error *error);
// Writes out the ring, for a second at most, and ends the thread. If stderr blocks the thread, leaves it behind after
// two seconds. Does nothing if no thread was started.
void log_stop(void);

void log_begin(struct log_line *line, enum log_level level, const char *message);
void log_string(struct log_line *line, const char *key, const char *value);
void log_fixed(struct log_line *line, const char *key, int64_t units, int decimals);  // units / 10^decimals
static inline void log_integer(struct log_line *line, const char *key, int64_t value) {
  log_fixed(line, key, value, 0);
}
static inline void log_milliseconds(struct log_line *line, const char *key, int64_t ns) {
  log_fixed(line, key, (ns + 500) / 1000, 3);
}
void log_end(struct log_line *line);

// A whole line with one field.
void log_event(enum log_level level, const char *message, const char *key, const char *value);

uint64_t log_lines_dropped(void);  // since the start: the ring was full, or stderr took nothing

#endif

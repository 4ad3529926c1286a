// The log: one line of logfmt an event on stderr, written with one write(2), so that lines of several threads never mix.
//
// A line is built by its thread on its stack: log_begin, a field a call, log_end. Any thread.
#ifndef VOXELD_LOG_H
#define VOXELD_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "api/text.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

struct log_line {
  char memory[2048];
  struct text text;
  bool wanted;
};

void log_set_level(enum log_level level);  // before threads start

void log_begin(struct log_line *line, enum log_level level, const char *message);
void log_string(struct log_line *line, const char *key, const char *value);
void log_integer(struct log_line *line, const char *key, int64_t value);
void log_milliseconds(struct log_line *line, const char *key, int64_t nanoseconds);
void log_end(struct log_line *line);

// A whole line with one field.
void log_event(enum log_level level, const char *message, const char *key, const char *value);

#endif

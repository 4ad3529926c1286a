// Reads back the log, which the program under test writes to stderr.
#ifndef VOXELD_TESTS_LOGGED_H
#define VOXELD_TESTS_LOGGED_H

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static int logged_ends[2], logged_stderr;

// Replaces stderr by a pipe, which holds some kilobytes. Returns false if this fails.
static inline bool logged_begin(void) {
  logged_stderr = dup(STDERR_FILENO);
  return logged_stderr >= 0 && pipe(logged_ends) == 0 && dup2(logged_ends[1], STDERR_FILENO) == STDERR_FILENO;
}

static inline bool logged_end(void) {
  bool good = dup2(logged_stderr, STDERR_FILENO) == STDERR_FILENO;
  return (close(logged_stderr) | close(logged_ends[0]) | close(logged_ends[1])) == 0 && good;
}

// The text written since the last call, valid until the next. Writes a zero after the text, so the read does not block.
static inline const char *logged(void) {
  static char text[16384];
  if (write(logged_ends[1], "", 1) != 1 || read(logged_ends[0], text, sizeof text) < 1) abort();
  return text;
}

#endif

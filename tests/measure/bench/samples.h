// Samples for tests/measure/report.py: each row is a line of the file that VOXELD_SAMPLES names. Without that variable
// nothing is written. One thread.
#ifndef VOXELD_TESTS_BENCH_SAMPLES_H
#define VOXELD_TESTS_BENCH_SAMPLES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// The value to compare a row with, in the row's unit: a target, or another program's time. 0: none.
struct samples_limit {
  double value;
  const char *of;
};

// Adds a row; `format` gives its name. A failure is printed on standard error and does not end the benchmark.
__attribute__((format(printf, 5, 6))) static inline void
samples_note(const double *values, int count, const char *unit, struct samples_limit limit, const char *format, ...) {
  const char *path = getenv("VOXELD_SAMPLES");
  if (!path) return;
  FILE *file = fopen(path, "a");
  if (!file) {
    perror(path);
    return;
  }
  fprintf(file, "%s\t", unit);
  if (limit.value > 0) fprintf(file, "%.9g\t%s\t", limit.value, limit.of);
  if (limit.value <= 0) fputs("\t\t", file);
  for (int i = 0; i < count; i++) fprintf(file, " %.9g", values[i]);
  fputc('\t', file);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(file, format, arguments);
  va_end(arguments);
  fputc('\n', file);
  bool failed = ferror(file) != 0;
  if (fclose(file) != 0 || failed) perror(path);
}

#endif

// What a raw body looks like: stripped bytes, files of other formats, float64, the number of columns.
//
// A guess from a sample of bounded size, in a few microseconds. Any thread; nothing here allocates.
#ifndef VOXELD_INSPECT_H
#define VOXELD_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/wire/expect.h"

struct cloud_loss;
struct deskew_report;
struct join_report;

// Appended to an error about a body that came as a form.
#define STRIPPED_FORM "; if curl -d sent it, use --data-binary: -d strips bytes"

enum { INSPECTED_HEAD = 4096 };

struct inspection {
  bool stripped;                         // the body is a form without bytes that `curl -d` strips, as far as inspected
  int32_t columns;                       // that the rows seem to have; 0 = as many as the input says, or unknown
  const char *hint;                      // if the body looks like another format or float64: what to do; else NULL
  struct points_seen seen;               // compared with what the model expects
  const struct join_report *joined;      // NULL = the request has no stream
  const struct deskew_report *deskewed;  // NULL = the request has no de-skew
  double ahead_ms;                       // how far the points' time is ahead of the server's clock
  const struct cloud_loss *loss;         // NULL = not known
};

// Whether the first bytes have no NUL, CR or LF, which `curl -d` strips. A short body may have none by chance.
bool body_may_be_stripped(const char *bytes, int64_t size);

// `form`: the body is application/x-www-form-urlencoded. If view->read is set, only INSPECTED_HEAD bytes are compared
// with other formats, and `stripped` stays false.
struct inspection body_inspect(const struct points_view *view, bool form);

#endif

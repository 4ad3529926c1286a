// What a raw body looks like: whether bytes were stripped from it, whether it is a file or has numbers of float64, and
// how many columns its rows have.
//
// A guess from a sample of bounded size; it takes a few microseconds. Any thread; nothing here allocates.
#ifndef VOXELD_INSPECT_H
#define VOXELD_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/wire/expect.h"

struct cloud_loss;
struct deskew_report;
struct join_report;

// Appended to the error about a bad body that came as a form.
#define STRIPPED_FORM "; if curl -d sent it, use --data-binary: -d strips bytes"

enum { INSPECTED_HEAD = 4096 };

struct inspection {
  bool stripped;                     // the body is a form, and its beginning has no byte that `curl -d` strips
  int32_t columns;                   // how many columns the rows seem to have; 0: as many as the input says, or unknown
  const char *hint;                  // what to do if the body looks like another format or float64; else NULL
  struct points_seen seen;           // compared with what the model expects
  const struct join_report *joined;  // the sweeps that the request joined; NULL if it has no stream
  const struct deskew_report *deskewed;  // what de-skew did; NULL: the request did not ask for it
  double ahead_ms;                       // how far the time of the points is ahead of the server's clock
  const struct cloud_loss *loss;         // of the points in a file or in JSON; NULL: not known
};

// Whether the first bytes have no NUL, CR or LF, the bytes that `curl -d` strips. A short body may have none by chance.
bool body_may_be_stripped(const char *bytes, int64_t size);

// `form`: the body's type is application/x-www-form-urlencoded. If the bytes of the view must be copied, only the first
// INSPECTED_HEAD bytes are compared with other formats.
struct inspection body_inspect(const struct points_view *view, bool form);

#endif

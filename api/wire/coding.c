// Content codings; see coding.h.
#include "api/wire/coding.h"

#include <string.h>
#include <strings.h>

#include "api/base/accept.h"

const char *coding_name(enum coding coding) {
  static const char *const names[CODINGS] = {"identity", "gzip", "deflate", "zstd"};
  return names[coding];
}

enum coding coding_of_body(const char *name) {
  if (strcasecmp(name, "x-gzip") == 0) return CODING_GZIP;
  enum coding coding = CODING_NONE;
  while (coding < CODINGS && strcasecmp(name, coding_name(coding)) != 0) coding++;
  return coding;
}

static bool has_older(const char *accept) {
  return accept_coding(accept, coding_name(CODING_GZIP)) > 0 || accept_coding(accept, coding_name(CODING_DEFLATE)) > 0;
}

enum coding coding_for_answer(const char *accept, bool zstd_alone) {
  static const enum coding offered[] = {CODING_ZSTD, CODING_GZIP};  // the faster first; it wins a tie
  enum coding best = CODING_NONE;
  int most = accept_coding(accept, coding_name(CODING_NONE));
  for (size_t i = 0; i < sizeof offered / sizeof *offered; i++) {
    int quality = accept_coding(accept, coding_name(offered[i]));
    if (quality <= most || (offered[i] == CODING_ZSTD && zstd_alone && has_older(accept))) continue;
    most = quality;
    best = offered[i];
  }
  return best;
}

// Content codings (RFC 9110, section 8.4.1). Any thread.
#ifndef VOXELD_CODING_H
#define VOXELD_CODING_H

#include <stdbool.h>
#include <stddef.h>

enum coding { CODING_NONE, CODING_GZIP, CODING_DEFLATE, CODING_ZSTD, CODINGS };

#define CODINGS_OF_BODIES "gzip, deflate, zstd"

const char *coding_name(enum coding coding);
// The coding of a Content-Encoding; CODINGS if it is unknown or a list.
enum coding coding_of_body(const char *name);
// The coding of the answer to an Accept-Encoding: zstd, gzip or none. `zstd_alone`: no zstd if the client accepts gzip
// or deflate. This is for KServe's clients: their HTTP library may offer zstd, but they decode only gzip and deflate.
enum coding coding_for_answer(const char *accept, bool zstd_alone);

// A step of decoding or encoding. `in` and `out` move as the step advances.
struct coding_step {
  const char *in;
  size_t in_size;
  char *out;
  size_t out_size;
};

#endif

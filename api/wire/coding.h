// Content codings (RFC 9110, section 8.4.1): their names, and the coding of an answer. Any thread.
#ifndef VOXELD_CODING_H
#define VOXELD_CODING_H

#include <stdbool.h>
#include <stddef.h>

enum coding { CODING_NONE, CODING_GZIP, CODING_DEFLATE, CODING_ZSTD, CODINGS };

#define CODINGS_OF_BODIES "gzip, deflate, zstd"

const char *coding_name(enum coding coding);
// The coding that a body's Content-Encoding names; CODINGS if the service does not support it, or if it is a list.
enum coding coding_of_body(const char *name);
// The coding for the answer to a client that sent this Accept-Encoding: zstd or gzip, if the client prefers it to a
// plain answer. `zstd_alone`: zstd only if the client accepts neither gzip nor deflate. This is for KServe's clients:
// their HTTP library may offer zstd unasked, but they decode only gzip and deflate.
enum coding coding_for_answer(const char *accept, bool zstd_alone);

// A step of decoding or encoding: where the bytes come from and where they go. Both move as the step advances.
struct coding_step {
  const char *in;
  size_t in_size;
  char *out;
  size_t out_size;
};

#endif

// Encodes an answer as gzip or zstd at the fastest level. One thread at a time uses an encoder. An encoder can be
// reused for other answers.
#ifndef VOXELD_ENCODE_H
#define VOXELD_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/wire/coding.h"
#include "kernels/kernels.h"

struct encoder;

// NULL if there is no memory.
struct encoder *encoder_new(enum coding coding);
void encoder_close(struct encoder *encoder);
enum coding encoder_coding(const struct encoder *encoder);
// Encodes `in` to `out`. Returns the number of bytes written. Returns 0 if `out` is too small, or if `is_stopped`,
// which is called now and then, returned true.
VX_WARN_UNUSED size_t encoder_run(struct encoder *encoder, struct coding_step step, bool (*is_stopped)(void *cls),
                                  void *cls);

#endif

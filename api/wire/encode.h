// Encodes an answer, as gzip or zstd at the fastest level. An encoder is used by one thread at a time, and again for
// other answers.
#ifndef VOXELD_ENCODE_H
#define VOXELD_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "api/wire/coding.h"
#include "kernels/kernels.h"

struct encoder;

// NULL: out of memory.
struct encoder *encoder_new(enum coding coding);
void encoder_free(struct encoder *encoder);
enum coding encoder_coding(const struct encoder *encoder);
// Encodes `in` to `out`. The bytes of the result; 0: it has no room there, or `is_stopped` said so, which is asked now
// and then.
VX_WARN_UNUSED size_t encoder_run(struct encoder *encoder, struct coding_step step, bool (*is_stopped)(void *cls),
                                  void *cls);

#endif

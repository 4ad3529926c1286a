// Encodes an answer as gzip or zstd at level 1. One thread at a time uses an encoder. It can be reused for other
// answers.
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
// Returns the number of bytes written to step.out; 0 if it is too small, or if `is_stopped`, which is called for each
// MiB, returned true.
VX_WARN_UNUSED size_t encoder_run(struct encoder *encoder, struct coding_step step, bool (*is_stopped)(void *cls),
                                  void *cls);

#endif

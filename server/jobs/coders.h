// Idle decoders and encoders, kept so that a warm daemon allocates none.
//
// Idle decoders hold at most CODERS_IDLE_BYTES; further decoders are freed. Any thread.
#ifndef VOXELD_CODERS_H
#define VOXELD_CODERS_H

#include <stddef.h>

#include "api/wire/decode.h"
#include "api/wire/encode.h"
#include "server/base/lock.h"

enum { CODERS_IDLE = 64, CODERS_IDLE_BYTES = 32 << 20 };  // number for each coding; bytes in all

struct coders {
  struct lock lock;
  size_t idle_bytes;  // of decoders
  int decoders[CODINGS], encoders[CODINGS];
  struct decoder *decoder[CODINGS][CODERS_IDLE];
  struct encoder *encoder[CODINGS][CODERS_IDLE];
};

void coders_init(struct coders *coders);
void coders_end(struct coders *coders);

// NULL: out of memory.
struct decoder *coders_acquire_decoder(struct coders *coders, enum coding coding);
void coders_release_decoder(struct coders *coders, struct decoder *decoder);
struct encoder *coders_acquire_encoder(struct coders *coders, enum coding coding);
void coders_release_encoder(struct coders *coders, struct encoder *encoder);

#endif

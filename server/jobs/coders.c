// See coders.h.
#include "server/jobs/coders.h"

#include <stdbool.h>

void coders_init(struct coders *coders) {
  *coders = (struct coders){.idle_bytes = 0};
  lock_init(&coders->lock);
}

void coders_end(struct coders *coders) {
  for (int coding = 0; coding < CODINGS; coding++) {
    while (coders->decoders[coding]) decoder_close(coders->decoder[coding][--coders->decoders[coding]]);
    while (coders->encoders[coding]) encoder_close(coders->encoder[coding][--coders->encoders[coding]]);
  }
  lock_end(&coders->lock);
}

struct decoder *coders_acquire_decoder(struct coders *coders, enum coding coding) {
  struct decoder *decoder = NULL;
  lock_acquire(&coders->lock);
  if (coders->decoders[coding]) {
    decoder = coders->decoder[coding][--coders->decoders[coding]];
    coders->idle_bytes -= decoder_bytes(decoder);
  }
  lock_release(&coders->lock);
  if (!decoder) decoder = decoder_new(coding);
  if (decoder) decoder_begin(decoder);
  return decoder;
}

void coders_release_decoder(struct coders *coders, struct decoder *decoder) {
  enum coding coding = decoder_coding(decoder);
  size_t bytes = decoder_bytes(decoder);
  lock_acquire(&coders->lock);
  bool kept = coders->decoders[coding] < CODERS_IDLE && bytes <= CODERS_IDLE_BYTES - coders->idle_bytes;
  if (kept) {
    coders->decoder[coding][coders->decoders[coding]++] = decoder;
    coders->idle_bytes += bytes;
  }
  lock_release(&coders->lock);
  if (!kept) decoder_close(decoder);
}

struct encoder *coders_acquire_encoder(struct coders *coders, enum coding coding) {
  struct encoder *encoder = NULL;
  lock_acquire(&coders->lock);
  if (coders->encoders[coding]) encoder = coders->encoder[coding][--coders->encoders[coding]];
  lock_release(&coders->lock);
  return encoder ? encoder : encoder_new(coding);
}

void coders_release_encoder(struct coders *coders, struct encoder *encoder) {
  enum coding coding = encoder_coding(encoder);
  lock_acquire(&coders->lock);
  bool kept = coders->encoders[coding] < CODERS_IDLE;
  if (kept) coders->encoder[coding][coders->encoders[coding]++] = encoder;
  lock_release(&coders->lock);
  if (!kept) encoder_close(encoder);
}

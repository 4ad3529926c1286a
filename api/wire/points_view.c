// See points_view.h.
#include "api/wire/points_view.h"

#include <string.h>

bool view_note(void *ctx, uint64_t at, size_t bytes, char *out) {
  struct view_sample *sample = ctx;
  const struct vx_piece *last = sample->count ? &sample->piece[sample->count - 1] : NULL;
  size_t to = last ? last->to + ((size_t)last->bytes + 3) / 4 * 4 : 0;
  if (sample->count == VX_MAX_PIECES || to > SAMPLE_BYTES || bytes > SAMPLE_BYTES - to) return false;
  sample->piece[sample->count++] = (struct vx_piece){at, (uint32_t)to, (uint32_t)bytes};
  memset(out, 0, bytes);
  return true;
}

// The second pass may skip pieces, depending on values.
bool view_read(void *ctx, uint64_t at, size_t bytes, char *out) {
  struct view_sample *sample = ctx;
  while (sample->next < sample->count) {
    const struct vx_piece *piece = &sample->piece[sample->next++];
    if (piece->from != at || piece->bytes != bytes) continue;
    memcpy(out, sample->bytes + piece->to, bytes);
    return true;
  }
  return false;
}

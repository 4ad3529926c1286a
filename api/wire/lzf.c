// See lzf.h.
//
// The bytes are a list of runs. If the first byte of a run is below 32, that byte plus one is the number of bytes that
// follow and are copied. Otherwise its upper three bits are a length, and its lower five are the upper bits of a
// distance. If the length is 7, the next byte is added to it. The last byte of the run has the lower bits of the
// distance. The run copies bytes that are already unpacked: length + 2 bytes, which begin distance + 1 bytes before the
// end. Source and destination may overlap.
#include "api/wire/lzf.h"

#include <string.h>

enum { LITERAL = 32, LONG = 7 };

bool lzf_unpack(const char *bytes, size_t size, char *out, size_t room, struct vx_stop *stop) {
  const unsigned char *at = (const unsigned char *)bytes, *end = at + size;
  size_t done = 0;
  while (at < end && !vx_stopped(stop, 1)) {
    size_t first = *at++, length = first >> 5;
    if (first < LITERAL) {
      length = first + 1;
      if (length > (size_t)(end - at) || length > room - done) return false;
      memcpy(out + done, at, length);
      at += length;
      done += length;
      continue;
    }
    if (end - at < (length == LONG ? 2 : 1)) return false;
    if (length == LONG) length += *at++;
    size_t distance = ((first & 31) << 8 | *at++) + 1;
    length += 2;
    if (distance > done || length > room - done) return false;
    for (size_t i = 0; i < length; i++, done++) out[done] = out[done - distance];
  }
  return done == room;
}

// See lzf.h.
//
// A run begins with a byte. Below 32, it is the number of literal bytes that follow, minus one. Otherwise its upper
// three bits are a length, to which the next byte is added if the length is 7; its lower five bits and one more byte
// are a distance. Such a run copies length + 2 unpacked bytes, from distance + 1 bytes before the end of the output;
// source and destination may overlap.
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

// See decimal.h. The daemon never sets a locale, so strtof reads a point.
#include "api/wire/decimal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 63, EXACT_DIGITS = 15, EXACT_TENS = 22 };

// Most numbers have few digits and no exponent. Such a number is a whole number over a power of ten, both exact as
// doubles, so their quotient is the nearest double. Its nearest float is the number's own, unless the double lies
// midway between two floats: rounding may have moved it there. False if it is no such number.
static bool read_short(const struct span *word, float *out) {
  static const double tens[EXACT_TENS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const uint64_t dropped = (1u << 29) - 1, midway = 1u << 28;  // bits that a double has more than a float
  uint64_t digits = 0, bits;
  int count = 0, behind = -1;  // digits; those behind the point, -1 before it
  size_t i = word->at[0] == '-';
  for (; i < word->length; i++) {
    int digit = word->at[i] - '0';
    if (word->at[i] == '.' && behind < 0) {
      behind = 0;
      continue;
    }
    if (digit < 0 || digit > 9 || count == EXACT_DIGITS) return false;
    digits = digits * 10 + (uint64_t)digit;
    count++;
    if (behind >= 0) behind++;
  }
  double value = (double)digits / tens[behind > 0 ? behind : 0];
  memcpy(&bits, &value, sizeof bits);
  if (count == 0 || (bits & dropped) == midway || (value < (double)FLT_MIN && digits)) return false;
  *out = (float)(word->at[0] == '-' ? -value : value);
  return true;
}

bool decimal_read(const struct span *word, float *out) {
  char text[LONGEST + 1], *end;
  if (word->length == 0 || word->length > LONGEST) return false;
  if (read_short(word, out)) return true;
  memcpy(text, word->at, word->length);
  text[word->length] = '\0';
  if (strlen(text) != word->length || strpbrk(text, "xXpP(")) return false;  // strtof reads hexadecimal digits too
  *out = strtof(text, &end);
  return *end == '\0';
}

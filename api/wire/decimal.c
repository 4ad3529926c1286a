// See decimal.h. The daemon sets no locale, so the decimal point of strtof is '.'.
#include "api/wire/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// A number midway between two floats has at most 113 digits. So the first 113 digits, and whether a digit other than 0
// follows, decide the rounding.
enum { EXACT_DIGITS = 15, EXACT_TENS = 22, DIGITS_KEPT = 120, POWER_MOST = 9999, TEXT = DIGITS_KEPT + 16 };

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

// Rounds `wide`, the double nearest to a number, to the float nearest to the number. False if `wide` is below the
// normal floats or midway between two floats: the first rounding may then have changed the result.
static bool narrow(double wide, float *out) {
  const uint64_t dropped = (1u << 29) - 1, midway = 1u << 28;  // bits that a float does not have
  uint64_t bits;
  memcpy(&bits, &wide, sizeof bits);
  *out = (float)wide;
  return (bits & dropped) != midway && (fabs(wide) >= (double)FLT_MIN || wide == 0);
}

// A number with few digits and no exponent is an integer divided by a power of ten. Both are exact doubles, so their
// quotient is the nearest double. False for other numbers.
static bool read_short(const struct span *word, struct decimal *out) {
  static const double tens[EXACT_TENS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  uint64_t digits = 0;
  int count = 0, decimals = -1;  // decimals: digits after the point; -1 before it
  size_t i = word->at[0] == '-';
  for (; i < word->length; i++) {
    int digit = word->at[i] - '0';
    if (word->at[i] == '.' && decimals < 0) {
      decimals = 0;
      continue;
    }
    if (digit < 0 || digit > 9 || count == EXACT_DIGITS) return false;
    digits = digits * 10 + (uint64_t)digit;
    count++;
    if (decimals >= 0) decimals++;
  }
  double value = (double)digits / tens[decimals > 0 ? decimals : 0];
  out->wide = word->at[0] == '-' ? -value : value;
  return count && narrow(out->wide, &out->value);
}

// Reads infinities and NaNs as C prints them, and as Microsoft's C did before 2015, which cut or padded their words to
// the precision.
static bool read_not_finite(struct span word, struct decimal *out) {
  static const struct {
    const char *word;
    bool goes_on;  // any text may follow
    float value;
  } words[] = {{"inf", false, INFINITY}, {"infinity", false, INFINITY}, {"nan", false, NAN},
               {"nan(", true, NAN},      {"1.#inf", false, INFINITY},   {"1.#inf", true, INFINITY},
               {"1.#", true, NAN},       {"1.$", false, NAN},           {"1.$", true, NAN}};
  bool negative = word.at[0] == '-';
  if (negative || word.at[0] == '+') word = (struct span){word.at + 1, word.length - 1};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t length = strlen(words[i].word);
    if (words[i].goes_on ? word.length <= length : word.length != length) continue;
    if (strncasecmp(word.at, words[i].word, length) != 0) continue;
    out->value = negative ? -words[i].value : words[i].value;
    out->wide = (double)out->value;
    return true;
  }
  return false;
}

// Moves the exponent from the word to the power. What follows its digits stays in the word. False if the word ends
// before them.
static bool take_exponent(struct span *word, int64_t *power) {
  const int64_t most = INT64_C(1000000000000000);
  const char *at = word->at, *end = at + word->length;
  int64_t exponent = 0;
  bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) at++;
  if (at == end) return false;
  for (; at < end && is_digit(*at); at++)
    if (exponent < most) exponent = exponent * 10 + (*at - '0');
  *power += negative ? -exponent : exponent;
  *word = (struct span){at, (size_t)(end - at)};
  return true;
}

// Writes the first significant digits as an integer with an exponent. A 1 stands for later digits that are not all 0.
// False if the word is no number.
static bool shorten(struct span word, char text[TEXT]) {
  int length = 0, kept = 0;
  bool any = false, point = false, rest = false;
  int64_t power = 0;
  const char *at = word.at, *end = at + word.length;
  if (*at == '-' || *at == '+') text[length++] = *at++;
  for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
    if (*at == '.') {
      point = true;
      continue;
    }
    any = true;
    bool counts = kept < DIGITS_KEPT;
    if (counts && (kept || *at != '0')) text[length + kept++] = *at;
    rest = rest || (!counts && *at != '0');
    power += counts ? -(int64_t)point : !point;
  }
  length += kept;
  if (rest) power--;
  if (rest || !kept) text[length++] = rest ? '1' : '0';
  word = (struct span){at, (size_t)(end - at)};
  if (word.length && (*at == 'e' || *at == 'E')) {
    word = (struct span){at + 1, word.length - 1};
    if (!take_exponent(&word, &power)) return false;
  }
  power = power > POWER_MOST ? POWER_MOST : power < -POWER_MOST ? -POWER_MOST : power;
  snprintf(text + length, TEXT - (size_t)length, "e%d", (int)power);
  return any && !word.length;
}

// Gives the C library the word, or shorten() of a longer word. Refuses hexadecimal numbers.
static bool read_long(const struct span *word, struct decimal *out) {
  char text[TEXT], *end = text;
  if (word->length < TEXT) {
    memcpy(text, word->at, word->length);
    text[word->length] = '\0';
    if (strlen(text) != word->length || strpbrk(text, "xXnN")) return false;
  } else if (!shorten(*word, text)) {
    return false;
  }
  out->wide = strtod(text, &end);
  if (*end || end == text) return false;
  if (!narrow(out->wide, &out->value)) out->value = strtof(text, NULL);
  return true;
}

bool decimal_read(const struct span *word, struct decimal *out) {
  return word->length && (read_short(word, out) || read_not_finite(*word, out) || read_long(word, out));
}

// See base.h. Radix sorts, least digit first.
#include <string.h>

#include "kernels/cpu/base/base.h"

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

static uint32_t digit_of(uint64_t key, int shift) { return (uint32_t)(key >> shift) & (DIGITS - 1); }

static void sort_by_digit(struct vx_stop *stop, const struct cpu_keyed *from, struct cpu_keyed *to, int32_t count,
                          int shift) {
  int32_t place[DIGITS] = {0};
  VX_EACH_ROW(stop, i, 0, count) place[digit_of(from[i].key, shift)]++;
  int32_t before = 0;
  for (int digit = 0; digit < DIGITS; digit++) {
    int32_t here = place[digit];
    place[digit] = before;
    before += here;
  }
  VX_EACH_ROW(stop, i, 0, count) to[place[digit_of(from[i].key, shift)]++] = from[i];
}

enum { MOST_WORD_BITS = 11, MOST_WORD_DIGITS = 6 };  // of a digit; of a key

// at[digit][value]: where the next word whose digit has the value goes.
struct word_places {
  int32_t at[MOST_WORD_DIGITS][1 << MOST_WORD_BITS];
};

static void count_word_digits(struct vx_stop *stop, const uint64_t *words, int32_t count, int low_bit, int digits,
                              int bits, struct word_places *places) {
  uint64_t values = UINT64_C(1) << bits;
  memset(places->at, 0, (size_t)digits * sizeof *places->at);
  VX_EACH_ROW(stop, i, 0, count) {
    uint64_t key = words[i] >> low_bit;
    for (int digit = 0; digit < digits; digit++, key >>= bits) places->at[digit][key & (values - 1)]++;
  }
  for (int digit = 0; digit < digits; digit++) {
    int32_t before = 0;
    for (uint64_t value = 0; value < values; value++) {
      int32_t here = places->at[digit][value];
      places->at[digit][value] = before;
      before += here;
    }
  }
}

// Digits have equal numbers of bits, so that none has more values than necessary: each value has a place to write to,
// and fewer places keep fewer cache lines busy.
uint64_t *cpu_sort_words(struct vx_stop *stop, uint64_t *words, uint64_t *spare, int32_t count, int low_bit,
                         int key_bits) {
  struct word_places places;
  int digits = 1 + (key_bits - 1) / MOST_WORD_BITS, bits = (key_bits + digits - 1) / digits;
  uint64_t mask = (UINT64_C(1) << bits) - 1;
  count_word_digits(stop, words, count, low_bit, digits, bits, &places);
  for (int digit = 0; digit < digits; digit++) {
    int32_t *place = places.at[digit];
    int shift = low_bit + digit * bits;
    VX_EACH_ROW(stop, i, 0, count) spare[place[words[i] >> shift & mask]++] = words[i];
    uint64_t *sorted = spare;
    spare = words;
    words = sorted;
  }
  return words;
}

struct cpu_keyed *cpu_sort(struct vx_stop *stop, struct cpu_keyed *items, struct cpu_keyed *spare, int32_t count,
                           int key_bits) {
  for (int shift = 0; shift < key_bits; shift += DIGIT_BITS) {
    sort_by_digit(stop, items, spare, count, shift);
    struct cpu_keyed *sorted = spare;
    spare = items;
    items = sorted;
  }
  return items;
}

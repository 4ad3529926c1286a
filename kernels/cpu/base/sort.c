// See base.h. A radix sort, least digit first.
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

// The arithmetic that CPU and GPU share gives the same bits with any compiler, flags and machine. Compares its results
// with stored hashes, for a part of the inputs of cuda-exhaustive.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/support/exhaustive.h"

static void hashes_over_a_part_of_the_inputs_are_unchanged(void **state) {
  (void)state;
  for (int which = 0; which < EXHAUSTIVES; which++) {
    const struct exhaustive_row *row = &exhaustive_rows[which];
    struct exhaustive_sum sum = {0};
    for (uint64_t number = 0; number < row->count; number += row->stride)
      exhaustive_add((enum exhaustive)which, number, &sum);
    assert_int_equal(sum.falls, 0);
    if (sum.hash != row->part_hash)
      fail_msg("%s: hash %016llx instead of %016llx", row->name, (unsigned long long)sum.hash,
               (unsigned long long)row->part_hash);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(hashes_over_a_part_of_the_inputs_are_unchanged)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

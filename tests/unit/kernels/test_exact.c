// The shared arithmetic gives the same bits as when it was written, with any compiler, flags and machine: hashes over a
// part of the inputs of cuda-exhaustive.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/support/exhaustive.h"

static void a_part_of_all_inputs_has_its_hash(void **state) {
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_part_of_all_inputs_has_its_hash)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// The memory of one request.
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdint.h>
#include <string.h>

#include "api/base/pool.h"

static struct pool pool;

static void take(void *parts[], int count) {
  for (int i = 0; i < count; i++) {
    size_t bytes = (size_t)i * 97;
    parts[i] = pool_take(&pool, bytes);
    assert_non_null(parts[i]);
    assert_int_equal((uintptr_t)parts[i] % alignof(max_align_t), 0);
    memset(parts[i], i, bytes);
  }
}

static void parts_do_not_overlap(void **state) {
  (void)state;
  unsigned char *parts[40];
  take((void **)parts, 40);
  for (int i = 0; i < 40; i++)
    for (int byte = 0; byte < i * 97; byte++) assert_int_equal(parts[i][byte], i);
}

static void a_pool_keeps_its_memory(void **state) {
  (void)state;
  void *first[20], *second[20];
  pool_release(&pool);
  take(first, 20);
  pool_reset(&pool);
  take(second, 20);
  assert_memory_equal(first, second, sizeof first);
  pool_release(&pool);
  assert_null(pool.blocks);
}

static void but_not_all_of_it(void **state) {
  (void)state;
  assert_non_null(pool_take(&pool, POOL_KEPT));
  pool_reset(&pool);
  assert_non_null(pool.blocks);
  pool_release(&pool);
  assert_non_null(pool_take(&pool, POOL_KEPT + 1));
  pool_reset(&pool);
  assert_null(pool.blocks);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_do_not_overlap),
      cmocka_unit_test(a_pool_keeps_its_memory),
      cmocka_unit_test(but_not_all_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

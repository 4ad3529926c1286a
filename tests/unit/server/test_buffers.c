// The buffer pool.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "kernels/backends.h"
#include "server/jobs/buffers.h"

enum { SMALLEST = 1 << BUFFER_SMALLEST };
static struct devices devices = {.cpu = {.backend = &vx_cpu_backend}};
static struct buffers pool;
static struct clients clients;
static struct client *client;

static struct buffer *take(size_t size) {
  struct shortage shortage;
  return buffer_acquire(&pool, client, SHARE_BYTES, size, 0, &shortage);
}

static int open_pool(void **state) {
  (void)state;
  struct error error;
  if (vx_cpu_backend.open(0, &devices.cpu.handle, &error) != VX_OK) return -1;
  const int64_t limits[SHARES] = {
      [SHARE_BYTES] = 100 * SMALLEST, [SHARE_LONG_BYTES] = 4 * SMALLEST, [SHARE_STREAM_BYTES] = 3 * SMALLEST};
  if (!clients_init(&clients, 2, limits)) return -1;
  client = clients_acquire(&clients, "", "192.0.2.1");
  buffers_init(&pool, &devices, 8 * (size_t)SMALLEST, &clients);
  return 0;
}

static int close_pool(void **state) {
  (void)state;
  buffers_end(&pool);
  clients_release(&clients, client);
  clients_end(&clients);
  vx_cpu_backend.close(devices.cpu.handle);
  return 0;
}

static void last_given_is_first_taken(void **state) {
  (void)state;
  struct buffer *a = take(1), *b = take(SMALLEST);
  assert_non_null(a);
  assert_non_null(b);
  assert_int_equal(a->capacity, SMALLEST);
  assert_int_equal(b->capacity, SMALLEST);
  buffer_release(a);
  buffer_release(b);
  assert_ptr_equal(take(5), b);
  assert_int_equal(pool.in_use, SMALLEST);
  assert_int_equal(pool.allocated, 2 * SMALLEST);
  buffer_release(b);
}

static void budget_bounds_what_is_in_use(void **state) {
  (void)state;
  struct buffer *large = take(4 * SMALLEST), *half = take(3 * SMALLEST);
  assert_non_null(large);
  assert_non_null(half);
  assert_int_equal(half->capacity, 4 * SMALLEST);
  assert_null(take(1));
  buffer_release(half);
  struct buffer *small = take(1);
  assert_non_null(small);  // the pool frees the memory of `half` to make room
  assert_true(pool.allocated <= pool.budget);
  buffer_release(small);
  buffer_release(large);
}

// Buffers of other shares count to SHARE_BYTES too.
static void a_buffer_may_move_to_another_share(void **state) {
  (void)state;
  struct shortage shortage;
  struct buffer *first = buffer_acquire(&pool, client, SHARE_LONG_BYTES, 1, 0, &shortage), *second = take(2 * SMALLEST);
  assert_non_null(first);
  assert_non_null(second);
  assert_true(buffer_move(first, SHARE_STREAM_BYTES, &shortage));
  assert_int_equal(client_held(&clients, client, SHARE_LONG_BYTES), 0);
  assert_int_equal(client_held(&clients, client, SHARE_STREAM_BYTES), SMALLEST);
  assert_int_equal(client_held(&clients, client, SHARE_BYTES), 3 * SMALLEST);
  assert_false(buffer_move(second, SHARE_STREAM_BYTES, &shortage));
  assert_int_equal(shortage.grant, OVER_CLIENT_SHARE);
  assert_int_equal(shortage.share, SHARE_STREAM_BYTES);
  buffer_release(first);
  assert_true(buffer_move(second, SHARE_STREAM_BYTES, &shortage));
  buffer_release(second);
  assert_int_equal(client_held(&clients, client, SHARE_STREAM_BYTES), 0);
  assert_int_equal(client_held(&clients, client, SHARE_BYTES), 0);
}

static void larger_than_the_budget_is_refused_and_evicts_nothing(void **state) {
  (void)state;
  struct buffer *a = take(1);
  buffer_release(a);
  assert_null(take(9 * SMALLEST));
  assert_null(take(SIZE_MAX));
  assert_int_equal(pool.allocated, SMALLEST);
}

// A buffer that the CPU allocated while the GPU was paused is used once more, then freed.
static void what_was_allocated_without_a_gpu_is_replaced(void **state) {
  (void)state;
  struct device *gpu = &devices.gpu[0];
  *gpu = (struct device){.backend = &vx_cpu_backend, .handle = devices.cpu.handle, .state = DEVICE_PAUSED};
  devices.count = 1;
  struct buffer *used = take(1);
  assert_ptr_equal(used->device, &devices.cpu);
  buffer_release(used);
  assert_int_equal(pool.allocated, SMALLEST);
  atomic_store(&gpu->state, DEVICE_WORKING);
  atomic_store(&devices.working, 1);
  assert_ptr_equal(take(1), used);
  buffer_release(used);
  assert_int_equal(pool.allocated, 0);
  used = take(1);
  assert_ptr_equal(used->device, gpu);
  atomic_store(&gpu->state, DEVICE_PAUSED);
  atomic_store(&devices.working, 0);
  buffer_release(used);
  assert_int_equal(pool.allocated, SMALLEST);  // a buffer of the GPU stays: the CPU can use it
  assert_int_equal(pool.in_use, 0);
  devices.count = 0;
}

static void *churn(void *argument) {
  uint32_t random = (uint32_t)(uintptr_t)argument;
  for (int i = 0; i < 2000; i++) {
    random = random * 1664525u + 1013904223u;
    struct buffer *buffer = take((random >> 8) % (5 * SMALLEST));
    if (!buffer) continue;
    memset(buffer->data, (int)random, 64);
    for (int k = 0; k < 64; k++)
      if (buffer->data[k] != (char)random) return argument;
    buffer_release(buffer);
  }
  return NULL;
}

static void threads_never_share_a_buffer(void **state) {
  (void)state;
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
  for (int i = 0; i < 4; i++) {
    void *fault;
    pthread_join(threads[i], &fault);
    assert_null(fault);
  }
  assert_int_equal(pool.in_use, 0);
  assert_true(pool.allocated <= pool.budget);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(last_given_is_first_taken, open_pool, close_pool),
      cmocka_unit_test_setup_teardown(budget_bounds_what_is_in_use, open_pool, close_pool),
      cmocka_unit_test_setup_teardown(a_buffer_may_move_to_another_share, open_pool, close_pool),
      cmocka_unit_test_setup_teardown(larger_than_the_budget_is_refused_and_evicts_nothing, open_pool, close_pool),
      cmocka_unit_test_setup_teardown(what_was_allocated_without_a_gpu_is_replaced, open_pool, close_pool),
      cmocka_unit_test_setup_teardown(threads_never_share_a_buffer, open_pool, close_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

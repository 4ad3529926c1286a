// The gate: which requests wait, and which enters next.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "server/base/base.h"
#include "server/clients/gate.h"

enum { EACH = 2, REQUESTS = 8 };

static struct clients clients;
static struct client *greedy, *other;
static struct gate gate;
static struct gate_entry request[REQUESTS];
static int held[REQUESTS], let_go[REQUESTS];  // calls of on_hold and on_resume

static void on_hold(struct gate_entry *entry) { held[entry - request]++; }
static void on_resume(struct gate_entry *entry) { let_go[entry - request]++; }

static int open_gate(void **state) {
  (void)state;
  const int64_t limits[SHARES] = {0};
  if (!clients_init(&clients, 4, limits)) return -1;
  greedy = clients_acquire(&clients, "", "192.0.2.1");
  other = clients_acquire(&clients, "", "192.0.2.2");
  for (int i = 0; i < REQUESTS; i++) {
    request[i] = (struct gate_entry){&request[0], NULL};  // an earlier wait may leave a stale `next`
    held[i] = let_go[i] = 0;
  }
  gate_init(&gate, EACH, on_hold, on_resume);
  return 0;
}

static int close_gate(void **state) {
  (void)state;
  int64_t left = atomic_load(&gate.waiting);
  for (int i = 0; i < REQUESTS; i++) gate_release(&gate, &request[i]);
  left += greedy->requests.count + other->requests.count;
  clients_release(&clients, greedy);
  clients_release(&clients, other);
  gate_end(&gate);
  clients_end(&clients);
  return left == 0 ? 0 : -1;
}

static bool waits(int i, struct client *client, int64_t now_ns) {
  bool entered = gate_enter(&gate, &request[i], client, true, now_ns);
  assert_int_equal(held[i], !entered);
  return !entered;
}

static void serve(struct client *client, bool job, int64_t now_ns) {
  struct gate_entry one = {NULL, NULL};
  assert_true(gate_enter(&gate, &one, client, job, now_ns));
  gate_release(&gate, &one);
}

// The greedy client sends requests while the other is served: EACH enter, the others wait.
static void fill(int64_t now_ns) {
  serve(other, true, now_ns);
  for (int i = 0; i < REQUESTS; i++) assert_int_equal(waits(i, greedy, now_ns), i >= EACH);
  assert_int_equal(atomic_load(&gate.waiting), REQUESTS - EACH);
}

// A bit for each request that was let go.
static unsigned gone(void) {
  unsigned bits = 0;
  for (int i = 0; i < REQUESTS; i++) {
    assert_true(let_go[i] <= 1);
    bits |= (unsigned)let_go[i] << i;
  }
  return bits;
}

static void beside_another_client_a_third_request_waits(void **state) {
  (void)state;
  fill(0);
  assert_int_equal(gone(), 0);
  gate_let_in(&gate, true);
}

static void another_client_enters_beside_those_that_wait(void **state) {
  (void)state;
  fill(0);
  serve(other, true, 0);
  assert_int_equal(gone(), 0);
  gate_let_in(&gate, true);
}

static void a_lone_client_does_not_wait(void **state) {
  (void)state;
  for (int i = 0; i < REQUESTS; i++) assert_false(waits(i, greedy, 0));
}

static void beside_one_that_asks_for_pages_a_client_does_not_wait(void **state) {
  (void)state;
  serve(other, false, 0);
  for (int i = 0; i < REQUESTS; i++) assert_false(waits(i, greedy, 0));
}

static void after_a_second_a_client_is_alone_again(void **state) {
  (void)state;
  serve(other, true, 0);
  for (int i = 0; i < EACH; i++) assert_false(waits(i, greedy, 0));
  assert_true(waits(EACH, greedy, NS_PER_S - 1));
  assert_false(waits(EACH + 1, greedy, NS_PER_S));
  gate_let_in(&gate, true);
}

static void one_that_leaves_lets_the_first_in(void **state) {
  (void)state;
  fill(0);
  for (int i = 0; i < REQUESTS - EACH; i++) {
    gate_release(&gate, &request[i]);
    assert_int_equal(gone(), ((1u << (i + 1)) - 1) << EACH);
  }
  assert_int_equal(atomic_load(&gate.waiting), 0);
}

static void two_clients_wait_apart(void **state) {
  (void)state;
  serve(other, true, 0);
  for (int i = 0; i <= EACH; i++) assert_int_equal(waits(i, greedy, 0), i == EACH);
  for (int i = 0; i <= EACH; i++) assert_int_equal(waits(EACH + 1 + i, other, 0), i == EACH);
  gate_release(&gate, &request[0]);
  assert_int_equal(gone(), 1u << EACH);
  gate_let_in(&gate, true);
  assert_int_equal(gone(), 1u << EACH | 1u << (2 * EACH + 1));
  assert_int_equal(atomic_load(&gate.waiting), 0);
}

static void a_client_can_wait_again(void **state) {
  (void)state;
  serve(other, true, 0);
  for (int i = 0; i <= EACH; i++) assert_int_equal(waits(i, greedy, 0), i == EACH);
  gate_release(&gate, &request[0]);
  assert_true(waits(EACH + 1, greedy, 0));
  gate_let_in(&gate, false);
  assert_int_equal(gone(), 3u << EACH);
}

static void one_leaves_once(void **state) {
  (void)state;
  fill(0);
  gate_release(&gate, &request[0]);
  gate_release(&gate, &request[0]);
  assert_int_equal(gone(), 1u << EACH);
  gate_let_in(&gate, true);
}

static void a_tick_lets_two_more_in(void **state) {
  (void)state;
  fill(0);
  gate_let_in(&gate, false);
  assert_int_equal(gone(), 3u << EACH);
  for (int i = 0; i < EACH; i++) gate_release(&gate, &request[i]);  // those that the tick let in still run
  assert_int_equal(gone(), 3u << EACH);
  gate_release(&gate, &request[EACH]);
  assert_int_equal(gone(), 7u << EACH);
  gate_let_in(&gate, false);
  gate_let_in(&gate, false);
  assert_int_equal(atomic_load(&gate.waiting), 0);
}

static void an_open_gate_holds_nobody(void **state) {
  (void)state;
  fill(0);
  gate_let_in(&gate, true);
  assert_int_equal(gone(), (1u << REQUESTS) - (1u << EACH));
  serve(greedy, true, 0);
}

static void a_gate_without_a_limit_is_open(void **state) {
  (void)state;
  gate_end(&gate);
  gate_init(&gate, 0, on_hold, on_resume);
  serve(other, true, 0);
  for (int i = 0; i < REQUESTS; i++) assert_false(waits(i, greedy, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(beside_another_client_a_third_request_waits, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(another_client_enters_beside_those_that_wait, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(a_lone_client_does_not_wait, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(beside_one_that_asks_for_pages_a_client_does_not_wait, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(after_a_second_a_client_is_alone_again, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(one_that_leaves_lets_the_first_in, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(two_clients_wait_apart, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(a_client_can_wait_again, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(one_leaves_once, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(a_tick_lets_two_more_in, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(an_open_gate_holds_nobody, open_gate, close_gate),
      cmocka_unit_test_setup_teardown(a_gate_without_a_limit_is_open, open_gate, close_gate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Clients: who they are, shares, turns in the queue.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>

#include "server/clients/clients.h"
#include "server/jobs/job.h"
#include "server/jobs/queue.h"

enum { LIMIT = 100, CONNECTIONS = 8 };
static struct clients clients;

static int open_clients(void **state) {
  (void)state;
  const int64_t limits[SHARES] = {[SHARE_CONNECTIONS] = LIMIT,
                                  [SHARE_JOBS] = LIMIT,
                                  [SHARE_BYTES] = LIMIT,
                                  [SHARE_LONG_BYTES] = LIMIT / 2,
                                  [SHARE_STREAM_BYTES] = LIMIT};
  return clients_init(&clients, CONNECTIONS, limits) ? 0 : -1;
}

static int close_clients(void **state) {
  (void)state;
  int64_t present = clients_use(&clients).present;
  clients_end(&clients);
  return present == 0 ? 0 : -1;
}

static struct client *join(const char *address) { return clients_acquire(&clients, "", address); }

static bool take(struct client *client, int64_t amount) {
  int64_t held = client->held[SHARE_BYTES];
  lock_acquire(&clients.lock);
  enum grant expected = share_judge(&clients, client, SHARE_BYTES, amount, 0);
  lock_release(&clients.lock);
  assert_int_equal(client->held[SHARE_BYTES], held);
  enum grant grant = share_acquire(&clients, client, SHARE_BYTES, amount, 0);
  assert_int_equal(grant, expected);
  return grant == GRANTED;
}

// Takes bytes one by one until refused. Returns their number.
static int64_t take_all(struct client *client) {
  int64_t taken = 0;
  while (take(client, 1)) taken++;
  return taken;
}

static void give_all(struct client *client) {
  share_release(&clients, client, SHARE_BYTES, client->held[SHARE_BYTES]);
  clients_release(&clients, client);
}

// ---- who ------------------------------------------------------------------------------------------------------------

static void the_greediest_come_first(void **state) {
  (void)state;
  struct client_use use[3];
  assert_int_equal(clients_greediest(&clients, use, 3), 0);
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2"), *c = join("192.0.2.3"), *d = join("192.0.2.4");
  assert_true(take(b, 2));
  assert_int_equal(share_acquire(&clients, c, SHARE_JOBS, 9, 0), GRANTED);
  assert_true(take(d, 1));
  assert_int_equal(clients_greediest(&clients, use, 3), 3);
  assert_string_equal(use[0].name, "192.0.2.3");
  assert_int_equal(use[0].held[SHARE_JOBS], 9);
  assert_string_equal(use[1].name, "192.0.2.2");
  assert_int_equal(use[1].held[SHARE_BYTES], 2);
  assert_ptr_equal(&clients.client[use[1].number], b);
  assert_string_equal(use[2].name, "192.0.2.4");
  share_release(&clients, c, SHARE_JOBS, 9);
  clients_release(&clients, c);
  give_all(b);
  assert_int_equal(clients_greediest(&clients, use, 3), 2);
  assert_string_equal(use[0].name, "192.0.2.4");
  assert_string_equal(use[1].name, "192.0.2.1");  // this client holds nothing
  give_all(d);
  clients_release(&clients, a);
}

// More clients than clients_greediest copies at a time.
static void the_greediest_of_many(void **state) {
  (void)state;
  enum { MANY = 300, SHOWN = 16 };
  const int64_t limits[SHARES] = {[SHARE_BYTES] = INT64_C(1) << 40};
  struct clients many;
  struct client *client[MANY];
  struct client_use use[SHOWN];
  assert_true(clients_init(&many, MANY, limits));
  for (int i = 0; i < MANY; i++) {
    char address[32];
    snprintf(address, sizeof address, "10.0.%d.%d", i / 256, i % 256);
    client[i] = clients_acquire(&many, "", address);
    assert_int_equal(share_acquire(&many, client[i], SHARE_BYTES, 1 + i * 7 % MANY, 0), GRANTED);
  }
  assert_int_equal(clients_greediest(&many, use, SHOWN), SHOWN);
  for (int place = 0; place < SHOWN; place++) {
    assert_int_equal(use[place].held[SHARE_BYTES], MANY - place);
    assert_int_equal((int)use[place].number * 7 % MANY, MANY - place - 1);
    assert_string_equal(use[place].name, client[use[place].number]->name);
  }
  for (int i = 0; i < MANY; i++) {
    share_release(&many, client[i], SHARE_BYTES, client[i]->held[SHARE_BYTES]);
    clients_release(&many, client[i]);
  }
  assert_int_equal(clients_greediest(&many, use, SHOWN), 0);
  clients_end(&many);
}

static void addresses_and_users(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2"),
                *user = clients_acquire(&clients, "lidar-7", "192.0.2.1");
  assert_ptr_not_equal(a, b);
  assert_ptr_not_equal(a, user);
  assert_ptr_equal(a, join("192.0.2.1"));
  assert_ptr_equal(user, clients_acquire(&clients, "lidar-7", "192.0.2.2"));
  assert_int_equal(clients_use(&clients).present, 3);
  struct client *joined[] = {a, a, b, user, user};
  for (size_t i = 0; i < sizeof joined / sizeof *joined; i++) clients_release(&clients, joined[i]);
}

static void hosts_of_ipv6_have_64_bits(void **state) {
  (void)state;
  struct client *a = join("2001:db8:0:1::1"), *b = join("2001:db8:0:1:ffff::9"), *c = join("2001:db8:0:2::1");
  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, c);
  clients_release(&clients, a);
  clients_release(&clients, b);
  clients_release(&clients, c);
}

static void no_name_is_anothers(void **state) {
  (void)state;
  struct client *address = join("192.0.2.1"), *user = clients_acquire(&clients, "192.0.2.1", "192.0.2.9");
  assert_ptr_not_equal(address, user);
  clients_release(&clients, address);
  clients_release(&clients, user);
}

// One machine may own a whole IPv6 /64.
static void names_by_address(void **state) {
  (void)state;
  static const struct {
    const char *user, *address, *name;
  } rows[] = {{"", "192.0.2.1", "192.0.2.1"},
              {"", "unix:1000", "unix:1000"},
              {"alice", "192.0.2.1", "user:alice"},
              {"alice", "2001:db8::1", "user:alice"},
              {"", "123:4567:89ab:cdef:1:2:3:4", "0123:4567:89ab:cdef::/64"},
              {"", "123:4567:89ab:cdef::ffff", "0123:4567:89ab:cdef::/64"},
              {"", "::1", "0000:0000:0000:0000::/64"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct client *client = clients_acquire(&clients, rows[i].user, rows[i].address);
    assert_string_equal(client->name, rows[i].name);
    clients_release(&clients, client);
  }
}

static void no_more_than_there_is_room_for(void **state) {
  (void)state;
  struct client *all[2 * CONNECTIONS];
  char address[32];
  for (int i = 0; i < 2 * CONNECTIONS; i++) {
    snprintf(address, sizeof address, "192.0.2.%d", i);
    assert_non_null(all[i] = join(address));
  }
  assert_null(join("192.0.2.200"));
  clients_release(&clients, all[3]);
  assert_non_null(all[3] = join("192.0.2.200"));
  for (int i = 0; i < 2 * CONNECTIONS; i++) clients_release(&clients, all[i]);
}

static void lives_as_long_as_it_holds_something(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1");
  assert_true(take(a, 10));
  clients_release(&clients, a);
  assert_ptr_equal(join("192.0.2.1"), a);
  assert_int_equal(a->held[SHARE_BYTES], 10);
  clients_release(&clients, a);
  share_release(&clients, a, SHARE_BYTES, 10);
  assert_int_equal(clients_use(&clients).present, 0);
}

// ---- shares ---------------------------------------------------------------------------------------------------------

static void one_gets_half_two_a_third_each(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2");
  assert_int_equal(take_all(a), 50);
  assert_int_equal(share_acquire(&clients, a, SHARE_BYTES, 1, 0), OVER_CLIENT_SHARE);
  assert_int_equal(take_all(b), 25);  // half of the remaining 50
  share_release(&clients, a, SHARE_BYTES, 20);
  assert_int_equal(take_all(b), 10);  // leaves 35 free
  assert_int_equal(b->held[SHARE_BYTES], 35);
  give_all(a);
  give_all(b);
  assert_int_equal(clients_use(&clients).held[SHARE_BYTES], 0);
}

static void whoever_holds_nothing_may_take_what_is_left(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2");
  assert_true(take(a, 60));
  assert_int_equal(share_acquire(&clients, b, SHARE_BYTES, 41, 0), OVER_SERVER_LIMIT);
  assert_true(take(b, 34));
  give_all(a);
  give_all(b);
}

// The last sixteenth of a share is for clients that hold little.
static void large_requests_leave_room_for_small_ones(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2"), *c = join("192.0.2.3");
  assert_true(take(a, 60));
  assert_int_equal(share_acquire(&clients, b, SHARE_BYTES, 35, 0), OVER_SERVER_LIMIT);
  assert_true(take(b, 34));
  assert_int_equal(share_acquire(&clients, b, SHARE_BYTES, 1, 0), OVER_CLIENT_SHARE);
  assert_int_equal(share_acquire(&clients, b, SHARE_BYTES, 1, 34), OVER_SERVER_LIMIT);
  assert_int_equal(share_acquire(&clients, c, SHARE_BYTES, 2, 0), OVER_SERVER_LIMIT);
  assert_true(take(c, 1));
  assert_int_equal(share_acquire(&clients, c, SHARE_BYTES, 1, 0), OVER_CLIENT_SHARE);
  give_all(a);
  give_all(b);
  give_all(c);
}

static void a_client_that_is_alone_takes_the_rest_too(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1");
  assert_int_equal(share_acquire(&clients, a, SHARE_BYTES, 60, 0), GRANTED);
  assert_int_equal(share_acquire(&clients, a, SHARE_BYTES, 40, 60), GRANTED);
  assert_int_equal(share_acquire(&clients, a, SHARE_BYTES, 1, 100), OVER_SERVER_LIMIT);
  give_all(a);
}

static void nobody_takes_more_than_there_is(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1");
  assert_int_equal(share_acquire(&clients, a, SHARE_STREAM_BYTES, LIMIT + 1, 0), OVER_SERVER_LIMIT);
  assert_int_equal(share_acquire(&clients, a, SHARE_STREAM_BYTES, LIMIT, 0), GRANTED);
  share_release(&clients, a, SHARE_STREAM_BYTES, LIMIT);
  clients_release(&clients, a);
}

// SHARE_LONG_BYTES limits the bodies of all long jobs together; a request that alone holds such bytes may exceed it.
static void a_lone_request_may_have_more_than_a_part(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2");
  assert_int_equal(share_acquire(&clients, a, SHARE_LONG_BYTES, 40, 0), GRANTED);
  assert_int_equal(share_acquire(&clients, a, SHARE_LONG_BYTES, 20, 40), GRANTED);
  assert_int_equal(share_acquire(&clients, b, SHARE_LONG_BYTES, 1, 0), OVER_SERVER_LIMIT);
  share_release(&clients, a, SHARE_LONG_BYTES, 60);
  clients_release(&clients, a);
  clients_release(&clients, b);
}

// Each client takes what it may. The last sixteenth gives later clients one stream each.
static void the_greedy_leave_some_to_the_next(void **state) {
  (void)state;
  enum { MANY = 80 };
  static const int64_t limits_of[][3] = {{256, 4, 16}, {1024, 4, 64}};  // limit, clients with several, with one
  for (size_t row = 0; row < sizeof limits_of / sizeof *limits_of; row++) {
    const int64_t limits[SHARES] = {[SHARE_STREAMS] = limits_of[row][0]};
    struct clients many;
    int64_t greedy = 0, single = 0, held[MANY];
    struct client *client[MANY];
    assert_true(clients_init(&many, MANY, limits));
    for (int i = 0; i < MANY; i++) {
      char address[32];
      snprintf(address, sizeof address, "192.0.2.%d", i);
      client[i] = clients_acquire(&many, "", address);
      while (share_acquire(&many, client[i], SHARE_STREAMS, 1, 0) == GRANTED) continue;
      held[i] = client[i]->held[SHARE_STREAMS];
      greedy += held[i] > 1;
      single += held[i] == 1;
    }
    assert_int_equal(greedy, limits_of[row][1]);
    assert_int_equal(single, limits_of[row][2]);
    assert_int_equal(clients_use(&many).held[SHARE_STREAMS], limits_of[row][0]);
    clients_end(&many);
  }
}

static void request_is_not_refused_for_its_own_sake(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1");
  assert_true(take(a, 30));
  assert_int_equal(share_acquire(&clients, a, SHARE_BYTES, 60, 0), OVER_CLIENT_SHARE);
  assert_int_equal(share_acquire(&clients, a, SHARE_BYTES, 60, 30), GRANTED);
  give_all(a);
}

static void shares_are_apart(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1");
  assert_int_equal(take_all(a), 50);
  assert_int_equal(share_acquire(&clients, a, SHARE_JOBS, 1, 0), GRANTED);
  share_release(&clients, a, SHARE_JOBS, 1);
  give_all(a);
}

static void a_proxy_leaves_an_eighth(void **state) {
  (void)state;
  struct client *proxy = join("192.0.2.1"), *other = join("192.0.2.2");
  int64_t taken = 0;
  while (share_acquire_for_many(&clients, proxy, SHARE_BYTES, 1) == GRANTED) taken++;
  assert_int_equal(taken, LIMIT - LIMIT / 8);
  assert_int_equal(proxy->held[SHARE_BYTES], taken);
  assert_int_equal(share_acquire_for_many(&clients, other, SHARE_BYTES, 1), OVER_SERVER_LIMIT);  // another proxy
  assert_true(take(other, LIMIT / 16));
  share_release(&clients, proxy, SHARE_BYTES, 10 + LIMIT / 16);
  assert_int_equal(share_acquire_for_many(&clients, proxy, SHARE_BYTES, 11), OVER_SERVER_LIMIT);
  assert_int_equal(share_acquire_for_many(&clients, proxy, SHARE_BYTES, 10), GRANTED);
  give_all(proxy);
  give_all(other);
}

// ---- turns ----------------------------------------------------------------------------------------------------------

static struct queue queue;
static struct queue_waiter waiter;
static atomic_llong load;
static atomic_bool gone;

static struct job job_of(struct client *client, int64_t deadline_ns) {
  return (struct job){.client = client, .spec.gone = &gone, .held.queue_slot = SHARES, .deadline_ns = deadline_ns};
}

static void expect(const struct job *job) { assert_ptr_equal(queue_pop(&queue, &waiter), job); }

static int open_queue(void **state) {
  queue_init(&queue, VX_LANE_QUICK);
  queue_tick(&queue, 100, 0);
  atomic_store(&load, 0);
  queue_waiter_init(&waiter, QUEUE_CPU, &load);
  return open_clients(state);
}

static int close_queue(void **state) {
  queue_waiter_end(&waiter);
  queue_end(&queue);
  return close_clients(state);
}

static void clients_take_turns(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2"), *c = join("192.0.2.3");
  struct job ofa[4], ofb[2], ofc = job_of(c, INT64_MAX);
  for (int i = 0; i < 4; i++) assert_true((ofa[i] = job_of(a, INT64_MAX), queue_push(&queue, &ofa[i])));
  for (int i = 0; i < 2; i++) assert_true((ofb[i] = job_of(b, INT64_MAX), queue_push(&queue, &ofb[i])));
  expect(&ofa[0]);
  assert_true(queue_push(&queue, &ofc));
  expect(&ofb[0]);
  expect(&ofa[1]);
  expect(&ofc);
  expect(&ofb[1]);
  expect(&ofa[2]);
  expect(&ofa[3]);
  assert_int_equal(atomic_load(&queue.depth), 0);
  clients_release(&clients, a);
  clients_release(&clients, b);
  clients_release(&clients, c);
}

static bool is_late(struct job *job, struct job_choice *choice) { return job->deadline_ns < choice->now_ns; }

static void late_jobs_leave_the_others_their_turns(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2"), *c = join("192.0.2.3");
  struct job all[] = {job_of(a, 5), job_of(a, 9), job_of(a, 5), job_of(b, 5), job_of(c, 9), job_of(c, 5), job_of(c, 9)};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_true(queue_push(&queue, &all[i]));
  int late = 0;
  for (struct job *job = queue_take(&queue, &(struct job_choice){.takes = is_late, .now_ns = 7}); job;
       job = job->next) {
    assert_int_equal(job->deadline_ns, 5);
    late++;
  }
  assert_int_equal(late, 4);
  assert_int_equal(atomic_load(&queue.depth), 3);
  expect(&all[1]);
  expect(&all[4]);
  struct job more = job_of(b, 9);
  assert_true(queue_push(&queue, &more));
  expect(&all[6]);
  expect(&more);
  clients_release(&clients, a);
  clients_release(&clients, b);
  clients_release(&clients, c);
}

// A worker, and the job that it got.
struct popper {
  pthread_t thread;
  struct queue_waiter waiter;
  struct job *job;
};

static void *pop(void *argument) {
  struct popper *popper = argument;
  popper->job = queue_pop(&queue, &popper->waiter);
  return NULL;
}

static bool is_asleep(struct popper *popper) {
  bool asleep = false;
  lock_acquire(&queue.lock);
  for (struct queue_waiter *idle = queue.idle[popper->waiter.device]; idle; idle = idle->next)
    asleep |= idle == &popper->waiter;
  lock_release(&queue.lock);
  return asleep;
}

static void the_device_with_the_fewest_jobs_gets_the_next(void **state) {
  (void)state;
  enum { POPPERS = 4, DEVICES = 2 };
  static const long long after[POPPERS][DEVICES] = {{6, 5}, {6, 6}, {7, 6}, {7, 7}};
  struct client *a = join("192.0.2.1");
  atomic_llong loads[DEVICES] = {5, 5};
  struct popper poppers[POPPERS];
  for (int i = 0; i < POPPERS; i++) {  // two workers of each device
    queue_waiter_init(&poppers[i].waiter, QUEUE_GPU + i / 2, &loads[i / 2]);
    assert_int_equal(pthread_create(&poppers[i].thread, NULL, pop, &poppers[i]), 0);
    while (!is_asleep(&poppers[i])) sched_yield();
  }
  struct job jobs[POPPERS];
  for (int i = 0; i < POPPERS; i++) {
    jobs[i] = job_of(a, INT64_MAX);
    assert_true(queue_push(&queue, &jobs[i]));
    for (int device = 0; device < DEVICES; device++) assert_int_equal(atomic_load(&loads[device]), after[i][device]);
  }
  for (int i = 0; i < POPPERS; i++) pthread_join(poppers[i].thread, NULL);
  queue_done(&queue, &poppers[0].waiter, poppers[0].job);
  assert_int_equal(atomic_load(&loads[0]), 6);
  for (int i = 0; i < POPPERS; i++) queue_waiter_end(&poppers[i].waiter);
  clients_release(&clients, a);
}

static void a_worker_that_was_borrowed_gets_the_next_job(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1");
  struct job borrowed = job_of(a, INT64_MAX), next = job_of(a, INT64_MAX);
  struct popper popper;
  for (int stops = 0; stops < 2; stops++) {
    queue_waiter_init(&popper.waiter, QUEUE_GPU, &load);
    assert_null(queue_acquire(&queue, &borrowed));  // no worker sleeps
    assert_int_equal(pthread_create(&popper.thread, NULL, pop, &popper), 0);
    while (!is_asleep(&popper)) sched_yield();
    assert_ptr_equal(queue_acquire(&queue, &borrowed), &popper.waiter);
    assert_int_equal(atomic_load(&load), 1);
    assert_null(queue_acquire(&queue, &next));
    if (stops)
      queue_stop(&queue);
    else
      assert_true(queue_push(&queue, &next));
    queue_done(&queue, &popper.waiter, &borrowed);
    queue_release(&queue, &popper.waiter);
    pthread_join(popper.thread, NULL);
    assert_ptr_equal(popper.job, stops ? NULL : &next);
    if (!stops) queue_done(&queue, &popper.waiter, &next);
    assert_int_equal(atomic_load(&load), 0);
    queue_waiter_end(&popper.waiter);
  }
  clients_release(&clients, a);
}

static void while_others_are_served_one_worker_is_left_to_them(void **state) {
  (void)state;
  struct client *a = join("192.0.2.1"), *b = join("192.0.2.2");
  struct job ofa[5], ofb = job_of(b, INT64_MAX), late = job_of(b, INT64_MAX);
  queue_tick(&queue, 3, 0);  // of three workers, a client may use two while others are served
  for (int i = 0; i < 5; i++) ofa[i] = job_of(a, INT64_MAX);
  assert_true(queue_push(&queue, &ofa[0]) && queue_push(&queue, &ofa[1]) && queue_push(&queue, &ofa[2]));
  expect(&ofa[0]);
  expect(&ofa[1]);
  expect(&ofa[2]);  // `a` is alone, so it may use all three
  assert_true(queue_push(&queue, &ofa[3]) && queue_push(&queue, &ofb) && queue_push(&queue, &late));
  expect(&ofb);
  expect(&late);
  queue_done(&queue, &waiter, &ofa[0]);
  assert_true(queue_requeue(&queue, &waiter, &late));
  expect(&late);  // two jobs of `a` still run
  queue_done(&queue, &waiter, &ofa[1]);
  expect(&ofa[3]);
  assert_true(queue_push(&queue, &ofa[4]));
  queue_stop(&queue);
  expect(&ofa[4]);  // a stopped queue does not hold jobs back for others
  expect(NULL);
  clients_release(&clients, a);
  clients_release(&clients, b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_greediest_come_first, open_clients, close_clients),
      cmocka_unit_test(the_greediest_of_many),
      cmocka_unit_test_setup_teardown(addresses_and_users, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(hosts_of_ipv6_have_64_bits, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(no_name_is_anothers, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(names_by_address, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(no_more_than_there_is_room_for, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(lives_as_long_as_it_holds_something, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(one_gets_half_two_a_third_each, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(whoever_holds_nothing_may_take_what_is_left, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(large_requests_leave_room_for_small_ones, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(a_client_that_is_alone_takes_the_rest_too, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(nobody_takes_more_than_there_is, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(a_lone_request_may_have_more_than_a_part, open_clients, close_clients),
      cmocka_unit_test(the_greedy_leave_some_to_the_next),
      cmocka_unit_test_setup_teardown(request_is_not_refused_for_its_own_sake, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(shares_are_apart, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(a_proxy_leaves_an_eighth, open_clients, close_clients),
      cmocka_unit_test_setup_teardown(clients_take_turns, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(the_device_with_the_fewest_jobs_gets_the_next, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(a_worker_that_was_borrowed_gets_the_next_job, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(while_others_are_served_one_worker_is_left_to_them, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(late_jobs_leave_the_others_their_turns, open_queue, close_queue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

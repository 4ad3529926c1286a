// Events of subscribers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "server/streams/events.h"
#include "tests/support/moved_clock.h"

static struct clients clients;
static struct events events;
static struct client *ours, *other;
static struct error error;
static struct event event;
static char memory[EVENT_TEXT_SIZE];

// A subscriber with stand-ins for its connection.
struct ear {
  struct subscriber subscriber;
  atomic_bool half_closed, gone;
  atomic_int sleeps, wakes;
};
static struct ear ears[4];

static void on_sleep(struct subscriber *subscriber) { ((struct ear *)(void *)subscriber)->sleeps++; }
static void on_wake(struct subscriber *subscriber) { ((struct ear *)(void *)subscriber)->wakes++; }

static int open_all(void **state) {
  (void)state;
  const int64_t limits[SHARES] = {[SHARE_SUBSCRIBERS] = 5};
  if (!clients_init(&clients, 8, limits)) return -1;
  events_init(&events, &clients);
  ours = clients_acquire(&clients, "", "127.0.0.1");
  other = clients_acquire(&clients, "lidar-7", "127.0.0.1");
  memset(ears, 0, sizeof ears);
  return 0;
}

static int close_all(void **state) {
  (void)state;
  while (events.first) subscriber_release(&events, events.first);
  events_end(&events);
  clients_release(&clients, ours);
  clients_release(&clients, other);
  int64_t left = clients_use(&clients).present;
  clients_end(&clients);
  return left == 0 ? 0 : -1;
}

static bool subscribe_since(int64_t came_ns, struct ear *ear, struct client *client, const char *stream) {
  const struct event open = {.kind = EVENT_OPEN};
  strcpy(ear->subscriber.stream, stream);
  ear->subscriber.half_closed = &ear->half_closed;
  ear->subscriber.gone = &ear->gone;
  ear->subscriber.came_ns = came_ns;
  ear->subscriber.sleep = on_sleep;
  ear->subscriber.wake = on_wake;
  return events_subscribe(&events, client, &open, &ear->subscriber, &error);
}

static bool subscribe(struct ear *ear, struct client *client, const char *stream) {
  return subscribe_since(clock_ns(), ear, client, stream);
}

static void tell(struct client *client, const char *stream, double time) {
  struct event sweep = {.kind = EVENT_SWEEP, .sweeps = 1, .time = time};
  strcpy(sweep.stream, stream);
  events_tell(&events, client, &sweep);
}

static enum event_step take(struct ear *ear) { return events_take(&events, &ear->subscriber, &event, clock_ns()); }

static void takes(struct ear *ear, enum event_kind kind) {
  assert_int_equal(take(ear), EVENT_TAKEN);
  assert_int_equal(event.kind, kind);
}

static void takes_sweep(struct ear *ear, const char *stream, double time) {
  takes(ear, EVENT_SWEEP);
  assert_string_equal(event.stream, stream);
  assert_true(event.time == time);
}

static void falls_asleep(struct ear *ear) {
  int before = ear->sleeps;
  assert_int_equal(take(ear), EVENT_ASLEEP);
  assert_int_equal(ear->sleeps, before + 1);
}

// ---- who is told what -----------------------------------------------------------------------------------------------

static void own_streams_in_order(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "a") && subscribe(&ears[1], ours, "") && subscribe(&ears[2], other, ""));
  for (int i = 0; i < 3; i++) takes(&ears[i], EVENT_OPEN);
  tell(ours, "a", 1);
  tell(ours, "b", 2);
  tell(other, "a", 3);
  tell(ours, "a", 4);
  takes_sweep(&ears[0], "a", 1);
  takes_sweep(&ears[0], "a", 4);
  takes_sweep(&ears[1], "a", 1);
  takes_sweep(&ears[1], "b", 2);
  takes_sweep(&ears[1], "a", 4);
  takes_sweep(&ears[2], "a", 3);
  for (int i = 0; i < 3; i++) falls_asleep(&ears[i]);
  assert_int_equal(events_use(&events).told, 9);
  subscriber_release(&events, &ears[1].subscriber);
  tell(ours, "a", 5);
  assert_int_equal(ears[0].wakes, 1);
  assert_int_equal(ears[1].wakes, 0);
  assert_int_equal(events_use(&events).subscribers, 2);
}

static void the_slow_lose_the_oldest(void **state) {
  (void)state;
  enum { LOST = 5 };
  assert_true(subscribe(&ears[0], ours, "a"));
  takes(&ears[0], EVENT_OPEN);
  for (int time = 1; time <= EVENTS_KEPT + LOST; time++) tell(ours, "a", time);
  takes(&ears[0], EVENT_LOST);
  assert_int_equal(event.count, LOST);
  for (int time = LOST + 1; time <= EVENTS_KEPT + LOST; time++) takes_sweep(&ears[0], "a", time);
  falls_asleep(&ears[0]);
  assert_int_equal(events_use(&events).lost, LOST);
}

static void woken_once_for_each_sleep(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "a"));
  assert_int_equal(ears[0].wakes, 0);
  takes(&ears[0], EVENT_OPEN);
  falls_asleep(&ears[0]);
  tell(ours, "a", 1);
  tell(ours, "a", 2);
  events_tick(&events, clock_ns() + 60 * NS_PER_S);
  events_end_all(&events, "stop", true);
  assert_int_equal(ears[0].wakes, 1);
}

// ---- silence --------------------------------------------------------------------------------------------------------

static void beats(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "a"));
  takes(&ears[0], EVENT_OPEN);
  falls_asleep(&ears[0]);
  clock_move_ms(14999);
  events_tick(&events, clock_ns());
  assert_int_equal(ears[0].wakes, 0);
  clock_move_ms(1);
  events_tick(&events, clock_ns());
  assert_int_equal(ears[0].wakes, 1);
  takes(&ears[0], EVENT_BEAT);
  falls_asleep(&ears[0]);
  clock_move_ms(10000);
  tell(ours, "a", 1);
  takes_sweep(&ears[0], "a", 1);
  falls_asleep(&ears[0]);
  clock_move_ms(10000);
  events_tick(&events, clock_ns());  // an event restarts the time until the next beat
  assert_int_equal(ears[0].wakes, 2);
}

static void beats_sooner_in_doubt(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "a"));
  takes(&ears[0], EVENT_OPEN);
  falls_asleep(&ears[0]);
  ears[0].half_closed = true;
  clock_move_ms(999);
  events_tick(&events, clock_ns());
  assert_int_equal(ears[0].wakes, 0);
  clock_move_ms(1);
  events_tick(&events, clock_ns());
  assert_int_equal(ears[0].wakes, 1);
  takes(&ears[0], EVENT_BEAT);
  falls_asleep(&ears[0]);
}

static void subscribers_that_are_gone_end(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "a"));
  takes(&ears[0], EVENT_OPEN);
  falls_asleep(&ears[0]);
  ears[0].gone = true;
  events_tick(&events, clock_ns());
  assert_int_equal(ears[0].wakes, 1);
  assert_int_equal(take(&ears[0]), EVENT_OVER);
}

// ---- the end --------------------------------------------------------------------------------------------------------

static void the_last_event(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "a"));
  takes(&ears[0], EVENT_OPEN);
  tell(ours, "a", 1);
  events_end_all(&events, "reload", false);
  tell(ours, "a", 2);
  clock_move_ms(1);
  assert_true(subscribe(&ears[1], ours, "a"));  // events_end_all does not end later subscribers
  takes_sweep(&ears[0], "a", 1);
  takes(&ears[0], EVENT_END);
  assert_string_equal(event.reason, "reload");
  assert_int_equal(take(&ears[0]), EVENT_OVER);
  assert_int_equal(take(&ears[0]), EVENT_OVER);
  takes(&ears[1], EVENT_OPEN);
  falls_asleep(&ears[1]);
  events_end_all(&events, "stop", true);
  takes(&ears[1], EVENT_END);
  assert_string_equal(event.reason, "stop");
  assert_false(subscribe(&ears[2], ours, "a"));
  assert_int_equal(error.kind, ERROR_DRAINING);
}

// A request that came before the reload, and subscribes after it, ends at once: its credentials may be withdrawn.
static void late_with_old_credentials(void **state) {
  (void)state;
  int64_t came_ns = clock_ns();
  clock_move_ms(1);
  events_end_all(&events, "reload", false);
  clock_move_ms(1);
  assert_true(subscribe_since(came_ns, &ears[0], ours, "a") && subscribe(&ears[1], ours, "a"));
  takes(&ears[0], EVENT_OPEN);
  takes(&ears[0], EVENT_END);
  assert_string_equal(event.reason, "reload");
  assert_int_equal(take(&ears[0]), EVENT_OVER);
  takes(&ears[1], EVENT_OPEN);
  falls_asleep(&ears[1]);
}

static void share_of_subscribers(void **state) {
  (void)state;
  assert_true(subscribe(&ears[0], ours, "") && subscribe(&ears[1], ours, ""));
  assert_false(subscribe(&ears[2], ours, "") && subscribe(&ears[3], ours, ""));
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  assert_non_null(strstr(error.text, "all clients together have up to 256"));
  assert_true(subscribe(&ears[3], other, ""));
  while (events.first) subscriber_release(&events, events.first);
  assert_int_equal(clients_use(&clients).held[SHARE_SUBSCRIBERS], 0);
}

// ---- as text --------------------------------------------------------------------------------------------------------

static void writes(const struct event *told, const char *expected) {
  struct text out = text_over(memory, sizeof memory);
  event_write(told, &out);
  assert_true(text_complete(&out));
  assert_string_equal(memory, expected);
}

static void texts(void **state) {
  (void)state;
  writes(&(struct event){.kind = EVENT_OPEN, .streams = 2}, "event: open\ndata: {\"streams\":2}\n\n");
  writes(&(struct event){.kind = EVENT_OPEN, .stream = "a"}, "event: open\ndata: {\"stream\":\"a\",\"sweeps\":0}\n\n");
  writes(&(struct event){.kind = EVENT_OPEN, .stream = "a", .sweeps = 2, .time = 1.5},
         "event: open\ndata: {\"stream\":\"a\",\"sweeps\":2,\"time\":1.5}\n\n");
  writes(&(struct event){.kind = EVENT_SWEEP,
                         .stream = "a",
                         .sweeps = 2,
                         .time = 0.1,
                         .repeated = true,
                         .points = {.received = 9, .removed_close = 2, .joined = 7, .not_finite = 1}},
         "event: sweep\ndata: {\"stream\":\"a\",\"sweeps\":2,\"time\":0.1,\"begun\":false,\"repeated\":true,"
         "\"superseded\":false,\"points\":{\"received\":9,\"removed_close\":2,\"joined\":7,\"not_finite\":1}}\n\n");
  writes(&(struct event){.kind = EVENT_EVICTED, .stream = "a", .sweeps = 1, .count = 3},
         "event: evicted\ndata: {\"stream\":\"a\",\"sweeps\":1,\"dropped\":3}\n\n");
  writes(&(struct event){.kind = EVENT_EXPIRED, .stream = "a", .count = 3},
         "event: expired\ndata: {\"stream\":\"a\",\"sweeps\":0,\"dropped\":3}\n\n");
  writes(&(struct event){.kind = EVENT_DELETED, .stream = "a"},
         "event: deleted\ndata: {\"stream\":\"a\",\"sweeps\":0}\n\n");
  writes(&(struct event){.kind = EVENT_LOST, .count = 5}, "event: lost\ndata: {\"events\":5}\n\n");
  writes(&(struct event){.kind = EVENT_BEAT}, ":\n\n");
  writes(&(struct event){.kind = EVENT_END, .reason = "stop"}, "event: end\ndata: {\"reason\":\"stop\"}\n\n");
}

static void the_longest_fits(void **state) {
  (void)state;
  struct event longest = {.kind = EVENT_SWEEP,
                          .sweeps = STREAM_SWEEPS_MAX,
                          .time = -1.2345678901234567e-300,
                          .points = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
  struct text out = text_over(memory, sizeof memory);
  memset(longest.stream, 'a', STREAM_NAME_SIZE - 1);
  event_write(&longest, &out);
  assert_true(text_complete(&out));
}

// ---- threads --------------------------------------------------------------------------------------------------------

enum { TELLERS = 3, TOLD = 2000 };

static void *tell_many(void *cls) {
  (void)cls;
  for (int time = 1; time <= TOLD; time++) tell(ours, "a", time);
  return NULL;
}

static void *take_many(void *cls) {
  struct ear *ear = cls;
  struct event taken;
  static long long seen;
  seen = 0;
  for (;;) {
    enum event_step step = events_take(&events, &ear->subscriber, &taken, clock_ns());
    if (step == EVENT_OVER) return &seen;
    if (step == EVENT_TAKEN && taken.kind != EVENT_END) seen += taken.kind == EVENT_LOST ? taken.count : 1;
    while (step == EVENT_ASLEEP && atomic_load(&ear->wakes) < atomic_load(&ear->sleeps)) clock_pause();
  }
}

// Each event is taken or reported as lost, and each sleeping subscriber is woken.
static void many_threads(void **state) {
  (void)state;
  pthread_t tellers[TELLERS], taker;
  void *seen;
  assert_true(subscribe(&ears[0], ours, "a"));
  assert_int_equal(pthread_create(&taker, NULL, take_many, &ears[0]), 0);
  for (int i = 0; i < TELLERS; i++) assert_int_equal(pthread_create(&tellers[i], NULL, tell_many, NULL), 0);
  for (int i = 0; i < TELLERS; i++) pthread_join(tellers[i], NULL);
  events_end_all(&events, "stop", true);
  pthread_join(taker, &seen);
  assert_int_equal(*(long long *)seen, 1 + TELLERS * TOLD);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(own_streams_in_order),
      TEST(the_slow_lose_the_oldest),
      TEST(woken_once_for_each_sleep),
      TEST(beats),
      TEST(beats_sooner_in_doubt),
      TEST(subscribers_that_are_gone_end),
      TEST(the_last_event),
      TEST(late_with_old_credentials),
      TEST(share_of_subscribers),
      TEST(texts),
      TEST(the_longest_fits),
      TEST(many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

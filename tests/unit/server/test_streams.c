// Streams.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "server/streams/streams.h"
#include "tests/support/moved_clock.h"

enum { CAPACITY = 100 };  // bytes that the streams count for a sweep

// Stands in for struct buffer of server/jobs/buffers.h.
struct buffer {
  struct stream_tracks tracks;  // unused by sweeps
};

static struct clients clients;
static struct streams streams;
static struct client *ours, *other;
static struct error error;
static struct gathered gathered;
static const struct sweep_shape shape = {4, VX_FLOAT32};
static int memories;  // buffers that are not released yet

static void release(struct buffer *memory) {
  memories--;
  free(memory);
}

static int open_all(void **state) {
  (void)state;
  const int64_t limits[SHARES] = {[SHARE_STREAMS] = 6, [SHARE_SUBSCRIBERS] = 6};
  const struct options options = {.stream_memory_bytes = 1, .stream_ttl_s = 10};
  memories = 0;
  if (!clients_init(&clients, 8, limits)) return -1;
  streams_init(&streams, &options, &clients, release);
  ours = clients_acquire(&clients, "", "127.0.0.1");
  other = clients_acquire(&clients, "lidar-7", "127.0.0.1");
  return 0;
}

static int close_all(void **state) {
  (void)state;
  streams_end(&streams);
  clients_release(&clients, ours);
  clients_release(&clients, other);
  int64_t left = clients_use(&clients).present;
  clients_end(&clients);
  return left == 0 && memories == 0 ? 0 : -1;
}

static struct stream_terms terms_of(const char *name, double time, int32_t sweeps) {
  struct stream_terms terms = {.time = time, .sweeps = sweeps};
  strcpy(terms.name, name);
  return terms;
}

static struct sweep *sweep_of(double time) {
  struct sweep *sweep = sweep_new(&streams);
  assert_non_null(sweep);
  sweep->time = time;
  sweep->place = pose_identity;
  sweep->memory = malloc(sizeof *sweep->memory);
  sweep->bytes = CAPACITY;
  sweep->points = 1;
  memories++;
  return sweep;
}

// Does what a request with these sweeps does: takes its turn, gathers, keeps, ends its turn. False if refused.
static bool send_sweeps(struct client *client, const struct stream_terms *terms, const struct sweep_shape *its_shape,
                        struct sweep *own, int32_t lost, bool succeeds) {
  struct stream_turn turn = {.time = own->time, .listed = own->next != NULL};
  assert_int_equal(turn_acquire(&streams, client, terms->name, &turn, true, &error), STREAM_TURN);
  bool good = gather_sweeps(&streams, &turn, terms, its_shape, own, &gathered, &error);
  if (good && succeeds) keep_sweeps(&streams, &turn, terms, its_shape, own, lost);
  if (good) gathered_release(&streams, &gathered);
  sweeps_release(&streams, own);
  turn_release(&streams, &turn);
  return good;
}

static bool send_to(struct client *client, const struct stream_terms *terms, const struct sweep_shape *its_shape,
                    bool succeeds) {
  return send_sweeps(client, terms, its_shape, sweep_of(terms->time), 0, succeeds);
}

// Sends several sweeps, the newest first, in one request.
static bool send_along(const double *times, int32_t count, int32_t sweeps, int32_t lost) {
  struct stream_terms terms = terms_of("a", times[0], sweeps);
  struct sweep *own = NULL;
  for (int32_t i = count - 1; i >= 0; i--) {
    struct sweep *sweep = sweep_of(times[i]);
    sweep->next = own;
    own = sweep;
  }
  return send_sweeps(ours, &terms, &shape, own, lost, true);
}
#define SEND_ALONG(sweeps, ...)                                                                                        \
  send_along((const double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double), sweeps, 0)

// The times of the sweeps that the last request joined: "5 4k" if 5 came with it and the stream had kept 4.
static void assert_gathered(const char *expected) {
  char memory[200];
  struct text out = text_over(memory, sizeof memory);
  for (int32_t i = 0; i < gathered.count; i++)
    text_printf(&out, "%s%g%s", i ? " " : "", gathered.list[i].sweep->time, gathered.list[i].sent ? "" : "k");
  assert_string_equal(memory, expected);
}

static bool send(const char *name, double time, int32_t sweeps) {
  struct stream_terms terms = terms_of(name, time, sweeps);
  return send_to(ours, &terms, &shape, true);
}

// ---- sweeps ---------------------------------------------------------------------------------------------------------

static void newest_first(void **state) {
  (void)state;
  for (int time = 1; time <= 5; time++) assert_true(send("a", time, 3));
  assert_int_equal(gathered.count, 3);
  assert_int_equal(gathered.wanted, 3);
  assert_int_equal(streams_use(&streams).sweeps, 3);
  assert_int_equal(streams_use(&streams).bytes, 3 * CAPACITY);
  assert_int_equal(memories, 3);
  assert_true(send("a", 6, 1));  // the stream keeps only as many sweeps as the request asks for
  assert_int_equal(memories, 1);
  assert_true(send("a", 7, 3));
  assert_int_equal(gathered.count, 2);
}

static void repeated_sweep(void **state) {
  (void)state;
  assert_true(send("a", 1, 3) && gathered.begun && !gathered.repeated);
  assert_true(send("a", 2, 3) && !gathered.begun);
  assert_true(send("a", 2, 3) && gathered.repeated);
  assert_int_equal(gathered.count, 2);
  assert_int_equal(memories, 2);
  assert_int_equal(streams_use(&streams).repeated, 1);
  assert_int_equal(streams_use(&streams).kept, 2);
  assert_int_equal(streams_use(&streams).bytes, 2 * CAPACITY);
}

static void refused_sweeps(void **state) {
  (void)state;
  const struct sweep_shape wider = {5, VX_FLOAT32}, halves = {4, VX_FLOAT16};
  struct stream_terms later = terms_of("a", 3, 3);
  assert_true(send("a", 2, 3));
  assert_false(send("a", 1.5, 3));
  assert_int_equal(error.kind, ERROR_STREAM_TIME);
  assert_string_equal(error.parameter, "time");
  assert_non_null(strstr(error.text, "time is 1.5, but the stream 'a' has a sweep of 2"));
  assert_false(send_to(ours, &later, &wider, true));
  assert_int_equal(error.kind, ERROR_STREAM_SHAPE);
  assert_string_equal(error.parameter, "num_features");
  assert_false(send_to(ours, &later, &halves, true));
  assert_string_equal(error.parameter, "dtype");
  assert_true(send_to(ours, &later, &shape, false));  // a request that fails after gathering
  assert_int_equal(memories, 1);
  assert_true(send("a", 2.5, 3));
  assert_int_equal(gathered.count, 2);
}

// Older sweeps in a request are merged with the stream's sweeps, and replace sweeps of the same time.
static void sent_along(void **state) {
  (void)state;
  assert_true(SEND_ALONG(4, 4, 2));
  assert_gathered("4 2");
  assert_true(gathered.begun && !gathered.repeated);
  assert_true(SEND_ALONG(4, 5, 4, 3));
  assert_gathered("5 4 3 2k");
  assert_false(gathered.begun || gathered.repeated);
  assert_int_equal(streams_use(&streams).repeated, 1);
  assert_int_equal(streams_use(&streams).kept, 4);
  assert_true(SEND_ALONG(4, 5, 1));  // sweep 1 is not joined: there are enough newer ones
  assert_gathered("5 4k 3k 2k");
  assert_true(gathered.repeated);
  assert_int_equal(streams_use(&streams).sweeps, 4);
  assert_int_equal(streams_use(&streams).bytes, 4 * CAPACITY);
  assert_int_equal(memories, 4);
  assert_false(SEND_ALONG(4, 4.5, 4));
  assert_int_equal(error.kind, ERROR_STREAM_TIME);
  assert_string_equal(error.parameter, "times");
  assert_non_null(strstr(error.text, "the newest of times is 4.5, but the stream 'a' has a sweep of 5"));
  assert_true(SEND_ALONG(2, 7, 6));
  assert_int_equal(memories, 2);
}

// Each sweep expires a fixed time after its arrival, even if older sweeps arrived later. Sweeps are evicted one by one.
static void end_of_those_sent_along(void **state) {
  (void)state;
  assert_true(send("a", 4, 4));
  clock_move_ms(6000);
  assert_true(SEND_ALONG(4, 5, 3));
  clock_move_ms(5000);
  assert_true(send("a", 6, 4));
  assert_gathered("6 5k 3k");
  assert_int_equal(gathered.expired, 1);
  assert_true(streams_evict(&streams, ours));
  assert_int_equal(memories, 2);
  assert_true(send("a", 7, 4));
  assert_gathered("7 6k 5k");
  assert_int_equal(gathered.evicted, 1);
}

static void no_room_for_those_sent_along(void **state) {
  (void)state;
  assert_true(send_along((const double[]){5, 4}, 2, 4, 3));  // three more sweeps were joined but not kept
  assert_int_equal(streams_use(&streams).evicted, 3);
  assert_true(send("a", 6, 4));
  assert_gathered("6 5k 4k");
  assert_int_equal(gathered.evicted, 3);
}

// The answer to a failed request reports no lost sweeps; the next answer does.
static void losses_are_told_once(void **state) {
  (void)state;
  const struct sweep_shape wider = {5, VX_FLOAT32};
  struct stream_terms later = terms_of("a", 4, 3);
  for (int time = 1; time <= 3; time++) assert_true(send("a", time, 3));
  assert_true(streams_evict(&streams, ours));
  assert_false(send_to(ours, &later, &wider, true));
  assert_true(send_to(ours, &later, &shape, false));  // a request that fails after gathering
  assert_int_equal(gathered.evicted, 1);
  assert_true(streams_evict(&streams, ours));
  assert_true(send("a", 4, 3));
  assert_int_equal(gathered.evicted, 2);
  assert_true(send("a", 5, 3));
  assert_int_equal(gathered.evicted, 0);
}

static void failed_first(void **state) {
  (void)state;
  struct stream_terms terms = terms_of("a", 3, 3);
  assert_true(send_to(ours, &terms, &shape, false));
  assert_int_equal(streams_use(&streams).streams, 0);
  assert_int_equal(clients_use(&clients).held[SHARE_STREAMS], 0);
}

static void ages(void **state) {
  (void)state;
  assert_true(send("a", 1, 3));
  clock_move_ms(6000);
  assert_true(send("a", 2, 3));
  clock_move_ms(5000);
  streams_tick(&streams, clock_ns());
  assert_int_equal(streams_use(&streams).sweeps, 1);
  assert_true(send("a", 3, 3));
  assert_int_equal(gathered.count, 2);
  assert_int_equal(gathered.expired, 1);
  clock_move_ms(10000);
  assert_true(send("a", 1, 3));  // all sweeps have expired, so the stream starts over
  assert_true(gathered.begun);
  assert_int_equal(gathered.expired, 2);
}

static void eviction(void **state) {
  (void)state;
  struct stream_terms theirs = terms_of("b", 1, 3);
  for (int time = 1; time <= 2; time++) {
    assert_true(send("a", time, 3));
    clock_move_ms(1);
  }
  assert_true(send_to(other, &theirs, &shape, true));
  clock_move_ms(1);
  assert_true(send("c", 1, 3));
  assert_true(streams_evict(&streams, NULL));  // evicts the first sweep of `a`
  assert_true(send("a", 3, 3));
  assert_int_equal(gathered.count, 2);
  assert_int_equal(gathered.evicted, 1);
  assert_true(streams_evict(&streams, other));
  assert_false(streams_evict(&streams, other));
  for (int i = 0; i < 3; i++) assert_true(streams_evict(&streams, NULL));
  assert_false(streams_evict(&streams, NULL));
  assert_int_equal(streams_use(&streams).streams, 0);
  assert_int_equal(streams_use(&streams).evicted, 5);
}

// A reader keeps a sweep's memory, even if the stream is dropped.
static void read_while_dropped(void **state) {
  (void)state;
  struct stream_terms terms;
  struct sweep_shape its_shape;
  assert_true(send("a", 1, 2) && send("a", 2, 2));
  assert_true(gather_last(&streams, ours, "a", &gathered, &terms, &its_shape, &error));
  assert_int_equal(gathered.count, 2);
  assert_true(gathered.newest->time == 2 && terms.sweeps == 2 && its_shape.columns == 4);
  assert_true(streams_delete(&streams, ours, "a", &error));
  assert_int_equal(memories, 2);
  gathered_release(&streams, &gathered);
  assert_int_equal(memories, 0);
  assert_false(gather_last(&streams, ours, "a", &gathered, &terms, &its_shape, &error));
  assert_int_equal(error.kind, ERROR_NOT_FOUND);
}

// ---- clients --------------------------------------------------------------------------------------------------------

static void own_streams(void **state) {
  (void)state;
  char memory[2000];
  struct text out = text_over(memory, sizeof memory);
  struct stream_terms theirs = terms_of("a", 1, 2);
  assert_true(send("a", 5, 2));
  assert_true(send_to(other, &theirs, &shape, true) && gathered.begun);
  assert_false(streams_delete(&streams, other, "b", &error));
  assert_int_equal(error.kind, ERROR_NOT_FOUND);
  assert_true(streams_delete(&streams, other, "a", &error));
  assert_false(streams_write(&streams, other, "a", &out, &error));
  out = text_over(memory, sizeof memory);
  assert_true(streams_write(&streams, other, NULL, &out, &error));
  assert_string_equal(memory, "{\"streams\":[]}\n");
  out = text_over(memory, sizeof memory);
  assert_true(streams_write(&streams, ours, "a", &out, &error));
  assert_non_null(strstr(memory, "\"sweeps\":[{\"time\":5,"));
}

static void share_of_streams(void **state) {
  (void)state;
  struct stream_turn turn = {.time = 1};
  assert_true(send("a", 1, 1) && send("b", 1, 1) && send("c", 1, 1));
  assert_int_equal(turn_acquire(&streams, ours, "d", &turn, true, &error), STREAM_REFUSED);
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  assert_int_equal(turn_acquire(&streams, other, "d", &turn, true, &error), STREAM_TURN);
  turn_release(&streams, &turn);
}

// ---- subscribers ----------------------------------------------------------------------------------------------------

static void nothing(struct subscriber *subscriber) { (void)subscriber; }

static void is_told(struct subscriber *subscriber, enum event_kind kind, int64_t sweeps, int64_t count) {
  struct event event;
  assert_int_equal(events_take(&streams.events, subscriber, &event, clock_ns()), EVENT_TAKEN);
  assert_int_equal(event.kind, kind);
  assert_int_equal(event.sweeps, sweeps);
  assert_int_equal(event.count, count);
  assert_true(event.kind != EVENT_SWEEP || event.begun == (sweeps == 1));
}

static void subscribers(void **state) {
  (void)state;
  static const atomic_bool no = false;
  struct subscriber one = {.half_closed = &no, .gone = &no, .sleep = nothing, .wake = nothing}, all = one;
  struct stream_terms theirs = terms_of("a", 1, 3);
  struct event event;
  assert_true(send("a", 1, 3));
  assert_false(streams_subscribe(&streams, ours, "a b", &one, &error));
  assert_int_equal(error.kind, ERROR_NOT_FOUND);
  assert_true(streams_subscribe(&streams, ours, "a", &one, &error));
  assert_true(streams_subscribe(&streams, ours, "", &all, &error));
  is_told(&one, EVENT_OPEN, 1, 0);
  assert_int_equal(events_take(&streams.events, &all, &event, clock_ns()), EVENT_TAKEN);
  assert_int_equal(event.streams, 1);
  clock_move_ms(6000);
  assert_true(send("a", 2, 3) && send("b", 1, 3) && send_to(other, &theirs, &shape, true));
  assert_true(send("a", 2, 3));
  is_told(&one, EVENT_SWEEP, 2, 0);
  is_told(&one, EVENT_SWEEP, 2, 0);  // the same sweep was sent again
  clock_move_ms(5000);
  streams_tick(&streams, clock_ns());
  is_told(&one, EVENT_EXPIRED, 1, 1);
  while (streams_evict(&streams, ours)) continue;
  is_told(&one, EVENT_EVICTED, 0, 1);
  assert_true(send("a", 1, 3));
  is_told(&one, EVENT_SWEEP, 1, 0);
  assert_true(streams_delete(&streams, ours, "a", &error));
  is_told(&one, EVENT_DELETED, 0, 0);
  assert_int_equal(one.count, 0);
  assert_int_equal(all.count, 8);  // the events of `a`, and the sweep of `b` and its eviction
  subscriber_release(&streams.events, &one);
  subscriber_release(&streams.events, &all);
}

static void told_of_sweeps_without_room(void **state) {
  (void)state;
  static const atomic_bool no = false;
  struct subscriber one = {.half_closed = &no, .gone = &no, .sleep = nothing, .wake = nothing};
  assert_true(send("a", 1, 3));
  assert_true(streams_subscribe(&streams, ours, "a", &one, &error));
  is_told(&one, EVENT_OPEN, 1, 0);
  assert_true(send_along((const double[]){5, 4}, 2, 3, 2));
  is_told(&one, EVENT_SWEEP, 3, 0);
  is_told(&one, EVENT_EVICTED, 3, 2);
  assert_true(SEND_ALONG(3, 6, 5));
  is_told(&one, EVENT_SWEEP, 3, 0);
  assert_int_equal(one.count, 0);
  subscriber_release(&streams.events, &one);
}

// ---- several streams ------------------------------------------------------------------------------------------------

static void in_the_frame_of_the_first(void **state) {
  (void)state;
  struct stream_terms rear = terms_of("rear", 1.5, 2);
  strcpy(rear.joined, "front,rear,left");
  rear.num_joined = 3;
  assert_false(send_to(ours, &rear, &shape, true));
  assert_int_equal(error.kind, ERROR_IMPOSSIBLE);
  assert_non_null(strstr(error.text, "no sweep of 'front'"));
  assert_true(send("front", 1, 2) && send("front", 2, 2));
  rear.mount_numbers.count = POSE_QUATERNION;
  rear.mount = pose_identity;
  rear.mount.translation[0] = 7;
  assert_true(send_to(ours, &rear, &shape, true));
  assert_int_equal(gathered.count, 3);
  assert_int_equal(gathered.wanted, 6);
  rear.time = 1.6;
  rear.mount_numbers.count = 0;  // the stream remembers its mount
  struct stream_turn turn = {.time = 1.6};
  struct sweep *own = sweep_of(1.6);
  assert_int_equal(turn_acquire(&streams, ours, "rear", &turn, true, &error), STREAM_TURN);
  assert_true(gather_sweeps(&streams, &turn, &rear, &shape, own, &gathered, &error));
  static const struct {
    double time;
    int stream;
  } order[] = {{2, 0}, {1.6, 1}, {1, 0}, {1.5, 1}};
  assert_int_equal(gathered.count, 4);
  for (int i = 0; i < 4; i++) {
    assert_true(gathered.list[i].sweep->time == order[i].time);
    assert_int_equal(gathered.list[i].stream, order[i].stream);
  }
  assert_true(gathered.newest == gathered.list[0].sweep);
  assert_true(own->place.translation[0] == 7);
  gathered_release(&streams, &gathered);
  sweeps_release(&streams, own);
  turn_release(&streams, &turn);
}

static void last_is_of_the_stream_alone(void **state) {
  (void)state;
  struct stream_terms rear = terms_of("rear", 1.5, 2), told;
  struct sweep_shape its_shape;
  char name[STREAM_NAME_SIZE];
  size_t cursor = 0;
  strcpy(rear.joined, "front,rear");
  rear.num_joined = 2;
  assert_true(send("front", 1, 2) && send_to(ours, &rear, &shape, true));
  assert_true(gather_last(&streams, ours, "rear", &gathered, &told, &its_shape, &error));
  assert_int_equal(gathered.count, 1);
  assert_true(stream_next(&told, &cursor, name));
  assert_string_equal(name, "rear");
  gathered_release(&streams, &gathered);
}

// A stream is dropped while its request is computed. The request's sweeps are not kept, and the next request starts the
// stream over.
static void dropped_meanwhile(void **state) {
  (void)state;
  struct stream_terms terms = terms_of("a", 2, 2);
  struct stream_turn turn = {.time = 2};
  terms.mount_numbers.count = POSE_QUATERNION;
  terms.mount = pose_identity;
  terms.mount.translation[0] = 7;
  assert_true(send("a", 1, 2));
  for (int number = 0; number < 2; number++) {
    struct sweep *own = sweep_of(2);
    assert_int_equal(turn_acquire(&streams, ours, "a", &turn, true, &error), STREAM_TURN);
    assert_true(gather_sweeps(&streams, &turn, &terms, &shape, own, &gathered, &error));
    assert_true(streams_delete(&streams, ours, "a", &error) == (number == 0));
    assert_int_equal(streams_use(&streams).sweeps, 0);
    keep_sweeps(&streams, &turn, &terms, &shape, own, 0);
    assert_int_equal(streams_use(&streams).sweeps, number);  // round 0: dropped; round 1: kept
    gathered_release(&streams, &gathered);
    sweeps_release(&streams, own);
    turn_release(&streams, &turn);
    terms.mount_numbers.count = 0;
  }
  struct sweep *own = sweep_of(3);
  assert_int_equal(turn_acquire(&streams, ours, "a", &turn, true, &error), STREAM_TURN);
  own->time = 3;
  assert_true(gather_sweeps(&streams, &turn, &terms, &shape, own, &gathered, &error));
  assert_true(own->place.translation[0] == 0);  // the mount was dropped too
  gathered_release(&streams, &gathered);
  sweeps_release(&streams, own);
  turn_release(&streams, &turn);
}

// ---- tracks ---------------------------------------------------------------------------------------------------------

static struct stream_tracks *tracks_of(const char *model) {
  struct buffer *memory = calloc(1, sizeof *memory);
  assert_non_null(memory);
  memory->tracks.memory = memory;
  memory->tracks.bytes = 10 * CAPACITY;
  strcpy(memory->tracks.model, model);
  memories++;
  return &memory->tracks;
}

// Sends a sweep with new tracks. Returns what the stream gives back: the model's previous tracks or, after a failure,
// the new tracks; NULL: none.
static const struct stream_tracks *track(double time, struct stream_tracks *tracks, bool succeeds) {
  struct stream_terms terms = terms_of("a", time, 1);
  struct stream_turn turn = {.time = time};
  struct sweep *own = sweep_of(time);
  assert_int_equal(turn_acquire(&streams, ours, "a", &turn, true, &error), STREAM_TURN);
  assert_true(gather_sweeps(&streams, &turn, &terms, &shape, own, &gathered, &error));
  turn.tracks = tracks;
  if (succeeds) keep_sweeps(&streams, &turn, &terms, &shape, own, 0);
  const struct stream_tracks *left = turn.tracks;
  if (left) release(left->memory);
  gathered_release(&streams, &gathered);
  sweeps_release(&streams, own);
  turn_release(&streams, &turn);
  return left;
}

static void tracks_replace_those_of_their_model(void **state) {
  (void)state;
  struct stream_tracks *first = tracks_of("cars"), *second = tracks_of("people"), *third = tracks_of("cars");
  assert_null(track(1, first, true));
  assert_null(track(2, second, true));
  assert_ptr_equal(track(3, third, true), first);
  assert_true(send("a", 4, 1));  // a request without tracks changes no tracks
  assert_int_equal(streams_use(&streams).bytes, 21 * CAPACITY);
  struct stream_tracks *failed = tracks_of("people");
  assert_ptr_equal(track(5, failed, false), failed);
  assert_int_equal(memories, 3);
  assert_ptr_equal(track(6, tracks_of("people"), true), second);
  char memory[2000];
  struct text out = text_over(memory, sizeof memory);
  assert_true(streams_write(&streams, ours, "a", &out, &error));
  assert_non_null(strstr(memory, "\"memory_bytes\":2100,"));
}

// The last sweep is deleted, evicted, or expires, also while a request has the turn.
static void tracks_end_with_the_stream(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    struct stream_turn turn = {.time = 2};
    assert_null(track(1, tracks_of("cars"), true));
    assert_int_equal(memories, 2);
    if (way == 3) assert_int_equal(turn_acquire(&streams, ours, "a", &turn, true, &error), STREAM_TURN);
    if (way == 0) assert_true(streams_delete(&streams, ours, "a", &error));
    if (way == 1) assert_true(streams_evict(&streams, NULL));
    if (way >= 2) clock_move_ms(20000);
    streams_tick(&streams, clock_ns());
    assert_int_equal(streams_use(&streams).streams, way == 3);
    if (way == 3) {
      struct stream_terms terms = terms_of("a", 2, 1);
      struct sweep *own = sweep_of(2);
      assert_non_null(turn.stream->tracks);
      assert_true(gather_sweeps(&streams, &turn, &terms, &shape, own, &gathered, &error));
      assert_true(gathered.begun);
      assert_null(turn.stream->tracks);
      gathered_release(&streams, &gathered);
      sweeps_release(&streams, own);
      turn_release(&streams, &turn);
    }
    assert_int_equal(memories, 0);
    assert_int_equal(streams_use(&streams).bytes, 0);
  }
}

// ---- turns ----------------------------------------------------------------------------------------------------------

static struct stream_turn *begun[STREAM_WAITING + 2];
static int begun_count;

static void on_begin(struct stream_turn *turn) { begun[begun_count++] = turn; }

static void earliest_goes_next(void **state) {
  (void)state;
  struct stream_turn turns[4] = {{.time = 1}, {.time = 4}, {.time = 2}, {.time = 3}};
  begun_count = 0;
  for (int i = 0; i < 4; i++) {
    turns[i].begin = on_begin;
    assert_int_equal(turn_acquire(&streams, ours, "a", &turns[i], true, &error), i ? STREAM_WAITS : STREAM_TURN);
  }
  for (int i = 0; i < 3; i++) {
    assert_int_equal(begun_count, i);
    turn_release(&streams, i ? begun[i - 1] : &turns[0]);
  }
  assert_true(begun[0] == &turns[2] && begun[1] == &turns[3] && begun[2] == &turns[1]);
  turn_release(&streams, &turns[1]);
  turn_release(&streams, &turns[1]);  // does nothing: the turn has ended
  assert_int_equal(begun_count, 3);
  assert_int_equal(streams_use(&streams).streams, 0);
}

static void waiting_is_bounded(void **state) {
  (void)state;
  static struct stream_turn turns[STREAM_WAITING + 2];
  begun_count = 0;
  memset(turns, 0, sizeof turns);
  for (int i = 0; i < STREAM_WAITING + 2; i++) {
    turns[i].begin = on_begin;
    enum stream_entry expected = i == 0 ? STREAM_TURN : i <= STREAM_WAITING ? STREAM_WAITS : STREAM_REFUSED;
    assert_int_equal(turn_acquire(&streams, ours, "a", &turns[i], true, &error), expected);
  }
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  assert_int_equal(turn_acquire(&streams, ours, "a", &turns[STREAM_WAITING + 1], false, &error), STREAM_WAITS);
  assert_null(turns[STREAM_WAITING + 1].stream);  // this turn may not wait, so the stream has not taken it
  for (int i = 0; i <= STREAM_WAITING; i++) turn_release(&streams, &turns[i]);
  assert_int_equal(begun_count, STREAM_WAITING);
}

static bool is_late(struct stream_turn *turn, void *now) { return turn->time < *(double *)now; }

static void those_that_wait_too_long_are_taken_out(void **state) {
  (void)state;
  struct stream_turn turns[6] = {{.time = 1}, {.time = 4}, {.time = 2}, {.time = 3}, {.time = 0}, {.time = 1}};
  begun_count = 0;
  for (int i = 0; i < 6; i++) {
    const char *name = i < 4 ? "a" : "b";
    enum stream_entry expected = i == 0 || i == 4 ? STREAM_TURN : STREAM_WAITS;
    turns[i].begin = on_begin;
    assert_int_equal(turn_acquire(&streams, ours, name, &turns[i], true, &error), expected);
  }
  assert_null(streams_take_waiting(&streams, is_late, &(double){0}));
  struct stream_turn *taken = streams_take_waiting(&streams, is_late, &(double){3.5});
  int count = 0;
  for (; taken; taken = taken->next, count++) {
    assert_true(taken == &turns[2] || taken == &turns[3] || taken == &turns[5]);
    assert_null(taken->stream);
    turn_release(&streams, taken);  // does nothing: the turn was taken out
  }
  assert_int_equal(count, 3);
  assert_int_equal(begun_count, 0);
  turn_release(&streams, &turns[0]);
  assert_true(begun_count == 1 && begun[0] == &turns[1]);
  turn_release(&streams, &turns[1]);
  turn_release(&streams, &turns[4]);
  assert_int_equal(begun_count, 1);
  assert_int_equal(streams_use(&streams).streams, 0);
}

static void no_streams(void **state) {
  (void)state;
  struct stream_turn turn = {.time = 1};
  streams.memory_bytes = 0;
  assert_int_equal(turn_acquire(&streams, ours, "a", &turn, true, &error), STREAM_REFUSED);
  assert_int_equal(error.kind, ERROR_UNSUPPORTED);
  error.kind = ERROR_NONE;
  struct subscriber subscriber;
  assert_false(streams_subscribe(&streams, ours, "a", &subscriber, &error));
  assert_int_equal(error.kind, ERROR_UNSUPPORTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(newest_first),
      TEST(subscribers),
      TEST(told_of_sweeps_without_room),
      TEST(repeated_sweep),
      TEST(refused_sweeps),
      TEST(sent_along),
      TEST(end_of_those_sent_along),
      TEST(no_room_for_those_sent_along),
      TEST(losses_are_told_once),
      TEST(failed_first),
      TEST(ages),
      TEST(eviction),
      TEST(read_while_dropped),
      TEST(own_streams),
      TEST(share_of_streams),
      TEST(in_the_frame_of_the_first),
      TEST(last_is_of_the_stream_alone),
      TEST(dropped_meanwhile),
      TEST(tracks_replace_those_of_their_model),
      TEST(tracks_end_with_the_stream),
      TEST(earliest_goes_next),
      TEST(waiting_is_bounded),
      TEST(those_that_wait_too_long_are_taken_out),
      TEST(no_streams),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

// Tracks of hand-made boxes. tests/oracle/test_tracks.py tests random boxes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tracks.h"

enum { MOST = 8, CAR = 0, PEDESTRIAN = 1 };

static const struct vx_track_terms usual = {2, {4, 1}, 2};
static const double ahead[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, turned[9] = {0, -1, 0, 1, 0, 0, 0, 0, 1};

struct thing {
  int32_t label;
  float score, x, y, vx, vy;
};

// The tracks after the last sweep, and its counts and ids.
static struct vx_tracks *tracks;
static struct vx_track_counts counts;
static bool repeated;  // whether the next sweeps are sent again
static int64_t ids[VX_MAX_TRACKS];

static int begin(void **state) {
  (void)state;
  tracks = calloc(1, vx_tracks_bytes(0));
  return tracks ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  free(tracks);
  return 0;
}

static void follow_boxes(const struct vx_track_terms *terms, const struct vx_sweep_boxes *boxes, struct vx_stop *stop) {
  int64_t most = vx_tracks_most(tracks, boxes->count);
  struct vx_tracks *after = malloc(vx_tracks_bytes(most));
  assert_non_null(after);
  vx_follow(terms, boxes, tracks, stop, after, ids, &counts);
  assert_in_range(after->count, boxes->count, most);
  free(tracks);
  tracks = after;
}

static void follow_at(const struct vx_track_terms *terms, double time, const double rotation[9], const double place[3],
                      int64_t values, const struct thing *things, int64_t count) {
  float boxes[MOST * VX_MOVING_BOX_VALUES] = {0}, scores[MOST];
  int32_t labels[MOST];
  for (int64_t i = 0; i < count; i++) {
    float *box = boxes + i * values;
    memcpy(box, (float[]){things[i].x, things[i].y, 1, 4, 2, 1.5f, 0}, VX_BOX_VALUES * sizeof *box);
    if (values > VX_BOX_VALUES) memcpy(box + VX_BOX_VALUES, (float[]){things[i].vx, things[i].vy}, 2 * sizeof *box);
    scores[i] = things[i].score;
    labels[i] = things[i].label;
  }
  const struct vx_sweep_boxes sweep = {count, values, boxes, scores, labels, time, repeated, rotation, place};
  follow_boxes(terms, &sweep, NULL);
}

static void assert_ids(const int64_t *expected, int64_t count) {
  for (int64_t i = 0; i < count; i++) assert_int_equal(ids[i], expected[i]);
}

static const double origin[3] = {0};
#define FOLLOW(time, ...)                                                                                              \
  follow_at(&usual, time, ahead, origin, VX_MOVING_BOX_VALUES, (const struct thing[]){__VA_ARGS__},                    \
            sizeof((const struct thing[]){__VA_ARGS__}) / sizeof(struct thing))
#define NONE(time) follow_at(&usual, time, ahead, origin, VX_MOVING_BOX_VALUES, NULL, 0)
#define IDS(...) assert_ids((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void assert_counts(bool begun, int32_t matched, int32_t started, int32_t missed, int32_t ended) {
  assert_int_equal(counts.begun, begun);
  assert_int_equal(counts.matched, matched);
  assert_int_equal(counts.started, started);
  assert_int_equal(counts.missed, missed);
  assert_int_equal(counts.ended, ended);
}

static void boxes_begin_tracks_in_their_order(void **state) {
  (void)state;
  FOLLOW(1, {CAR, .3f, 0, 0, 0, 0}, {CAR, .9f, 50, 0, 0, 0}, {PEDESTRIAN, .5f, 0, 0, 0, 0});
  IDS(1, 2, 3);
  assert_counts(true, 0, 3, 0, 0);
  FOLLOW(2, {CAR, .3f, 50, 0, 0, 0}, {CAR, .9f, 90, 0, 0, 0}, {PEDESTRIAN, .5f, 0, 0, 0, 0});
  IDS(2, 4, 3);
  assert_counts(false, 2, 1, 1, 0);
}

static void boxes_move_back_by_their_velocity(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, 0, 0, 20, 0}, {CAR, .9f, 10, 0, 0, 0}, {CAR, .8f, 50, 0, 0, -20});
  // Without velocities, the first box would match track 2, the third none.
  FOLLOW(1.5, {CAR, 1, 10, 0, 20, 0}, {CAR, .9f, 10, .5f, 0, 0}, {CAR, .8f, 50, -10, 0, -20});
  IDS(1, 2, 3);
}

static void boxes_without_velocities_stay(void **state) {
  (void)state;
  const struct thing things[] = {{CAR, 1, 10, 0, 0, 0}, {CAR, .9f, 30, 30, 0, 0}};
  for (int time = 1; time <= 2; time++) {
    follow_at(&usual, time, ahead, origin, VX_BOX_VALUES, things, 2);
    IDS(1, 2);
  }
}

static void the_best_box_chooses_first(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, 0, 0, 0, 0});
  FOLLOW(2, {CAR, .8f, .5f, 0, 0, 0}, {CAR, .9f, 2, 0, 0, 0});  // box 0 is nearer, box 1 has the higher score
  IDS(2, 1);
  FOLLOW(3, {CAR, .5f, 2, 0, 0, 0}, {CAR, .5f, 2, 0, 0, 0});  // of equal scores, the first box wins
  IDS(1, 2);
}

static void equal_distances_go_to_the_first_track(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, -1, 0, 0, 0}, {CAR, .9f, 1, 0, 0, 0});
  FOLLOW(2, {CAR, 1, 0, 0, 0, 0});
  IDS(1);
  assert_counts(false, 1, 0, 1, 0);
}

static void each_class_has_its_own_distance(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, 0, 0, 0, 0}, {PEDESTRIAN, 1, 20, 0, 0, 0}, {PEDESTRIAN, 1, 40, 0, 0, 0});
  FOLLOW(2, {CAR, 1, 4, 0, 0, 0}, {PEDESTRIAN, 1, 21, 0, 0, 0}, {PEDESTRIAN, 1, 41.0001f, 0, 0, 0});
  IDS(1, 2, 4);
  const struct vx_track_terms one = {1, {4}, 2};
  const struct thing far[] = {{PEDESTRIAN, 1, 25, 0, 0, 0}};
  follow_at(&one, 3, ahead, origin, VX_MOVING_BOX_VALUES, far, 1);
  IDS(2);
}

static void labels_do_not_meet(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, 0, 0, 0, 0});
  FOLLOW(2, {PEDESTRIAN, 1, 0, 0, 0, 0});
  IDS(2);
}

static void tracks_without_a_box_move_on_and_end(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, 0, 0, 10, 0});
  NONE(2);
  assert_counts(false, 0, 0, 1, 0);
  NONE(3);
  FOLLOW(4, {CAR, 1, 30, 0, 10, 0});  // the track is found again after two sweeps without a box
  IDS(1);
  NONE(5);
  NONE(6);
  NONE(7);
  assert_counts(false, 0, 0, 0, 1);
  FOLLOW(8, {CAR, 1, 70, 0, 10, 0});
  IDS(2);
}

static void the_same_sweep_again_changes_no_age(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, 0, 0, 10, 0}, {CAR, .9f, 50, 0, 10, 0});
  FOLLOW(2, {CAR, 1, 10, 0, 10, 0}, {CAR, .9f, 90, 0, 10, 0});
  for (int i = 0; i < 5; i++) {
    FOLLOW(2, {CAR, 1, 10, 0, 10, 0}, {CAR, .9f, 90, 0, 10, 0});
    IDS(1, 3);
    assert_counts(false, 2, 0, 1, 0);
  }
  FOLLOW(3, {CAR, 1, 70, 0, 10, 0});
  IDS(2);
}

static void the_first_sweep_again_begins_tracks_again(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    repeated = i > 0;
    FOLLOW(1, {CAR, 1, 0, 0, 0, 0});
    IDS(1);
    assert_counts(true, i > 0, i == 0, 0, 0);
  }
  repeated = false;
  FOLLOW(1, {CAR, 1, 0, 0, 0, 0});  // the first sweep of another sensor
  assert_counts(false, 1, 0, 0, 0);
  repeated = true;
  FOLLOW(1, {CAR, 1, 0, 0, 0, 0});
  assert_counts(false, 1, 0, 0, 0);
  repeated = false;
}

// As after a request that fails after its boxes were matched.
static void tracks_that_are_not_kept_change_nothing(void **state) {
  (void)state;
  static const float box[VX_BOX_VALUES], score[1];
  static const int32_t label[1];
  struct vx_sweep_boxes sweep = {1, VX_BOX_VALUES, box, score, label, 1, false, ahead, origin};
  follow_boxes(&usual, &sweep, NULL);
  struct vx_tracks *lost = malloc(vx_tracks_bytes(2));
  assert_non_null(lost);
  for (int time = 2; time < 9; time++) {
    sweep.time = time;
    vx_follow(&usual, &sweep, tracks, NULL, lost, ids, &counts);
    IDS(1);
  }
  free(lost);
}

static void an_earlier_time_begins_anew(void **state) {
  (void)state;
  FOLLOW(5, {CAR, 1, 0, 0, 0, 0});
  FOLLOW(4, {CAR, 1, 0, 0, 0, 0});
  IDS(2);
  assert_counts(true, 0, 1, 0, 0);
}

static void tracks_stay_in_the_fixed_frame(void **state) {
  (void)state;
  const struct thing before[] = {{CAR, 1, 10, 0, 2, 0}}, after[] = {{CAR, 1, 7, -1, 0, -2}};
  follow_at(&usual, 1, ahead, (const double[]){1e6, 0, 0}, VX_MOVING_BOX_VALUES, before, 1);
  // The sensor has turned left by 90 degrees. The car has driven 2 m along x of the fixed frame.
  follow_at(&usual, 2, turned, (const double[]){1e6 + 11, -7, 0}, VX_MOVING_BOX_VALUES, after, 1);
  IDS(1);
  assert_float_equal(tracks->track[0].centre[0], 1e6 + 12, 1e-6);
  assert_float_equal(tracks->track[0].velocity[0], 2, 1e-6);
}

static void what_is_not_a_number_matches_nothing(void **state) {
  (void)state;
  FOLLOW(1, {CAR, 1, NAN, 0, 0, 0}, {CAR, 1, 0, 0, NAN, 0}, {CAR, 1, INFINITY, 0, 0, 0});
  FOLLOW(2, {CAR, 1, NAN, 0, 0, 0}, {CAR, 1, 0, 0, NAN, 0}, {CAR, 1, INFINITY, 0, 0, 0});
  IDS(4, 5, 6);
}

static void the_last_tracks_end_if_there_are_too_many(void **state) {
  (void)state;
  enum { SECOND = 96 };
  static float boxes[VX_MAX_TRACKS][VX_BOX_VALUES], scores[VX_MAX_TRACKS];
  static int32_t labels[VX_MAX_TRACKS];
  for (int i = 0; i < VX_MAX_TRACKS; i++) boxes[i][0] = (float)(10 * i);
  struct vx_sweep_boxes sweep = {VX_MAX_TRACKS, VX_BOX_VALUES, boxes[0], scores, labels, 1, false, ahead, origin};
  follow_boxes(&usual, &sweep, NULL);
  assert_int_equal(ids[VX_MAX_TRACKS - 1], VX_MAX_TRACKS);
  for (int i = 0; i < SECOND; i++) boxes[i][1] = 10;
  sweep.count = SECOND;
  sweep.time = 2;
  follow_boxes(&usual, &sweep, NULL);
  assert_counts(false, 0, SECOND, VX_MAX_TRACKS - SECOND, SECOND);
  assert_int_equal(tracks->count, VX_MAX_TRACKS);
  assert_int_equal(tracks->track[VX_MAX_TRACKS - 1].id, VX_MAX_TRACKS - SECOND);
}

static bool always(void *asked) { return ++*(int *)asked; }

static void a_stopped_job_matches_no_more(void **state) {
  (void)state;
  static float boxes[VX_MAX_TRACKS][VX_BOX_VALUES], scores[VX_MAX_TRACKS];
  static int32_t labels[VX_MAX_TRACKS];
  int asked = 0;
  struct vx_stop stop = {.stopped = always, .ctx = &asked};
  const struct vx_sweep_boxes sweep = {VX_MAX_TRACKS, VX_BOX_VALUES, boxes[0], scores, labels, 1, false, ahead, origin};
  follow_boxes(&usual, &sweep, &stop);
  assert_int_equal(asked, 1);
  assert_true(stop.has_stopped);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(boxes_begin_tracks_in_their_order),
      TEST(boxes_move_back_by_their_velocity),
      TEST(boxes_without_velocities_stay),
      TEST(the_best_box_chooses_first),
      TEST(equal_distances_go_to_the_first_track),
      TEST(each_class_has_its_own_distance),
      TEST(labels_do_not_meet),
      TEST(tracks_without_a_box_move_on_and_end),
      TEST(the_same_sweep_again_changes_no_age),
      TEST(the_first_sweep_again_begins_tracks_again),
      TEST(tracks_that_are_not_kept_change_nothing),
      TEST(an_earlier_time_begins_anew),
      TEST(tracks_stay_in_the_fixed_frame),
      TEST(what_is_not_a_number_matches_nothing),
      TEST(the_last_tracks_end_if_there_are_too_many),
      TEST(a_stopped_job_matches_no_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

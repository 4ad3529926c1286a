// See equal.h: ranked and suppressed boxes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

enum kind { OBJECTS, ANYWHERE, ONE_SPOT, IDENTICAL, TOUCHING, DEGENERATE, KINDS };
static const char *const kind_names[KINDS] = {"objects", "anywhere", "one spot", "identical", "touching", "degenerate"};

struct boxes {
  struct random *random;
  enum kind kind;
  int32_t objects, scores, labels;  // how many different ones there are; 0: any number
  bool strange;                     // a few are invalid
};

static float from(struct random *random, const float *values, int32_t count) {
  return values[random_below(random, count)];
}

static void fill_box(const struct boxes *boxes, int64_t number, float box[VX_BOX_VALUES]) {
  static const float odd[] = {0, -0.0f, 1e-20f, 1e-40f, 1, 3e38f, 1e6f},
                     headings[] = {0, 1.5707964f, 3.1415927f, 65536};
  struct random *random = boxes->random;
  int32_t object = random_below(random, boxes->objects), row = object / 20, column = object % 20;
  const float car[VX_BOX_VALUES] = {(float)column * 6, (float)row * 5, -1, 3.9f, 1.6f, 1.56f, 0};
  memcpy(box, car, sizeof car);
  if (boxes->kind == TOUCHING) {  // edge to edge, and corner to corner
    int64_t x = number % 8, y = number / 8 % 8;
    const float cell[VX_BOX_VALUES] = {(float)x * 2, (float)y, 0, 2, 1, 1, 0};
    memcpy(box, cell, sizeof cell);
  }
  for (int i = 0; i < VX_BOX_VALUES && boxes->kind != TOUCHING && boxes->kind != IDENTICAL; i++) {
    float reach = i < 3 && boxes->kind == ANYWHERE ? 2000 : i == 6 ? 7 : 0.6f;
    box[i] += (random_unit(random) - (i >= 3 && i < 6 ? 0 : 0.5f)) * reach;
    if (boxes->kind == DEGENERATE && random_one_in(random, 3)) {
      float sign = i < 3 && random_one_in(random, 2) ? -1.0f : 1.0f;
      box[i] = i == 6 ? from(random, headings, 4) : from(random, odd, 7) * sign;
    }
  }
  if (boxes->strange && random_one_in(random, 30)) {
    static const float values[] = {NAN, INFINITY, -INFINITY, -1, 65537, -70000};
    box[random_below(random, VX_BOX_VALUES)] = from(random, values, 6);
  }
}

static float score_of(const struct boxes *boxes) {
  static const float values[] = {NAN, INFINITY, -INFINITY, -0.0f, 0, 1e-40f};
  struct random *random = boxes->random;
  if (boxes->strange && random_one_in(random, 20)) return from(random, values, 6);
  return boxes->scores == 0 ? random_unit(random) * 2 - 0.5f : (float)random_below(random, boxes->scores) / 8;
}

// Boxes, scores and labels are one block of memory: scan->points, which the caller frees.
static void fill_scan_of_boxes(const struct boxes *boxes, struct scan *scan, struct vx_job *asked) {
  int64_t count = scan->num_points;
  float *rows = malloc((size_t)(count * (VX_BOX_VALUES + 2) + 1) * sizeof *rows);
  float *scores = rows + count * VX_BOX_VALUES;
  int32_t *labels = (int32_t *)(scores + count);
  for (int64_t i = 0; i < count; i++) {
    fill_box(boxes, i, rows + i * VX_BOX_VALUES);
    scores[i] = score_of(boxes);
    labels[i] = boxes->labels == 0 ? (int32_t)random_bits(boxes->random) : random_below(boxes->random, boxes->labels);
  }
  scan->points = rows;
  scan->columns = VX_BOX_VALUES;
  asked->inputs[VX_BOXES] = (struct vx_input){VX_FLOAT32, 2, {0, VX_BOX_VALUES}, NULL};
  asked->inputs[VX_SCORES] = (struct vx_input){VX_FLOAT32, 1, {count}, scores};
  if (random_one_in(boxes->random, 3)) return;
  asked->inputs[VX_LABELS] = (struct vx_input){VX_INT32, 1, {count}, labels};
}

static struct boxes random_boxes(struct random *random, enum kind kind) {
  static const int32_t objects[] = {1, 3, 40, 100, 1000}, scores[] = {0, 0, 1, 3, 100};
  return (struct boxes){random,
                        kind,
                        kind == ONE_SPOT || kind == IDENTICAL ? 1 : objects[random_below(random, 5)],
                        scores[random_below(random, 5)],
                        random_below(random, 4),
                        random_one_in(random, 2)};
}

// A limit close to `count`, or far from it.
static int32_t random_limit(struct random *random, int64_t count) {
  static const int32_t limits[] = {1, 2, 63, 64, 65, 500, 4095, 4096, 4097, VX_MAX_RANKED};
  int64_t near = count + random_below(random, 3) - 1;
  return random_one_in(random, 2) && near > 0 ? (int32_t)near : limits[random_below(random, 10)];
}

static struct vx_nms random_params(struct random *random, int64_t count) {
  static const float thresholds[] = {0, 1, 0.01f, 0.5f, 0.7f}, radii[] = {0, 0.3f, 4, 1e30f};
  return (struct vx_nms){from(random, thresholds, 5), random_limit(random, count),      random_limit(random, count),
                         random_one_in(random, 2),    random_one_in(random, 4) ? 1 : 0, from(random, radii, 4)};
}

static void compare_boxes(struct side sides[2], const struct boxes *boxes, struct vx_nms params, struct scan *scan) {
  struct random *random = boxes->random;
  struct vx_job asked = {.op = VX_NMS, .params.nms = params, .tensors = random_one_in(random, 8) ? 0 : VX_NMS_TENSORS};
  fill_scan_of_boxes(boxes, scan, &asked);
  scan->unseen = random_one_in(random, 3);
  snprintf(scan->name, sizeof scan->name, "%s, threshold %g, at most %d and %d", kind_names[boxes->kind],
           (double)params.iou_threshold, params.pre_max, params.post_max);
  compare(sides, &asked, scan, "nms");
  free(scan->points);
}

// Every kind of box, in numbers around the sizes of warps, windows and chunks, with extreme thresholds.
// If `largest` is small, lists of many boxes have only some kinds and thresholds.
static void test_edges(struct side sides[2], struct random *random, int64_t largest) {
  static const int32_t numbers[] = {0, 1, 2, 31, 33, 63, 64, 65, 129, 1000, 4096, 4097};
  static const float thresholds[] = {0, 0.01f, 1};
  static struct scan scan;
  for (size_t n = 0; n < sizeof numbers / sizeof *numbers && numbers[n] <= largest; n++) {
    for (int i = 0; i < 3 * KINDS; i++) {
      if (numbers[n] >= 1000 && largest < 20000 && (i + 2 * (int)n) % 7 != 4) continue;
      struct boxes boxes = random_boxes(random, (enum kind)(i / 3));
      struct vx_nms params = {thresholds[i % 3], random_limit(random, numbers[n]), VX_MAX_RANKED, 1, 0, 0};
      memset(&scan, 0, sizeof scan);
      scan.num_points = scan.counts[0] = numbers[n];
      scan.num_clouds = 1;
      compare_boxes(sides, &boxes, params, &scan);
    }
  }
}

// Several chunks of boxes, and so many keys that the device selects before it ranks. If `largest` is small, only the
// fast jobs run.
static void test_many(struct side sides[2], struct random *random, int64_t largest) {
  static const int32_t pre_max[] = {100, 4096, 9000, VX_MAX_RANKED};
  static struct scan scan;
  for (int i = 0; i < 4 * KINDS; i++) {
    bool quick = i / 4 == ONE_SPOT && i % 2 == 0;
    struct boxes boxes = random_boxes(random, (enum kind)(i / 4));
    struct vx_nms params = random_params(random, 20000);
    params.pre_max = pre_max[i % 4];
    if (quick) params = (struct vx_nms){0.01f, pre_max[i % 4], 500, 1, 0, 0};
    if (!quick && largest < 20000) continue;
    memset(&scan, 0, sizeof scan);
    scan.num_points = scan.counts[0] = 16400 + random_below(random, 3000);
    scan.num_clouds = 1;
    compare_boxes(sides, &boxes, params, &scan);
  }
}

// With so many boxes the device takes longer than the host waits before it calls `stopped`.
static void test_stop(struct side sides[2], struct random *random) {
  static struct scan scan;
  struct boxes boxes = {random, ANYWHERE, 1000, 0, 1, false};
  const struct vx_nms params = {0.5f, VX_MAX_RANKED, VX_MAX_RANKED, 1, 0, 0};
  struct vx_job asked = {.op = VX_NMS, .params.nms = params, .tensors = VX_NMS_TENSORS};
  struct error error = {0};
  memset(&scan, 0, sizeof scan);
  scan.num_points = scan.counts[0] = 400000;
  scan.num_clouds = 1;
  fill_scan_of_boxes(&boxes, &scan, &asked);
  atomic_store(&sides[1].stop, true);
  bool good = side_run(&sides[1], &asked, &scan, &error) == VX_STOPPED;
  atomic_store(&sides[1].stop, false);
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, good);
  if (!good) printf("UNEQUAL nms: was not stopped: %s\n", error.text);
  free(scan.points);
  scan.num_points = scan.counts[0] = 5000;
  compare_boxes(sides, &boxes, params, &scan);
}

void test_nms(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  static struct scan scan;
  struct random random = {seed + 3};
  test_edges(sides, &random, largest);
  test_many(sides, &random, largest);
  if (largest >= 1000000) test_stop(sides, &random);
  for (int i = 0; i < jobs; i++) {
    struct boxes boxes = random_boxes(&random, (enum kind)random_below(&random, KINDS));
    memset(&scan, 0, sizeof scan);
    scan.num_points = random_size(&random, largest);
    int64_t most = largest < 10000 ? largest : 10000;
    scan.num_points = scan.num_points < most ? scan.num_points : most;
    random_clouds(&random, &scan);
    compare_boxes(sides, &boxes, random_params(&random, scan.num_points / scan.num_clouds), &scan);
  }
}

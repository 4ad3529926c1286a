// See equal.h: farthest point sampling.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

static struct vx_job sampling_of(int32_t columns) {
  return (struct vx_job){.op = VX_FPS,
                         .params.fps.sampling = {.enabled = true, .max_work = INT64_MAX},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, columns, NULL)},
                         .tensors = VX_SAMPLED_TENSORS};
}

// Keeps one point in `every`, and chooses `samples` of the kept points.
static void test_scan(struct side sides[2], const struct scan *whole, int32_t every, int32_t samples, int32_t start) {
  size_t row = (size_t)whole->columns * sizeof(float);
  static struct scan part;
  part = *whole;
  part.num_points = whole->num_points / every;
  part.counts[0] = (int32_t)part.num_points;
  part.samples[0] = samples;
  part.points = malloc((size_t)part.num_points * row + 1);
  for (int64_t i = 0; i < part.num_points; i++)
    memcpy((char *)part.points + (size_t)i * row, (char *)whole->points + (size_t)(i * every) * row, row);
  struct vx_job asked = sampling_of(whole->columns);
  asked.params.fps.sampling.start = start;
  compare(sides, &asked, &part, "samples");
  free(part.points);
}

static void test_scans(struct side sides[2], const struct scan *scans, int num_scans) {
  for (int i = 0; i < num_scans; i++) {
    test_scan(sides, &scans[i], 1, 2048, 0);
    test_scan(sides, &scans[i], 1, i == 0 ? 16384 : 100, 777);
    test_scan(sides, &scans[i], 2, 1000, 5);
    test_scan(sides, &scans[i], 7, 2048, 1);
  }
}

// Points on a small grid, so that many distances are equal; in a few spots; on a line; far too large; far too small.
static void make_hard(struct random *random, struct scan *scan, int32_t columns) {
  int kind = random_below(random, 6);
  float *points = scan->points, scale = kind == 4 ? 1e30f : kind == 5 ? 1e-30f : 1.0f;
  int32_t sides = 1 + random_below(random, kind == 0 ? 40 : 4);
  for (int64_t i = 0; i < scan->num_points; i++) {
    for (int32_t c = 0; c < 3; c++) {
      float at = kind == 2 ? (float)i * (float)c : (float)random_below(random, sides);
      points[i * columns + c] = at * scale;
    }
    if (random_one_in(random, 40))
      points[i * columns + random_below(random, 3)] = random_one_in(random, 2) ? NAN : -INFINITY;
  }
}

static void test_random(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  struct vx_job asked = sampling_of(3 + random_below(random, 8));
  struct vx_box within;
  for (int axis = 0; axis < 3; axis++) {
    within.min[axis] = -40.0f * random_unit(random);
    within.max[axis] = 40.0f * random_unit(random) + 0.1f;
  }
  asked.inputs[VX_POINTS].dtype = random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32;
  asked.tensors = random_one_in(random, 9) ? 0 : random_bits(random) & VX_SAMPLED_TENSORS;
  scan.columns = asked.inputs[VX_POINTS].dims[1];
  scan.num_points = random_size(random, largest);
  random_clouds(random, &scan);
  random_points(random, &asked, &within, &scan);
  if (asked.inputs[VX_POINTS].dtype == VX_FLOAT32 && random_one_in(random, 2)) make_hard(random, &scan, scan.columns);
  asked.params.fps.sampling.stacked = random_one_in(random, 2);
  asked.params.fps.sampling.start = random_one_in(random, 2) ? 0 : random_below(random, 30);
  int32_t all = random_below(random, random_one_in(random, 8) ? 5000 : 300);
  for (int32_t i = 0; i < scan.num_clouds; i++) {
    scan.samples[i] = asked.params.fps.sampling.stacked ? random_below(random, scan.counts[i] + 1) % 3000 : all;
    if (asked.params.fps.sampling.stacked && asked.params.fps.sampling.start >= scan.counts[i] &&
        !random_one_in(random, 50))
      scan.samples[i] = 0;
  }
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "random samples");
  free(scan.points);
}

// De-skew alone is no step: `start` counts all points, also those that are not finite.
static void test_moved_start(struct side sides[2]) {
  enum { COUNT = 8, COLUMNS = 3 };
  static struct vx_motion motion = {
      .count = 1, .first = -1, .last = 1, .segments = {{.pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}}}};
  static const float times[COUNT];
  static struct scan scan;
  struct vx_deskew deskew = {.times = times, .motion = &motion};
  struct vx_job asked = sampling_of(COLUMNS);
  float points[COUNT * COLUMNS];
  for (int i = 0; i < COUNT * COLUMNS; i++) points[i] = (float)i;
  points[0] = NAN;
  asked.params.fps.sampling.start = 2;
  asked.deskew = &deskew;
  scan = (struct scan){.points = points, .num_points = COUNT, .columns = COLUMNS, .num_clouds = 1};
  scan.counts[0] = COUNT;
  scan.samples[0] = 3;
  compare(sides, &asked, &scan, "samples of moved points");
}

// A stopped job leaves samples unchosen, and affects no later job. The job may finish before it calls `stopped`.
static void test_stopped(struct side sides[2], struct random *random) {
  static struct scan scan;
  struct vx_job asked = sampling_of(3);
  const struct vx_box within = {.max = {50, 50, 50}};
  for (int i = 0; i < 12; i++) {
    struct error error = {0};
    scan.num_points = i % 3 == 0 ? 1500000 : 300000;
    scan.num_clouds = 1;
    scan.counts[0] = (int32_t)scan.num_points;
    scan.samples[0] = 200000;
    random_points(random, &asked, &within, &scan);
    sides[1].stop = true;
    enum vx_status status = side_run(&sides[1], &asked, &scan, &error);
    sides[1].stop = false;
    atomic_fetch_add(&jobs_run, 1);
    if (status == VX_STOPPED || status == VX_OK)
      atomic_fetch_add(&jobs_equal, 1);
    else
      printf("UNEQUAL stopped: %s\n", error.text);
    scan.samples[0] = 500;
    compare(sides, &asked, &scan, "after a stop");
    free(scan.points);
  }
}

void test_samples(struct side sides[2], uint64_t seed, const struct scan *scans, int num_scans, int jobs,
                  int64_t largest) {
  struct random random = {seed + 1};
  test_scans(sides, scans, num_scans);
  test_moved_start(sides);
  if (largest > 300000) test_stopped(sides, &random);
  for (int i = 0; i < jobs; i++) {
    // Clouds of a million points and more use other kernels.
    test_random(sides, &random, i % 40 == 0 ? largest : largest / 8 + 100, i);
  }
}

// Farthest point sampling on the CPU, compared bit by bit with a plain loop, which visits all points for each sample.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/fps/fps.h"

struct random {
  uint64_t state;
};

static uint32_t random_bits(struct random *random) {
  random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t mixed = (random->state ^ random->state >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
  return (uint32_t)(mixed >> 32);
}

static int32_t random_below(struct random *random, int32_t below) {
  return (int32_t)(random_bits(random) % (uint32_t)below);
}

static float random_in(struct random *random, float low, float high) {
  return low + (high - low) * ((float)(random_bits(random) >> 8) / (1 << 24));
}

struct cloud {
  float *points;
  int32_t columns, count;
};

static struct cpu_arena arena;  // shared, so each run finds what earlier runs left

static int close_arena(void **state) {
  (void)state;
  cpu_arena_trim(&arena, 0);
  return 0;
}

// Values are NaN until set. Columns after x, y and z stay NaN, since they are not coordinates.
static struct cloud make_cloud(int32_t columns, int32_t count) {
  size_t floats = (size_t)columns * (size_t)count;
  struct cloud cloud = {malloc((floats + 1) * sizeof(float)), columns, count};
  assert_non_null(cloud.points);
  for (size_t i = 0; i < floats; i++) cloud.points[i] = NAN;
  return cloud;
}

static float *at(const struct cloud *cloud, int32_t i) { return cloud->points + (size_t)i * (size_t)cloud->columns; }

static void set(const struct cloud *cloud, int32_t i, float x, float y, float z) {
  float *point = at(cloud, i);
  point[0] = x;
  point[1] = y;
  point[2] = z;
}

// ---- the plain loop -------------------------------------------------------------------------------------------------

static bool finite_point(const float *p) { return isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]); }

static void plain(const struct cloud *cloud, int32_t samples, int32_t start, int32_t *indices, float *distances) {
  float *nearest = malloc(((size_t)cloud->count + 1) * sizeof *nearest);
  assert_non_null(nearest);
  for (int32_t i = 0; i < cloud->count; i++) nearest[i] = finite_point(at(cloud, i)) ? INFINITY : -1;
  indices[0] = start;
  distances[0] = INFINITY;
  for (int32_t s = 1; s < samples; s++) {
    const float *from = at(cloud, indices[s - 1]);
    int32_t farthest = -1;
    for (int32_t i = 0; i < cloud->count; i++) {
      if (nearest[i] < 0) continue;
      float dx = at(cloud, i)[0] - from[0], dy = at(cloud, i)[1] - from[1], dz = at(cloud, i)[2] - from[2];
      float distance = dx * dx + dy * dy + dz * dz;
      if (distance < nearest[i]) nearest[i] = distance;
      if (farthest < 0 || nearest[i] > nearest[farthest]) farthest = i;
    }
    indices[s] = farthest;
    distances[s] = nearest[farthest];
  }
  free(nearest);
}

// ---- runs -----------------------------------------------------------------------------------------------------------

static bool sample(const struct cpu_sample_task *task, bool any_processor) {
  struct cpu_sampler sampler;
  struct cpu_arena measured = {0};
  struct error error;
  cpu_sampler_lay_out(&sampler, &measured, task->num_points);
  assert_int_equal(cpu_arena_reserve(&arena, &measured, &(const struct vx_job){.num_clouds = 1}, &error), VX_OK);
  cpu_sampler_lay_out(&sampler, &arena, task->num_points);
  bool done = any_processor ? cpu_sample_any(&sampler, task) : cpu_sample(&sampler, task);
  assert_in_range(sampler.num_leaves, 0, task->num_points / CPU_SAMPLE_LEAF_MIN + 1);
  assert_in_range(sampler.num_nodes, 0, task->num_points / CPU_SAMPLE_LEAF_MIN + 1);
  return done;
}

static void check_from(const struct cloud *cloud, int32_t samples, int32_t start) {
  size_t count = (size_t)samples;
  int32_t *indices = malloc(2 * count * sizeof *indices);
  float *distances = malloc(2 * count * sizeof *distances);
  assert_non_null(indices);
  assert_non_null(distances);
  plain(cloud, samples, start, indices + count, distances + count);
  for (int any_processor = 0; any_processor < 2; any_processor++) {
    memset(indices, 0xA5, count * sizeof *indices);
    memset(distances, 0xA5, count * sizeof *distances);
    struct vx_stop never = {0};
    struct cpu_sample_task task = {.points = cloud->points,
                                   .columns = cloud->columns,
                                   .num_points = cloud->count,
                                   .num_samples = samples,
                                   .start = start,
                                   .stop = &never,
                                   .indices = indices,
                                   .distances = distances};
    assert_true(sample(&task, any_processor));
    assert_memory_equal(indices, indices + count, count * sizeof *indices);
    assert_memory_equal(distances, distances + count, count * sizeof *distances);
  }
  free(indices);
  free(distances);
}

static int32_t count_finite(const struct cloud *cloud) {
  int32_t finite = 0;
  for (int32_t i = 0; i < cloud->count; i++) finite += finite_point(at(cloud, i));
  return finite;
}

// ---- comparison -----------------------------------------------------------------------------------------------------
static void check(struct cloud cloud, int32_t samples) {
  int32_t start = 0, finite = count_finite(&cloud);
  while (!finite_point(at(&cloud, start))) start++;
  check_from(&cloud, samples < finite ? samples : finite, start);
  start = cloud.count * 2 / 3;
  while (start < cloud.count && !finite_point(at(&cloud, start))) start++;
  if (start < cloud.count) check_from(&cloud, samples < finite ? samples : finite, start);
  free(cloud.points);
}

// ---- clouds ---------------------------------------------------------------------------------------------------------

static struct cloud make_random(struct random *random, int32_t columns, int32_t count, float size) {
  struct cloud cloud = make_cloud(columns, count);
  for (int32_t i = 0; i < count; i++)
    for (int axis = 0; axis < 3; axis++) at(&cloud, i)[axis] = size * random_in(random, -1, 1);
  return cloud;
}

// A scan of a street: rings on the ground, walls, a few far points.
static struct cloud make_scan(struct random *random, int32_t count) {
  struct cloud cloud = make_cloud(4, count);
  for (int32_t i = 0; i < count; i++) {
    float turn = (float)i * 0.0061f, ring = 1.8f / tanf(0.42f - 0.0065f * (float)(i % 64));
    float range = ring > 0 && ring < 80 ? ring : random_in(random, 5, i % 50 ? 20 : 120);
    float z = ring == range ? -1.8f : random_in(random, -1.8f, 3);
    range += random_in(random, 0, 0.02f);
    set(&cloud, i, range * cosf(turn), range * sinf(turn), z);
  }
  return cloud;
}

static void random_clouds(void **state) {
  (void)state;
  struct random random = {1};
  for (int32_t columns = 3; columns <= 7; columns++) check(make_random(&random, columns, 3000, 50), 300);
  check(make_random(&random, 3, 20000, 1), 150);
}

static void scans(void **state) {
  (void)state;
  struct random random = {2};
  check(make_scan(&random, 5000), 1000);
  check(make_scan(&random, 30000), 60);
}

// Lengths around the sizes of a block, a leaf, and nodes of one and more levels.
static void every_length(void **state) {
  (void)state;
  struct random random = {3};
  const int32_t lengths[] = {1,   2,   3,   7,   8,   9,   15,  16,  17,  31,   32,   33,  40,
                             41,  47,  48,  49,  63,  64,  65,  79,  80,  81,   127,  128, 129,
                             160, 161, 255, 256, 257, 320, 321, 511, 513, 1023, 1281, 2561};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    check(make_random(&random, 3, lengths[i], 1), lengths[i] < 600 ? lengths[i] : 100);
    check(make_random(&random, 4, lengths[i], 1), 1);
    check(make_random(&random, 4, lengths[i], 1), 20);
  }
}

static void all_points(void **state) {
  (void)state;
  struct random random = {4};
  check(make_random(&random, 3, 1500, 10), 1500);
  check(make_scan(&random, 1200), 1200);
}

// At distance zero, the lowest index is chosen again and again.
static void all_equal(void **state) {
  (void)state;
  for (int32_t count = 1; count <= 3000; count = count * 3 + 1) {
    struct cloud cloud = make_cloud(3, count);
    for (int32_t i = 0; i < count; i++) set(&cloud, i, 1.5f, -2, 0.25f);
    check(cloud, count < 200 ? count : 200);
  }
}

static void duplicates(void **state) {
  (void)state;
  struct random random = {5};
  struct cloud cloud = make_random(&random, 4, 2000, 10);
  for (int32_t i = 0; i < cloud.count; i++) memcpy(at(&cloud, i), at(&cloud, i % 37), 3 * sizeof(float));
  check(cloud, 400);
  cloud = make_random(&random, 4, 4000, 10);  // nine of ten points are equal
  for (int32_t i = 0; i < cloud.count; i++)
    if (i % 10) set(&cloud, i, 1, 1, 1);
  check(cloud, 1000);
  cloud = make_random(&random, 3, 1000, 10);  // the second half is the first in reverse order
  for (int32_t i = 0; i < 500; i++) memcpy(at(&cloud, 999 - i), at(&cloud, i), 3 * sizeof(float));
  check(cloud, 1000);
}

static void collinear(void **state) {
  (void)state;
  struct random random = {6};
  struct cloud cloud = make_cloud(3, 4000);
  for (int32_t i = 0; i < cloud.count; i++) set(&cloud, i, (float)i, 0, 0);
  check(cloud, 1000);
  cloud = make_cloud(3, 4000);
  for (int32_t i = 0; i < cloud.count; i++) {
    float t = random_in(&random, 0, 1);
    set(&cloud, i, t, 2 * t, -t);
  }
  check(cloud, 700);
  cloud = make_cloud(3, 3000);  // 1, 1/2, 1/4 and so on to 2^-139, then again from 1
  for (int32_t i = 0; i < cloud.count; i++) set(&cloud, i, ldexpf(1, -(i % 140)), 0, -0.0f);
  check(cloud, 300);
}

static void grid(void **state) {
  (void)state;
  for (int shuffled = 0; shuffled < 2; shuffled++) {
    struct random random = {7};
    struct cloud cloud = make_cloud(3, 16 * 16 * 16);
    for (int32_t i = 0; i < cloud.count; i++) set(&cloud, i, (float)(i % 16), (float)(i / 16 % 16), (float)(i / 256));
    for (int32_t i = cloud.count - 1; shuffled && i > 0; i--) {
      float kept[3], *one = at(&cloud, i), *other = at(&cloud, random_below(&random, i));
      memcpy(kept, one, sizeof kept);
      memcpy(one, other, sizeof kept);
      memcpy(other, kept, sizeof kept);
    }
    check(cloud, 600);
  }
}

// The tree finds its cuts from a sample of points. Far points there make all cuts bad.
static void misleading(void **state) {
  (void)state;
  struct random random = {13};
  for (int32_t count = 60; count < 20000; count = count * 5 / 4) {
    struct cloud cloud = make_random(&random, 3, count, 1);
    for (int32_t period = 1; period <= 8; period++) {
      int32_t probes = count / 16 < 8 ? 8 : count / 16 < 32 ? count / 16 : 32;
      for (int32_t i = 0; i < probes; i++)
        at(&cloud, (int32_t)((int64_t)count * i / probes + period - 1) % count)[0] += 1e4f * (float)period;
    }
    check(cloud, 60);
  }
}

static void not_finite(void **state) {
  (void)state;
  struct random random = {8};
  const float values[] = {NAN, -NAN, INFINITY, -INFINITY};
  struct cloud cloud = make_random(&random, 5, 3000, 20);
  for (int32_t i = 0; i < cloud.count; i++)
    if (i % 3 == 0 || i < 20 || i > 2900) at(&cloud, i)[random_below(&random, 3)] = values[random_below(&random, 4)];
  check(cloud, 1200);
  cloud = make_cloud(3, 500);  // a single finite point
  set(&cloud, 400, 1, 2, 3);
  check(cloud, 1);
}

// Distances that overflow, are subnormal, or underflow to zero, and all of these in one cloud.
static void extremes(void **state) {
  (void)state;
  struct random random = {9};
  const float sizes[] = {1e30f, 3e38f, 1e19f, 1e-19f, 3e-20f, 1e-21f, 1e-23f, 1e-30f, 1e-38f, 1e-44f};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check(make_random(&random, 3, 600, sizes[i]), 200);
  for (int round = 0; round < 4; round++) {
    struct cloud cloud = make_random(&random, 3, 1500, 1);
    for (int32_t i = 0; i < cloud.count; i++)
      for (int axis = 0; axis < 3; axis++) at(&cloud, i)[axis] *= sizes[random_below(&random, round % 2 ? 10 : 2)];
    check(cloud, 400);
  }
}

// Few different coordinates, so that there are many ties.
static void ties(void **state) {
  (void)state;
  struct random random = {10};
  for (int round = 0; round < 300; round++) {
    int32_t count = 1 + random_below(&random, round % 10 ? 250 : 1500), steps = 1 + random_below(&random, 12);
    int32_t thickness = random_below(&random, 3) ? steps : 1;
    float scale = random_below(&random, 4) ? 1 : 1e-22f;
    struct cloud cloud = make_cloud(3 + random_below(&random, 3), count);
    for (int32_t i = 0; i < count; i++)
      set(&cloud, i, scale * (float)random_below(&random, steps), scale * (float)random_below(&random, steps),
          scale * (float)random_below(&random, thickness));
    for (int32_t i = random_below(&random, 40); i < count - 1; i += 1 + random_below(&random, 40))
      at(&cloud, i)[1] = NAN;
    if (count_finite(&cloud) == 0) set(&cloud, 0, 1, 1, 1);
    check(cloud, 1 + random_below(&random, count < 300 ? count : 300));
  }
}

static void many_points(void **state) {
  (void)state;
  struct random random = {11};
  check(make_random(&random, 3, 300000, 100), 24);
  check(make_scan(&random, 250000), 5);
}

// ---- stopping -------------------------------------------------------------------------------------------------------

struct questions {
  int asked, until;
};

static bool ask(void *ctx) {
  struct questions *questions = ctx;
  return ++questions->asked > questions->until;
}

static void stopped(void **state) {
  (void)state;
  enum { SAMPLES = 1000 };
  static int32_t indices[SAMPLES];
  static float distances[SAMPLES];
  struct random random = {12};
  struct cloud cloud = make_random(&random, 3, 150000, 1);
  struct questions questions = {.until = INT32_MAX};
  struct vx_stop stop = {ask, &questions, 0, false};
  struct cpu_sample_task task = {.points = cloud.points,
                                 .columns = 3,
                                 .num_points = cloud.count,
                                 .num_samples = SAMPLES,
                                 .stop = &stop,
                                 .indices = indices,
                                 .distances = distances};
  assert_true(sample(&task, false));
  int asked = questions.asked;
  assert_true(asked >= SAMPLES / 40);
  for (int until = 0; until < asked; until += 1 + until / 4) {
    questions = (struct questions){.until = until};
    stop = (struct vx_stop){ask, &questions, 0, false};
    assert_false(sample(&task, false));
    assert_int_equal(questions.asked, until + 1);
  }
  free(cloud.points);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_clouds), cmocka_unit_test(scans),     cmocka_unit_test(every_length),
      cmocka_unit_test(all_points),    cmocka_unit_test(all_equal), cmocka_unit_test(duplicates),
      cmocka_unit_test(collinear),     cmocka_unit_test(grid),      cmocka_unit_test(misleading),
      cmocka_unit_test(not_finite),    cmocka_unit_test(extremes),  cmocka_unit_test(ties),
      cmocka_unit_test(many_points),   cmocka_unit_test(stopped),
  };
  return cmocka_run_group_tests(tests, NULL, close_arena);
}

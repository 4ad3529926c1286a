// Range images as jobs on the CPU, and the vector code of each processor. tests/oracle compares every bit with numpy.
#include "kernels/cpu/image/image.h"
#include "tests/unit/kernels/kernels_reference.h"

enum { COLUMNS = 4, WIDTH = 8, HEIGHT = 2 };

static struct vx_job image_params(void) {
  return (struct vx_job){.op = VX_RANGE_IMAGE_OP,
                         .params.image = {.height = HEIGHT,
                                          .width = WIDTH,
                                          .fov_up = 45,
                                          .fov_down = -45,
                                          .empty = -1,
                                          .num_channels = 2,
                                          .channels = {VX_DISTANCE_CHANNEL, 3}},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
                         .tensors = VX_RANGE_IMAGE_TENSORS};
}

// Two points ahead and above the horizon, one to the left and below it, one not finite, one straight up.
static const float rows[] = {3, 0, 1, 7, 2, 0, 1, 8, 0, 4, -1, 9, NAN, 0, 0, 0, 0, 0, 5, 6};
static const int32_t five = 5;

static void a_pixel_keeps_its_nearest_point(void **state) {
  (void)state;
  struct vx_job asked = image_params();
  asked.params.image.outside = VX_OUTSIDE_DROP;
  struct outcome outcome = run_on(lane, &asked, rows, 1, &five);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.kept, 2);
  assert_int_equal(outcome.counts.occluded, 1);
  assert_int_equal(outcome.counts.outside_image, 1);
  assert_int_equal(outcome.counts.not_finite, 1);
  const int32_t *indices = tensor(&outcome, VX_RANGE_INDICES);
  assert_int_equal(indices[4], 1);
  assert_int_equal(indices[WIDTH + 2], 2);
  assert_int_equal(indices[0], -1);
  const float *image = tensor(&outcome, VX_RANGE_IMAGE);
  assert_true(image[4] == sqrtf(5) && image[HEIGHT * WIDTH + 4] == 8 && image[0] == -1);
  free(outcome.block);
}

// Parameters that do not fit the points or exceed a limit.
static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  enum { CASES = 8 };
  struct vx_job wrong[CASES];
  for (int i = 0; i < CASES; i++) wrong[i] = image_params();
  wrong[0].params.image.height = 0;
  wrong[1].params.image.width = VX_MAX_IMAGE_WIDTH + 1;
  wrong[2].params.image.height = VX_MAX_IMAGE_HEIGHT;  // two such images have more than 2^26 pixels
  wrong[2].params.image.width = VX_MAX_IMAGE_WIDTH;
  wrong[3].params.image.num_channels = 0;
  wrong[4].params.image.channels[1] = COLUMNS;
  wrong[5].params.image.fov_up = -45;
  wrong[6].params.image.rows = VX_ROWS_RING;
  wrong[6].params.image.ring = COLUMNS;
  wrong[7].params.image.num_channels = VX_MAX_IMAGE_CHANNELS + 1;
  for (int i = 0; i < CASES; i++) {
    const int32_t counts[] = {2, 3};
    struct outcome outcome = run_on(lane, &wrong[i], rows, 2, counts);
    assert_int_equal(outcome.status, VX_REFUSED);
    assert_int_equal(outcome.outputs, 0);
    if (i == 2) assert_non_null(strstr(outcome.error.text, "2^26"));
  }
}

static void sections_are_counted_apart(void **state) {
  (void)state;
  static const int32_t points[] = {1, 4};
  struct vx_counts counts[2];
  struct vx_job asked = image_params();
  asked.tensors = 0;
  asked.sections = (struct vx_sections){2, points, counts};
  struct outcome outcome = run_on(lane, &asked, rows, 1, &five);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(counts[0].occluded, 1);
  assert_int_equal(counts[0].kept, 0);
  assert_int_equal(counts[1].kept, 2);
  assert_int_equal(counts[1].occluded, 1);  // the point straight up, in the upper row
  assert_int_equal(counts[1].not_finite, 1);
}

// Points near and far, on the axes and not finite. `row`, used with VX_ROWS_RING, may be outside the image.
static void fill_points(struct cpu_projected *points) {
  struct random random = {7};
  for (int i = 0; i < CPU_PROJECTED; i++) {
    points->x[i] = random_in(&random, -50, 50) * (i % 5 == 0 ? 1e30f : 1);
    points->y[i] = i % 7 == 0 ? 0 : random_in(&random, -50, 50);
    points->z[i] = i % 11 == 0 ? NAN : i % 13 == 0 ? -INFINITY : random_in(&random, -3, 3);
    points->row[i] = i % 65 - 1;
  }
}

static void assert_same(const struct cpu_projected *got, const struct cpu_projected *expected) {
  assert_memory_equal(got->pixel, expected->pixel, sizeof got->pixel);
  for (int i = 0; i < CPU_PROJECTED; i++)
    if (got->pixel[i] != VX_NOT_FINITE_PIXEL)
      assert_memory_equal(&got->distance[i], &expected->distance[i], sizeof(float));
}

static void every_way_computes_the_same(void **state) {
  (void)state;
  static struct cpu_projected plain, other;
  const struct cpu_project_way *last = &cpu_project_ways[cpu_num_project_ways - 1];
  assert_true(last->runs());
  for (int how = 0; how < 3; how++) {
    struct vx_range_image params = {.height = 64, .width = 2048, .fov_up = 3, .fov_down = -25};
    params.rows = how == 2 ? VX_ROWS_RING : VX_ROWS_ELEVATION;
    params.outside = how == 1 ? VX_OUTSIDE_DROP : VX_OUTSIDE_CLAMP;
    fill_points(&plain);
    last->project(&params, &plain);
    for (const struct cpu_project_way *way = cpu_project_ways; way < last; way++) {
      if (!way->runs()) {
        print_message("%s does not run on this processor\n", way->name);
        continue;
      }
      memset(&other, 0xA5, sizeof other);
      fill_points(&other);
      way->project(&params, &other);
      assert_same(&other, &plain);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pixel_keeps_its_nearest_point),
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(sections_are_counted_apart),
      cmocka_unit_test(every_way_computes_the_same),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}

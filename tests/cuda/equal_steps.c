// See equal.h: chains of steps, alone and before an operation.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "tests/cuda/equal.h"

static struct vx_box random_box(struct random *random) {
  struct vx_box box;
  for (int axis = 0; axis < 3; axis++) {
    box.min[axis] = 60 * random_unit(random) - 40;
    box.max[axis] = box.min[axis] + 1e-3f + random_unit(random) * (random_one_in(random, 3) ? 80 : 10);
  }
  return box;
}

static void random_matrix(struct random *random, float *matrix) {
  static const float scales[] = {1, 1, 1, 0, 1e-20f, 1e30f};
  float scale = scales[random_below(random, sizeof scales / sizeof scales[0])];
  for (int i = 0; i < 12; i++) matrix[i] = (random_unit(random) * 2 - 1) * (i % 4 == 3 ? 20 : 1) * scale;
  matrix[12] = matrix[13] = matrix[14] = 0;
  matrix[15] = 1;
}

static void random_transform(struct random *random, const struct scan *scan, struct vx_step *step) {
  static float matrices[VX_MAX_STEPS][VX_MAX_CLOUDS][VX_MATRIX_VALUES];
  static struct vx_box cuts[VX_MAX_STEPS][VX_MAX_CUTS];
  static int next;  // so that the steps of a chain have different memory
  struct vx_transform *params = &step->params.transform;
  int at = next++ % VX_MAX_STEPS;
  if (!random_one_in(random, 4)) params->num_matrices = random_one_in(random, 2) ? 1 : scan->num_clouds;
  for (int32_t i = 0; i < params->num_matrices; i++) random_matrix(random, matrices[at][i]);
  params->matrices = matrices[at][0];
  params->cropped = random_one_in(random, 2);
  params->crop = random_box(random);
  params->num_cuts = random_one_in(random, 3) ? 0 : random_below(random, VX_MAX_CUTS + 1);
  for (int32_t i = 0; i < params->num_cuts; i++) cuts[at][i] = random_box(random);
  params->cuts = cuts[at];
  params->ranged = random_one_in(random, 3);
  params->least = random_unit(random) * 5;
  params->most = params->least + 1 + random_unit(random) * 100;
}

static void random_downsample(struct random *random, const struct scan *scan, struct vx_step *step) {
  static const float sizes[] = {0.05f, 0.2f, 0.5f, 1, 3, 10, 200, 1e-4f, 1e30f};
  struct vx_downsample *params = &step->params.downsample;
  (void)scan;
  if (random_one_in(random, 6)) params->every = 1 + random_below(random, 9);
  for (int axis = 0; axis < 3; axis++) {
    params->size[axis] = sizes[random_below(random, sizeof sizes / sizeof *sizes)];
    if (axis > 0 && !random_one_in(random, 3)) params->size[axis] = params->size[0];
    params->origin[axis] = random_one_in(random, 3) ? 20 * random_unit(random) - 10 : 0;
  }
  params->method = (enum vx_downsample_method)random_below(random, VX_DOWNSAMPLE_ALL + 1);
  params->cells = (enum vx_lattice_cells)random_below(random, 2);
  params->average = (enum vx_downsample_average)random_below(random, 2);
  params->min_points = random_one_in(random, 3) ? 1 + random_below(random, 5) : 1;
  params->seed = random_below(random, 3);
}

static void random_ring_outlier(struct random *random, const struct scan *scan, struct vx_step *step) {
  struct vx_ring_outlier *params = &step->params.ring_outlier;
  params->column = random_one_in(random, 3) ? VX_KITTI_RINGS : scan->columns - 1;
  params->ratio = random_one_in(random, 3) ? 1.03f : 1 + 9 * random_unit(random);
  params->length = random_one_in(random, 2) ? 0.05f : 20 * random_unit(random);
  params->tangent = random_one_in(random, 2) ? 0.0174550649f : 10 * random_unit(random);
  params->most = random_one_in(random, 3) ? 1 + random_below(random, 6) : INT32_MAX;
}

static void random_radius_outlier(struct random *random, const struct scan *scan, struct vx_step *step) {
  static const float radii[] = {VX_LEAST_RADIUS, 0.05f, 0.2f, 0.5f, 2, 10, VX_MOST_RADIUS};
  struct vx_radius_outlier *params = &step->params.radius_outlier;
  (void)scan;
  params->radius = radii[random_below(random, sizeof radii / sizeof *radii)];
  params->min_neighbors = random_one_in(random, 4) ? 1 + random_below(random, VX_MAX_NEIGHBORS) : 1;
  params->axes = (enum vx_radius_axes)random_below(random, 2);
}

static void random_statistical_outlier(struct random *random, const struct scan *scan, struct vx_step *step) {
  struct vx_statistical_outlier *params = &step->params.statistical_outlier;
  (void)scan;
  params->mean_k = 1 + random_below(random, random_one_in(random, 4) ? VX_MAX_MEAN_K : 20);
  params->std_mul = random_one_in(random, 4) ? 0 : 3 * random_unit(random);
}

static void (*const random_steps[VX_STEP_TYPES])(struct random *random, const struct scan *scan,
                                                 struct vx_step *step) = {
    [VX_STEP_TRANSFORM] = random_transform,
    [VX_STEP_DOWNSAMPLE] = random_downsample,
    [VX_STEP_RING_OUTLIER] = random_ring_outlier,
    [VX_STEP_RADIUS_OUTLIER] = random_radius_outlier,
    [VX_STEP_STATISTICAL_OUTLIER] = random_statistical_outlier,
};

void random_chain(struct random *random, const struct scan *scan, struct vx_chain *chain) {
  *chain = (struct vx_chain){.count = random_below(random, VX_MAX_STEPS + 1)};
  for (int32_t i = 0; i < chain->count; i++) {
    chain->steps[i].type = (enum vx_step_type)random_below(random, VX_STEP_TYPES);
    random_steps[chain->steps[i].type](random, scan, &chain->steps[i]);
  }
}

// In most scans with more than three columns, fills the last column with numbers of rings.
static void number_rings(struct random *random, const struct vx_job *asked, struct scan *scan) {
  scan->columns = job_columns(asked);
  if (scan->columns == 3 || random_one_in(random, 4)) return;
  enum vx_dtype dtype = asked->inputs[VX_POINTS].dtype;
  for (int64_t i = 0; i < scan->num_points; i++) {
    float ring = (float)random_below(random, 5);
    int64_t at = (i + 1) * scan->columns - 1;
    vx_narrow(dtype, &ring, 1, (unsigned char *)scan->points + (size_t)at * vx_dtype_size(dtype));
  }
}

static void test_points(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  const struct vx_box within = {{-40, -40, -4}, {40, 40, 4}};
  int32_t columns = 3 + random_below(random, random_one_in(random, 8) ? 62 : 8);
  struct vx_chain chain;
  struct vx_job asked = {.op = VX_POINTS_OP,
                         .inputs = {vx_points_of(random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32, 0, columns, NULL)},
                         .tensors = random_bits(random) & VX_CHAIN_TENSORS,
                         .chain = &chain};
  scan.columns = columns;
  scan.num_points = random_size(random, largest < 20000000 / columns ? largest : 20000000 / columns);
  random_clouds(random, &scan);
  random_points(random, &asked, &within, &scan);
  number_rings(random, &asked, &scan);
  random_chain(random, &scan, &chain);
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "random points");
  free(scan.points);
}

static void test_voxels(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  struct vx_chain chain;
  struct vx_job asked;
  random_job(random, largest, &asked, &scan);
  if (random_one_in(random, 2)) asked.tensors |= random_bits(random) & VX_CHAIN_TENSORS;
  number_rings(random, &asked, &scan);
  random_chain(random, &scan, &chain);
  asked.chain = &chain;
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "voxels behind steps");
  free(scan.points);
}

// Fills rows (x, y, z, ring) like a sensor that turns: rings of up to `longest` rows. Few neighbours are far apart, so
// that the walks of step_ring_outlier.h are long. Some rows are not finite.
static void turn_around(struct random *random, int32_t longest, struct scan *scan) {
  float *values = scan->points = malloc((size_t)(scan->num_points * 4 + 1) * sizeof *values);
  int32_t rows = 0, of_ring = 0, ring = -1, jumps = 1 + random_below(random, 2000);
  float distance = 0;
  for (int64_t i = 0; i < scan->num_points; i++, rows++) {
    if (rows == of_ring) rows = 0, of_ring = 1 + random_below(random, longest), ring++;
    if (rows == 0 || random_one_in(random, jumps)) distance = 2 + 30 * random_unit(random);
    float angle = 6.28318531f * ((float)rows + 0.25f) / (float)of_ring;
    values[4 * i] = random_one_in(random, 500) ? NAN : distance * cosf(angle);
    values[4 * i + 1] = distance * sinf(angle);
    values[4 * i + 2] = random_unit(random);
    values[4 * i + 3] = (float)ring;
  }
}

// Rings with many rows and few walks.
static void test_rings(struct side sides[2], struct random *random, int number) {
  static struct scan scan;
  struct vx_chain chain = {.count = 2, .steps = {{.type = VX_STEP_TRANSFORM}, {.type = VX_STEP_RING_OUTLIER}}};
  struct vx_job asked = {.op = VX_POINTS_OP,
                         .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                         .tensors = VX_TENSOR_BIT(VX_POINT_FATES) | VX_TENSOR_BIT(VX_POINT_INDICES),
                         .chain = &chain};
  struct vx_transform *moving = &chain.steps[0].params.transform;
  struct vx_ring_outlier *params = &chain.steps[1].params.ring_outlier;
  scan.columns = 4;
  scan.num_points = random_size(random, 20000);
  random_clouds(random, &scan);
  turn_around(random, random_one_in(random, 4) ? 10 : 8000, &scan);
  moving->ranged = random_one_in(random, 2);
  moving->least = 20 * random_unit(random);
  moving->most = 100;
  random_ring_outlier(random, &scan, &chain.steps[1]);
  params->column = random_one_in(random, 3) ? 3 : VX_KITTI_RINGS;
  params->tangent = random_one_in(random, 3) ? 0.05f : 1;
  params->length = 80 * random_unit(random);
  params->most = random_one_in(random, 3) ? 1 + random_below(random, 4000) : INT32_MAX;
  snprintf(scan.name, sizeof scan.name, "%d", number);
  compare(sides, &asked, &scan, "long rings");
  free(scan.points);
}

// On a GPU the first kernel of the voxelization moves the points, unless the scan has sections or a matrix for each of
// several clouds.
static void test_transformed(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  struct vx_chain chain = {.count = 1, .steps = {{.type = VX_STEP_TRANSFORM}}};
  struct vx_job asked;
  random_job(random, largest, &asked, &scan);
  random_transform(random, &scan, &chain.steps[0]);
  if (!random_one_in(random, 4)) scan.num_sections = 0;
  asked.chain = &chain;
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "voxels behind a transform");
  free(scan.points);
}

// A sampling is refused if the chain leaves too few points.
static void test_samples_left(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  const struct vx_box within = {{-40, -40, -4}, {40, 40, 4}};
  struct vx_chain chain;
  struct vx_job asked = {.op = VX_FPS,
                         .params.fps.sampling = {.enabled = true,
                                                 .start = random_below(random, 3),
                                                 .stacked = true,
                                                 .max_work = INT64_MAX},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                         .tensors = VX_TENSOR_BIT(VX_SAMPLED_INDICES) | (random_bits(random) & VX_CHAIN_TENSORS),
                         .chain = &chain};
  scan.columns = 4;
  scan.num_points = random_size(random, largest < 4000 ? largest : 4000);
  random_clouds(random, &scan);
  random_points(random, &asked, &within, &scan);
  random_chain(random, &scan, &chain);
  chain.count = chain.count < 2 ? chain.count : 2;
  for (int32_t i = 0; i < scan.num_clouds; i++) scan.samples[i] = scan.counts[i] < 8 ? 0 : 2;
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "samples behind steps");
  free(scan.points);
}

// Without steps, sections and tensors of the chain, the first kernel of the voxelization makes the cylindrical rows on
// a GPU.
static void test_cylinder(struct side sides[2], struct random *random, int64_t largest, int number) {
  static struct scan scan;
  const struct vx_box within = {{-40, -40, -4}, {40, 40, 4}};
  struct vx_chain chain = {.count = 0};
  int32_t columns = 3 + random_below(random, 4);
  struct vx_job asked = {.op = VX_VOXELIZE,
                         .inputs = {vx_points_of(random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32, 0, columns, NULL)},
                         .tensors = MEAN | BIT(VX_POINT_VOXEL_IDS),
                         .chain = &chain};
  struct vx_voxelize *params = &asked.params.voxelize;
  *params = (struct vx_voxelize){.range_min = {0, -3.14159265f, -4},
                                 .range_max = {50, 3.14159265f, 2},
                                 .coordinates = VX_CYLINDER,
                                 .max_points_per_voxel = random_one_in(random, 2) ? 0 : 5,
                                 .max_voxels = random_one_in(random, 4) ? 20 : 100000,
                                 .order = random_one_in(random, 2) ? VX_ORDER_KEY : VX_ORDER_FIRST};
  if (params->max_points_per_voxel > 0) asked.tensors |= VX_VOXEL_TENSORS;
  if (random_one_in(random, 2)) asked.tensors |= random_bits(random) & VX_CHAIN_TENSORS;
  for (int axis = 0; axis < 3; axis++) {
    params->grid_shape[axis] = 2 + random_below(random, 480);
    params->voxel_size[axis] =
        (params->range_max[axis] - params->range_min[axis]) / (float)(params->grid_shape[axis] - 1);
  }
  scan.columns = columns;
  scan.num_points = random_size(random, largest < 2000000 ? largest : 2000000);
  random_clouds(random, &scan);
  random_points(random, &asked, &within, &scan);
  if (random_one_in(random, 2)) random_chain(random, &scan, &chain);
  snprintf(scan.name, sizeof scan.name, "%d", number);
  random_deskew(random, &scan, &asked);
  compare(sides, &asked, &scan, "random cylinder");
  free(scan.points);
}

// ---- stopped steps --------------------------------------------------------------------------------------------------

enum { STOPPED_ROWS = 1000000, FAR_ROWS = 4000000 };

static struct scan scan_of(int32_t rows) {
  struct scan scan = {.columns = 3, .num_points = rows, .num_clouds = 1, .counts = {rows}};
  scan.points = calloc((size_t)rows, 3 * sizeof(float));
  if (!scan.points) exit(2);
  return scan;
}

static int64_t timed_run(struct side *side, const struct vx_job *asked, const struct scan *scan, enum vx_status *status,
                         struct error *error) {
  int64_t began = clock_ns();
  *status = side_run(side, asked, scan, error);
  return clock_ns() - began;
}

// A stopped run must take less than 3/4 of the time of a whole run. Most of a stopped run's time is the host's own.
static void compare_stopped(struct side sides[2], const struct vx_job *asked, const struct scan *scan,
                            const char *name) {
  struct error error = {0}, end = {0};
  enum vx_status whole, stopped;
  (void)timed_run(&sides[1], asked, scan, &whole, &error);  // takes the lane's memory
  int64_t ns = timed_run(&sides[1], asked, scan, &whole, &error);
  atomic_store(&sides[1].stop, true);
  int64_t stopped_ns = timed_run(&sides[1], asked, scan, &stopped, &end);
  atomic_store(&sides[1].stop, false);
  bool good = whole == VX_OK && stopped == VX_STOPPED && stopped_ns < ns * 3 / 4 &&
              strcmp(end.text, "ended before all rows were done") == 0;
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, good);
  printf("%s: stopped after %.1f of %.1f ms\n", name, (double)stopped_ns / 1e6, (double)ns / 1e6);
  if (!good) printf("UNEQUAL stop: %s %s\n", error.text, end.text);
}

// A chain of many slow steps. Then a step whose few searches visit all rows of a far cell and find no neighbour there.
static void test_stops(struct side sides[2], struct random *random) {
  struct vx_chain slow = {.count = VX_MAX_STEPS}, vain = {.count = 1};
  struct vx_job asked = {
      .op = VX_POINTS_OP, .inputs = {vx_points_of(VX_FLOAT32, 0, 3, NULL)}, .tensors = VX_TENSOR_BIT(VX_POINT_INDICES)};
  struct scan scan = scan_of(STOPPED_ROWS);
  float *values = scan.points;
  for (int64_t i = 0; i < 3 * (int64_t)STOPPED_ROWS; i++) values[i] = random_unit(random);
  for (int32_t i = 0; i < slow.count; i++)
    slow.steps[i] = (struct vx_step){.type = VX_STEP_STATISTICAL_OUTLIER,
                                     .params.statistical_outlier = {.mean_k = VX_MAX_MEAN_K, .std_mul = 1e6f}};
  asked.chain = &slow;
  compare_stopped(sides, &asked, &scan, "statistical outlier");
  free(scan.points);
  scan = scan_of(FAR_ROWS);
  values = scan.points;
  for (int32_t i = 0; i < VX_MAX_NEIGHBORS - 1; i++) values[3 * i] = 1.2f;  // two cells from the others
  vain.steps[0] = (struct vx_step){.type = VX_STEP_RADIUS_OUTLIER,
                                   .params.radius_outlier = {.radius = 1, .min_neighbors = VX_MAX_NEIGHBORS}};
  asked.chain = &vain;
  compare_stopped(sides, &asked, &scan, "radius outlier");
  scan.num_points = scan.counts[0] = 5000;
  compare(sides, &asked, &scan, "steps after stopped ones");
  free(scan.points);
}

// A block filter with a large window around millions of blocks.
static void test_stopped_filter(struct side sides[2]) {
  enum { SIDE = 2000 };
  struct vx_job asked = {
      .op = VX_VOXELIZE,
      .params
          .voxelize = {.range_max = {SIDE, SIDE, 1},
                       .voxel_size = {1, 1, 1},
                       .max_voxels = SIDE * SIDE,
                       .max_points_per_voxel = 1,
                       .block_filter = {.enabled = true, .factor = 1, .size = VX_MAX_BLOCK_SIZE, .low = -1, .high = 1}},
      .inputs = {vx_points_of(VX_FLOAT32, 0, 3, NULL)},
      .tensors = BIT(VX_VOXEL_COORDS)};
  struct scan scan = scan_of(SIDE * SIDE);
  float *values = scan.points;
  for (int32_t i = 0; i < SIDE * SIDE; i++) {
    values[3 * i] = (float)(i % SIDE);
    values[3 * i + 1] = (float)(i / SIDE);
  }
  compare_stopped(sides, &asked, &scan, "block filter");
  scan.num_points = scan.counts[0] = 5000;
  compare(sides, &asked, &scan, "filter after a stopped one");
  free(scan.points);
}

void test_steps(struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  struct random random = {seed + 2};
  if (largest >= STOPPED_ROWS) test_stops(sides, &random);
  if (largest >= STOPPED_ROWS) test_stopped_filter(sides);
  for (int i = 0; i < jobs; i++) {
    test_points(sides, &random, largest, i);
    test_rings(sides, &random, i);
    test_voxels(sides, &random, largest, i);
    test_transformed(sides, &random, largest, i);
    test_samples_left(sides, &random, largest, i);
    test_cylinder(sides, &random, largest, i);
  }
}

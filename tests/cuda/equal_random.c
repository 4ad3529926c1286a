// See equal.h: random numbers (splitmix64), and random jobs.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/cuda/equal.h"

uint64_t random_bits(struct random *random) {
  uint64_t z = random->state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

int32_t random_below(struct random *random, int32_t limit) { return (int32_t)(random_bits(random) % (uint64_t)limit); }
bool random_one_in(struct random *random, int32_t n) { return random_below(random, n) == 0; }
float random_unit(struct random *random) { return (float)(random_bits(random) >> 40) / 16777216.0f; }

int64_t random_size(struct random *random, int64_t largest) {
  switch (random_below(random, 12)) {
    case 0: return random_below(random, 3);
    case 1: return random_below(random, 70);
    case 2: return 1023 + random_below(random, 3);
    case 3: return largest / 2 + random_below(random, (int32_t)(largest / 2));
    case 4:
    case 5: return random_below(random, (int32_t)(largest / 8 + 1));
    default: return random_below(random, largest < 20000 ? (int32_t)largest : 20000);
  }
}

static float strange_value(struct random *random) {
  static const uint32_t bits[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x7F812345u, 0xFFC54321u,
                                  0x7149F2CAu, 0x80000000u, 0x00000001u, 0x80000123u};
  return vx_bits_float(bits[random_below(random, sizeof bits / sizeof bits[0])]);
}

void random_choice(struct random *random, struct vx_choice *choice) {
  *choice = (struct vx_choice){.voxels_by = random_one_in(random, 2)   ? VX_VOXELS_FIRST
                                            : random_one_in(random, 2) ? VX_VOXELS_NEAR
                                                                       : VX_VOXELS_FULL,
                               .points_by = random_one_in(random, 2) ? VX_POINTS_FIRST : VX_POINTS_RANDOM,
                               .seed = random_below(random, INT32_MAX)};
}

static void random_params(struct random *random, struct vx_job *asked) {
  static const int32_t caps[] = {0, 1, 2, 3, 5, 8, 10, 20, 31, 32, 33, 35, 64, 65, 100, 300, 1024};
  *asked = (struct vx_job){.op = VX_VOXELIZE};
  asked->inputs[VX_POINTS] =
      vx_points_of(VX_FLOAT32, 0, 3 + random_below(random, random_one_in(random, 8) ? 62 : 14), NULL);
  float size = random_one_in(random, 6) ? 1e-4f : random_one_in(random, 5) ? 1000.0f : 0.05f + random_unit(random) * 2;
  for (int axis = 0; axis < 3; axis++) {
    asked->params.voxelize.range_min[axis] = -20.0f * random_unit(random) - 1.0f;
    asked->params.voxelize.range_max[axis] = 20.0f * random_unit(random) + 1.0f;
    asked->params.voxelize.voxel_size[axis] = size * (0.5f + random_unit(random));
    float extent = asked->params.voxelize.range_max[axis] - asked->params.voxelize.range_min[axis];
    if (asked->params.voxelize.voxel_size[axis] > extent) asked->params.voxelize.voxel_size[axis] = extent;
  }
  asked->params.voxelize.max_points_per_voxel = caps[random_below(random, sizeof caps / sizeof caps[0])];
  asked->params.voxelize.max_voxels =
      random_one_in(random, 2) ? VX_MAX_VOXELS : 1 + random_below(random, random_one_in(random, 2) ? 50 : 20000);
  random_choice(random, &asked->params.voxelize.choice);
  asked->inputs[VX_POINTS].dtype = random_one_in(random, 4) ? VX_FLOAT16 : VX_FLOAT32;
  asked->params.voxelize.feature_dtype = random_one_in(random, 3) ? VX_FLOAT16 : VX_FLOAT32;
  asked->params.voxelize.order = random_one_in(random, 3) ? VX_ORDER_KEY : VX_ORDER_FIRST;
  asked->params.voxelize.fill = random_one_in(random, 2) ? VX_FILL_MEAN : VX_FILL_ZERO;
  if (random_one_in(random, 3)) {
    float low = random_unit(random) * 4;
    asked->params.voxelize.block_filter =
        (struct vx_block_filter){.enabled = true,
                                 .factor = random_one_in(random, 9) ? 1000000 : 1 + random_below(random, 12),
                                 .size = 1 + random_below(random, random_one_in(random, 4) ? 32 : 6),
                                 .low = random_one_in(random, 3) ? -1.0f : low,
                                 .high = low + random_unit(random) * 30};
  }
  asked->tensors = random_one_in(random, 10)  ? 0
                   : random_one_in(random, 2) ? VX_VOXEL_TENSORS
                                              : (vx_tensor_set)random_below(random, VX_VOXEL_TENSORS + 1);
  if (asked->params.voxelize.max_points_per_voxel == 0 && !random_one_in(random, 10))
    asked->tensors &= MEAN | BIT(VX_POINT_VOXEL_IDS);
  if (random_one_in(random, 6)) {  // small caps: a few threads of the GPU write each voxel
    asked->tensors = BASE | BIT(VX_VOXELS) | (random_one_in(random, 2) ? BIT(VX_VOXEL_FEATURES) : 0);
    asked->params.voxelize.fill = VX_FILL_ZERO;
    asked->params.voxelize.max_points_per_voxel = 1 + random_below(random, 16);
  }
}

void random_sections(struct random *random, struct scan *scan) {
  static const int32_t most[] = {1, 2, 10, 33, VX_MAX_SECTIONS};
  int32_t count = 1 + random_below(random, most[random_below(random, sizeof most / sizeof most[0])]), end = 0;
  scan->num_sections = scan->num_clouds > 1 || random_one_in(random, 3) ? 0 : count;
  for (int32_t i = 0; i < scan->num_sections; i++) {
    int32_t left = SECTION_PARTS - end;
    end += random_one_in(random, 5) ? 0 : random_below(random, 2 * left / (count - i) + 1);
    end = end > SECTION_PARTS || i == count - 1 ? SECTION_PARTS : end;
    scan->section_ends[i] = end;
  }
}

void random_clouds(struct random *random, struct scan *scan) {
  scan->num_clouds =
      random_one_in(random, 2) ? 1 : 1 + random_below(random, random_one_in(random, 6) ? VX_MAX_CLOUDS : 9);
  int64_t left = scan->num_points;
  for (int32_t i = 0; i < scan->num_clouds; i++) {
    bool last = i == scan->num_clouds - 1;
    scan->counts[i] = last ? (int32_t)left
                      : random_one_in(random, 4)
                          ? 0
                          : random_below(random, (int32_t)(left * 2 / (scan->num_clouds - i) + 1));
    if (scan->counts[i] > left) scan->counts[i] = (int32_t)left;
    left -= scan->counts[i];
  }
  if (scan->num_clouds > 1 && random_one_in(random, 3)) {  // an empty cloud at the end
    scan->counts[scan->num_clouds - 2] += scan->counts[scan->num_clouds - 1];
    scan->counts[scan->num_clouds - 1] = 0;
  }
  random_sections(random, scan);
}

// `kind`: 0 anywhere, 1 clustered, 2 in one cell, 3 repeated, 4 ordered like a lidar's sweep.
void random_points(struct random *random, const struct vx_job *asked, const struct vx_box *within, struct scan *scan) {
  int32_t columns = job_columns(asked), kind = random_below(random, 5);
  float *points = malloc((size_t)(scan->num_points * columns + 1) * sizeof *points);
  bool strange = random_one_in(random, 3);
  for (int64_t i = 0; i < scan->num_points; i++) {
    float *point = points + i * columns;
    for (int32_t c = 0; c < columns; c++) {
      float low = c < 3 ? within->min[c] : 0, high = c < 3 ? within->max[c] : 1;
      float at = kind == 1   ? 0.5f + 0.02f * (random_unit(random) + random_unit(random) + random_unit(random) - 1.5f)
                 : kind == 2 ? 0.5f
                 : kind == 4 ? 0.5f + 0.4f * sinf((float)i * 1e-3f * (float)(c + 1))
                             : random_unit(random) * 1.05f - 0.02f;
      point[c] = c < 3 ? low + at * (high - low) : random_unit(random) * 100 - 50;
    }
    if (kind == 3 && i > 0 && !random_one_in(random, 4))
      memcpy(point, points + (int64_t)(random_bits(random) % (uint64_t)i) * columns, (size_t)columns * sizeof *point);
    if (strange && random_one_in(random, 50)) point[random_below(random, columns)] = strange_value(random);
  }
  scan->points = points;
  if (asked->inputs[VX_POINTS].dtype == VX_FLOAT16) {
    uint16_t *halves = malloc((size_t)(scan->num_points * columns + 1) * sizeof *halves);
    for (int64_t i = 0; i < scan->num_points * columns; i++)
      halves[i] = strange && random_one_in(random, 99) ? (uint16_t)random_bits(random) : vx_float_to_half(points[i]);
    free(points);
    scan->points = halves;
  }
}

static float random_time(struct random *random, const struct vx_motion *motion) {
  static const float strange[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e30f, -1e30f};
  if (random_one_in(random, 40)) return strange[random_below(random, sizeof strange / sizeof *strange)];
  if (random_one_in(random, 10)) return motion->segments[random_below(random, motion->count)].start;
  return 0.5f * random_unit(random) - 0.25f;
}

static void random_segments(struct random *random, struct vx_motion *motion) {
  static const float speeds[] = {0, 1, 30, 1e-20f, 1e20f}, turns[] = {0, 0.5f, 2, 50, 1e-20f};
  float speed = speeds[random_below(random, 5)], turn = turns[random_below(random, 5)];
  motion->count = 1 + random_below(random, random_one_in(random, 3) ? VX_MAX_SEGMENTS : 6);
  motion->first = -0.2f;
  motion->last = 0.2f;
  for (int32_t i = 0; i < motion->count; i++) {
    struct vx_segment *segment = &motion->segments[i];
    segment->start = -0.2f + 0.4f * (float)i / (float)motion->count;
    for (int k = 0; k < 12; k++) segment->pose[k] = (random_unit(random) * 2 - 1) * (k % 4 == 3 ? 20 : 1);
    for (int axis = 0; axis < 3; axis++) {
      segment->v[axis] = (random_unit(random) * 2 - 1) * speed;
      segment->w[axis] = (random_unit(random) * 2 - 1) * turn;
    }
  }
}

void random_deskew(struct random *random, const struct scan *scan, struct vx_job *asked) {
  static struct vx_motion motion;
  static struct vx_deskew deskew;
  static float *times;
  if (asked->inputs[VX_POINTS].dtype != VX_FLOAT32 || !random_one_in(random, 3)) return;
  free(times);
  times = malloc(((size_t)scan->num_points + 1) * sizeof *times);
  random_segments(random, &motion);
  for (int64_t i = 0; i < scan->num_points; i++) times[i] = random_time(random, &motion);
  deskew = (struct vx_deskew){.times = times, .motion = &motion};
  asked->deskew = &deskew;
}

// If `stacked`, each cloud has its own number of samples: at most a quarter of its points. Its voxels may still be
// fewer.
static void sample_voxels(struct random *random, struct vx_job *asked, struct scan *scan) {
  bool stacked = random_one_in(random, 2);
  int32_t all = random_below(random, random_one_in(random, 2) ? 20 : 2000);
  for (int32_t i = 0; i < scan->num_clouds; i++) {
    scan->samples[i] = stacked ? random_below(random, all + 1) : all;
    if (stacked && scan->samples[i] > scan->counts[i] / 4) scan->samples[i] = scan->counts[i] / 4;
  }
  asked->params.voxelize.sampling = (struct vx_sampling){
      .enabled = true, .start = random_below(random, 3), .stacked = stacked, .max_work = INT64_MAX};
  asked->tensors |= random_bits(random) & VX_SAMPLED_TENSORS;
}

void random_job(struct random *random, int64_t largest, struct vx_job *asked, struct scan *scan) {
  random_params(random, asked);
  scan->num_points = random_size(random, largest);
  if (scan->num_points * asked->inputs[VX_POINTS].dims[1] > 20000000)
    scan->num_points = 20000000 / asked->inputs[VX_POINTS].dims[1];
  // Padded tensors grow with the cap. This keeps them to about a gigabyte.
  int64_t most = INT64_C(1) << 28,
          width = (int64_t)asked->params.voxelize.max_points_per_voxel * (2 * asked->inputs[VX_POINTS].dims[1] + 6);
  if ((asked->tensors & ~(MEAN | BIT(VX_POINT_VOXEL_IDS))) != 0 && scan->num_points * width > most)
    asked->params.voxelize.max_voxels = (int32_t)(most / width / 8);
  random_clouds(random, scan);
  const struct vx_voxelize *params = &asked->params.voxelize;
  struct vx_box within;
  memcpy(within.min, params->range_min, sizeof within.min);
  memcpy(within.max, params->range_max, sizeof within.max);
  random_points(random, asked, &within, scan);
  if (random_one_in(random, 5)) sample_voxels(random, asked, scan);
}

// Whether the CUDA backend writes the same bytes as the CPU backend, and how long it takes.
//
//   test_equal [--jobs N] [--seed N] [--largest POINTS] [--time] [DIRECTORY]
//
// Runs every preset's parameters on every scan of DIRECTORY (raw float32 files, see ../shared/data) and N random jobs,
// all on one lane of each backend, so that what one job leaves behind is there for the next. Prints a line for each
// difference and one summary line; exits with 1 if there was any. --time adds a table of times instead.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

#define BIT VX_TENSOR_BIT
#define BASE (BIT(VX_VOXEL_COORDS) | BIT(VX_VOXEL_NUM_POINTS))
#define MEAN (BASE | BIT(VX_VOXEL_FEATURES))
#define PILLAR (BASE | BIT(VX_PILLAR_FEATURES))

// --- random numbers: splitmix64 ---

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
  uint64_t z = random_state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static int32_t below(int32_t limit) { return (int32_t)(random_bits() % (uint64_t)limit); }
static bool one_in(int32_t n) { return below(n) == 0; }
static float unit(void) { return (float)(random_bits() >> 40) / 16777216.0f; }

// --- a backend at work ---

struct side {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  void *input, *output;
  size_t input_bytes, output_bytes;
  struct vx_layout layout;
  struct vx_voxelize_job job;
  int32_t voxel_counts[VX_MAX_CLOUDS];
};

static void *room(struct side *side, void **memory, size_t *bytes, size_t need) {
  if (need > *bytes || *memory == NULL) {
    side->backend->host_free(side->device, *memory, *bytes);
    *bytes = need + need / 4 + 4096;
    *memory = side->backend->host_alloc(side->device, *bytes);
    if (*memory == NULL) {
      fprintf(stderr, "%s: no memory for %zu bytes\n", side->backend->name, *bytes);
      exit(2);
    }
  }
  return *memory;
}

static enum vx_status give_output(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  struct side *side = cls;
  side->layout = *layout;
  if (layout->bytes > (size_t)6 << 30) {
    snprintf(error->text, sizeof error->text, "too large for this test");
    return VX_REFUSED;
  }
  *block = room(side, &side->output, &side->output_bytes, layout->bytes);
  return VX_OK;
}

static void open_side(struct side *side, const struct vx_backend *backend) {
  struct vx_error error;
  side->backend = backend;
  if (backend->open(0, &side->device, &error) != VX_OK ||
      backend->lane_open(side->device, &side->lane, &error) != VX_OK) {
    fprintf(stderr, "%s: %s\n", backend->name, error.text);
    exit(77);
  }
  struct vx_description description;
  backend->describe(side->device, &description);
  printf("%s: %s, compute capability %d\n", backend->name, description.name, description.compute_capability);
}

static void close_side(struct side *side) {
  side->backend->host_free(side->device, side->input, side->input_bytes);
  side->backend->host_free(side->device, side->output, side->output_bytes);
  side->backend->lane_close(side->lane);
  side->backend->close(side->device);
}

struct scan {
  char name[64];
  void *points;
  int32_t num_clouds;
  int32_t counts[VX_MAX_CLOUDS];
  int64_t num_points;
};

static enum vx_status run_side(struct side *side, const struct vx_voxelize_params *params, const struct scan *scan,
                               struct vx_error *error) {
  size_t bytes = (size_t)scan->num_points * (size_t)params->num_features * vx_dtype_size(params->input_dtype);
  void *input = room(side, &side->input, &side->input_bytes, bytes);
  memcpy(input, scan->points, bytes);
  if (side->output != NULL) {
    size_t poisoned = side->output_bytes < (size_t)64 << 20 ? side->output_bytes : (size_t)64 << 20;
    memset(side->output, 0xA5, poisoned);
  }
  memset(&side->layout, 0, sizeof side->layout);
  memset(side->voxel_counts, 0x5A, sizeof side->voxel_counts);
  side->job = (struct vx_voxelize_job){.params = *params,
                                       .points = input,
                                       .num_clouds = scan->num_clouds,
                                       .point_counts = scan->counts,
                                       .output = give_output,
                                       .output_cls = side,
                                       .voxel_counts = side->voxel_counts};
  return side->backend->voxelize(side->lane, &side->job, error);
}

// --- comparison ---

static int jobs_run, jobs_equal, jobs_refused;
static int64_t bytes_compared;

static bool gaps_are_zero(const struct side *side) {
  size_t end = 0;
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    if ((side->layout.tensors & BIT(t)) != 0) {
      for (; end < side->layout.offset[t]; end++) {
        if (((unsigned char *)side->output)[end] != 0) {
          return false;
        }
      }
      end = side->layout.offset[t] + side->layout.shape[t].bytes;
    }
  }
  return true;
}

static const char *difference(const struct side *a, const struct side *b, int32_t num_clouds) {
  static char text[160];
  if (memcmp(&a->job.counts, &b->job.counts, sizeof a->job.counts) != 0) {
    const struct vx_counts *x = &a->job.counts, *y = &b->job.counts;
    snprintf(text, sizeof text,
             "counts: kept %lld %lld range %lld %lld cap %lld %lld voxels %lld %lld dropped %lld %lld",
             (long long)x->kept, (long long)y->kept, (long long)x->out_of_range, (long long)y->out_of_range,
             (long long)x->over_voxel_cap, (long long)y->over_voxel_cap, (long long)x->voxels_kept,
             (long long)y->voxels_kept, (long long)x->voxels_dropped, (long long)y->voxels_dropped);
    return text;
  }
  if (memcmp(a->voxel_counts, b->voxel_counts, (size_t)num_clouds * sizeof(int32_t)) != 0) return "voxel_counts";
  if (a->layout.bytes != b->layout.bytes) return "layout";
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    if ((a->layout.tensors & BIT(t)) == 0) continue;
    const unsigned char *x = (unsigned char *)a->output + a->layout.offset[t];
    const unsigned char *y = (unsigned char *)b->output + b->layout.offset[t];
    size_t bytes = a->layout.shape[t].bytes;
    bytes_compared += (int64_t)bytes;
    if (bytes != 0 && memcmp(x, y, bytes) != 0) {
      size_t at = 0;
      while (x[at] == y[at]) at++;
      snprintf(text, sizeof text, "%s at byte %zu of %zu", vx_tensor_name((enum vx_tensor)t), at, bytes);
      return text;
    }
  }
  return gaps_are_zero(b) ? NULL : "gaps are not zero";
}

static void compare(struct side sides[2], const struct vx_voxelize_params *params, const struct scan *scan,
                    const char *name) {
  struct vx_error errors[2] = {{""}, {""}};
  enum vx_status cpu = run_side(&sides[0], params, scan, &errors[0]);
  for (int again = 0; again < 2; again++) {
    enum vx_status cuda = run_side(&sides[1], params, scan, &errors[1]);
    const char *text = NULL;
    if (cpu != cuda) {
      text = errors[1].text;
    } else if (cpu == VX_OK) {
      text = difference(&sides[0], &sides[1], scan->num_clouds);
    } else {
      jobs_refused++;
    }
    jobs_run++;
    jobs_equal += text == NULL;
    if (text != NULL) {
      printf(
          "UNEQUAL %s %s: status %d %d: %s (N %lld B %d C %d P %d M %d in %d out %d order %d fill %d filter %d %d %d "
          "tensors %x)\n",
          name, scan->name, (int)cpu, (int)cuda, text, (long long)scan->num_points, scan->num_clouds,
          params->num_features, params->max_points_per_voxel, params->max_voxels, (int)params->input_dtype,
          (int)params->feature_dtype, (int)params->order, (int)params->fill, (int)params->block_filter.enabled,
          params->block_filter.factor, params->block_filter.size, params->tensors);
      if (cuda == VX_DEVICE_LOST) {
        printf("device lost: stopping\n");
        exit(1);
      }
    }
  }
}

// --- presets ---

static const struct preset {
  const char *name;
  struct vx_voxelize_params params;
} presets[] = {
#define PRESET(NAME, C, X0, Y0, Z0, X1, Y1, Z1, SX, SY, SZ, P, M, TENSORS, DTYPE, ORDER)                               \
  {                                                                                                                    \
    NAME, {                                                                                                            \
      .range_min = {X0, Y0, Z0}, .range_max = {X1, Y1, Z1}, .voxel_size = {SX, SY, SZ}, .num_features = C,             \
      .max_points_per_voxel = P, .max_voxels = M, .feature_dtype = DTYPE, .order = ORDER, .tensors = TENSORS           \
    }                                                                                                                  \
  }
    PRESET("kitti_pointpillar", 4, 0, -39.68f, -3, 69.12f, 39.68f, 1, .16f, .16f, 4, 32, 40000, PILLAR, VX_FLOAT32, 0),
    PRESET("kitti_pointpillar_f16", 4, 0, -39.68f, -3, 69.12f, 39.68f, 1, .16f, .16f, 4, 32, 40000, PILLAR, VX_FLOAT16,
           0),
    PRESET("kitti_second", 4, 0, -40, -3, 70.4f, 40, 1, .05f, .05f, .1f, 5, 40000, MEAN, VX_FLOAT32, 0),
    PRESET("second_all_round", 4, -70.4f, -70.4f, -3, 70.4f, 70.4f, 1, .05f, .05f, .1f, 5, 160000, MEAN, VX_FLOAT32, 0),
    PRESET("pillars_all_round_f16", 4, -69.12f, -69.12f, -3, 69.12f, 69.12f, 1, .16f, .16f, 4, 32, 40000, PILLAR,
           VX_FLOAT16, 0),
    PRESET("voxelize_cuda", 4, -54, -54, -5, 54, 54, 3, .2f, .2f, .2f, 10, 160000, MEAN, VX_FLOAT16, 0),
    PRESET("dynamic_mean_kitti", 4, -51.2f, -51.2f, -5, 51.2f, 51.2f, 3, .2f, .2f, .2f, 0, 262144, MEAN, VX_FLOAT32, 0),
    PRESET("dynamic_pillar_kitti", 4, -51.2f, -51.2f, -5, 51.2f, 51.2f, 3, .2f, .2f, 8, 0, 262144,
           MEAN | BIT(VX_POINT_VOXEL_IDS), VX_FLOAT32, VX_ORDER_KEY),
    PRESET("centerpoint_voxel0075", 5, -54, -54, -5, 54, 54, 3, .075f, .075f, .2f, 10, 160000, MEAN, VX_FLOAT32, 0),
    PRESET("centerpoint_voxel01", 5, -51.2f, -51.2f, -5, 51.2f, 51.2f, 3, .1f, .1f, .2f, 10, 60000, MEAN, VX_FLOAT32,
           0),
    PRESET("nuscenes_dynamic_pillar", 5, -51.2f, -51.2f, -5, 51.2f, 51.2f, 3, .2f, .2f, 8, 0, 262144,
           MEAN | BIT(VX_POINT_VOXEL_IDS), VX_FLOAT32, VX_ORDER_KEY),
    PRESET("nuscenes_pointpillar", 5, -51.2f, -51.2f, -5, 51.2f, 51.2f, 3, .2f, .2f, 8, 20, 30000, PILLAR, VX_FLOAT32,
           0),
    PRESET("waymo_centerpoint", 5, -75.2f, -75.2f, -2, 75.2f, 75.2f, 4, .1f, .1f, .15f, 5, 150000, MEAN, VX_FLOAT32, 0),
    PRESET("waymo_pointpillar", 5, -74.88f, -74.88f, -2, 74.88f, 74.88f, 4, .32f, .32f, 6, 20, 150000, PILLAR,
           VX_FLOAT32, 0),
};
enum { NUM_PRESETS = sizeof presets / sizeof presets[0] };

static const struct file {
  const char *name;
  int32_t columns;
} files[] = {{"kitti_raw_00", 4},   {"kitti_raw_03", 4},     {"kitti_raw_06", 4}, {"kitti_raw_09", 4},
             {"kitti_fov_0", 4},    {"kitti_fov_1", 4},      {"kitti_fov_2", 4},  {"kitti_fov_3", 4},
             {"nuscenes_sweep", 5}, {"nuscenes_10sweeps", 5}};
enum { NUM_FILES = sizeof files / sizeof files[0] };

static bool load(const char *directory, const struct file *file, struct scan *scan) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.bin", directory, file->name);
  FILE *stream = fopen(path, "rb");
  if (stream == NULL) {
    return false;
  }
  fseek(stream, 0, SEEK_END);
  size_t bytes = (size_t)ftell(stream);
  rewind(stream);
  snprintf(scan->name, sizeof scan->name, "%s", file->name);
  scan->points = malloc(bytes);
  scan->num_points = (int64_t)(bytes / 4 / (size_t)file->columns);
  scan->num_clouds = 1;
  scan->counts[0] = (int32_t)scan->num_points;
  bool whole = scan->points != NULL && fread(scan->points, 1, bytes, stream) == bytes;
  fclose(stream);
  return whole;
}

static struct scan scans[NUM_FILES];

static int load_all(const char *directory) {
  int loaded = 0;
  for (int i = 0; i < NUM_FILES; i++) {
    loaded += load(directory, &files[i], &scans[i]);
  }
  return loaded;
}

static void compare_presets(struct side sides[2]) {
  for (int i = 0; i < NUM_FILES; i++) {
    for (int k = 0; k < NUM_PRESETS && scans[i].points != NULL; k++) {
      // The scan's own number of columns: every parameter set meets every scan.
      struct vx_voxelize_params params = presets[k].params;
      params.num_features = files[i].columns;
      compare(sides, &params, &scans[i], presets[k].name);
    }
  }
}

// --- random jobs ---

static int64_t random_size(int64_t largest) {
  switch (below(12)) {
    case 0: return below(3);
    case 1: return below(70);
    case 2: return 1023 + below(3);
    case 3: return largest / 2 + below((int32_t)(largest / 2));
    case 4:
    case 5: return below((int32_t)(largest / 8 + 1));
    default: return below(20000);
  }
}

static float strange_value(void) {
  static const uint32_t bits[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x7F812345u, 0xFFC54321u,
                                  0x7149F2CAu, 0x80000000u, 0x00000001u, 0x80000123u};
  return vx_bits_float(bits[below(sizeof bits / sizeof bits[0])]);
}

static void random_params(struct vx_voxelize_params *params) {
  static const int32_t caps[] = {0, 1, 2, 3, 5, 8, 10, 20, 31, 32, 33, 35, 64, 65, 100, 300, 1024};
  *params = (struct vx_voxelize_params){.num_features = 3 + below(one_in(8) ? 62 : 14)};
  float size = one_in(6) ? 1e-4f : one_in(5) ? 1000.0f : 0.05f + unit() * 2;
  for (int axis = 0; axis < 3; axis++) {
    params->range_min[axis] = -20.0f * unit() - 1.0f;
    params->range_max[axis] = 20.0f * unit() + 1.0f;
    params->voxel_size[axis] = size * (0.5f + unit());
    float extent = params->range_max[axis] - params->range_min[axis];
    if (params->voxel_size[axis] > extent) {
      params->voxel_size[axis] = extent;
    }
  }
  params->max_points_per_voxel = caps[below(sizeof caps / sizeof caps[0])];
  params->max_voxels = one_in(2) ? VX_MAX_VOXELS : 1 + below(one_in(2) ? 50 : 20000);
  params->input_dtype = one_in(4) ? VX_FLOAT16 : VX_FLOAT32;
  params->feature_dtype = one_in(3) ? VX_FLOAT16 : VX_FLOAT32;
  params->order = one_in(3) ? VX_ORDER_KEY : VX_ORDER_FIRST;
  params->fill = one_in(2) ? VX_FILL_MEAN : VX_FILL_ZERO;
  if (one_in(3)) {
    float low = unit() * 4;
    params->block_filter = (struct vx_block_filter){.enabled = true,
                                                    .factor = one_in(9) ? 1000000 : 1 + below(12),
                                                    .size = 1 + below(one_in(4) ? 32 : 6),
                                                    .low = one_in(3) ? -1.0f : low,
                                                    .high = low + unit() * 30};
  }
  params->tensors = one_in(10) ? 0 : one_in(2) ? BIT(VX_TENSOR_COUNT) - 1 : (uint32_t)below(BIT(VX_TENSOR_COUNT));
  if (params->max_points_per_voxel == 0 && !one_in(10)) {
    params->tensors &= MEAN | BIT(VX_POINT_VOXEL_IDS);
  }
}

static void random_clouds(struct scan *scan) {
  scan->num_clouds = one_in(2) ? 1 : 1 + below(one_in(6) ? VX_MAX_CLOUDS : 9);
  int64_t left = scan->num_points;
  for (int32_t i = 0; i < scan->num_clouds; i++) {
    bool last = i == scan->num_clouds - 1;
    scan->counts[i] = last ? (int32_t)left : one_in(4) ? 0 : below((int32_t)(left * 2 / (scan->num_clouds - i) + 1));
    if (scan->counts[i] > left) {
      scan->counts[i] = (int32_t)left;
    }
    left -= scan->counts[i];
  }
  if (scan->num_clouds > 1 && one_in(3)) {  // an empty cloud at the end
    scan->counts[scan->num_clouds - 2] += scan->counts[scan->num_clouds - 1];
    scan->counts[scan->num_clouds - 1] = 0;
  }
}

// 0: anywhere; 1: clustered; 2: one cell; 3: repeated points; 4: as ordered as a lidar's sweep.
static void random_points(const struct vx_voxelize_params *params, struct scan *scan) {
  int32_t columns = params->num_features, kind = below(5);
  float *points = malloc((size_t)(scan->num_points * columns + 1) * sizeof *points);
  bool strange = one_in(3);
  for (int64_t i = 0; i < scan->num_points; i++) {
    float *point = points + i * columns;
    for (int32_t c = 0; c < columns; c++) {
      float low = c < 3 ? params->range_min[c] : 0, high = c < 3 ? params->range_max[c] : 1;
      float at = kind == 1   ? 0.5f + 0.02f * (unit() + unit() + unit() - 1.5f)
                 : kind == 2 ? 0.5f
                 : kind == 4 ? 0.5f + 0.4f * sinf((float)i * 1e-3f * (float)(c + 1))
                             : unit() * 1.05f - 0.02f;
      point[c] = c < 3 ? low + at * (high - low) : unit() * 100 - 50;
    }
    if (kind == 3 && i > 0 && !one_in(4)) {
      memcpy(point, points + (int64_t)(random_bits() % (uint64_t)i) * columns, (size_t)columns * sizeof *point);
    }
    if (strange && one_in(50)) {
      point[below(columns)] = strange_value();
    }
  }
  scan->points = points;
  if (params->input_dtype == VX_FLOAT16) {
    uint16_t *halves = malloc((size_t)(scan->num_points * columns + 1) * sizeof *halves);
    for (int64_t i = 0; i < scan->num_points * columns; i++) {
      halves[i] = strange && one_in(99) ? (uint16_t)random_bits() : vx_float_to_half(points[i]);
    }
    free(points);
    scan->points = halves;
  }
}

static void compare_random(struct side sides[2], int count, int64_t largest) {
  for (int i = 0; i < count; i++) {
    struct vx_voxelize_params params;
    static struct scan scan;
    random_params(&params);
    scan.num_points = random_size(largest);
    if (scan.num_points * params.num_features > 20000000) {
      scan.num_points = 20000000 / params.num_features;
    }
    // Tensors of padding grow with the cap: keep them to about a gigabyte.
    int64_t most = INT64_C(1) << 28, width = (int64_t)params.max_points_per_voxel * (2 * params.num_features + 6);
    if ((params.tensors & ~(MEAN | BIT(VX_POINT_VOXEL_IDS))) != 0 && scan.num_points * width > most) {
      params.max_voxels = (int32_t)(most / width / 8);
    }
    snprintf(scan.name, sizeof scan.name, "%d", i);
    random_clouds(&scan);
    random_points(&params, &scan);
    compare(sides, &params, &scan, "random");
    free(scan.points);
  }
}

// --- times ---

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static double median_us(int64_t *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return (double)values[count / 2] / 1e3;
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Frames of the same kind rotate, each in pinned memory of its own.
static void time_preset(struct side *side, const struct preset *preset, const int *frames, int num_frames) {
  enum { WARM = 20, ROUNDS = 200 };
  static int64_t voxelize[ROUNDS], features[ROUNDS], device[ROUNDS], in[ROUNDS], out[ROUNDS], whole[ROUNDS];
  void *inputs[NUM_FILES];
  size_t input_bytes[NUM_FILES];
  struct vx_error error = {""};
  for (int i = 0; i < num_frames; i++) {
    const struct scan *scan = &scans[frames[i]];
    input_bytes[i] = (size_t)scan->num_points * (size_t)preset->params.num_features * sizeof(float);
    inputs[i] = side->backend->host_alloc(side->device, input_bytes[i]);
    memcpy(inputs[i], scan->points, input_bytes[i]);
  }
  for (int round = -WARM; round < ROUNDS; round++) {
    int frame = (round + WARM) % num_frames;
    side->job = (struct vx_voxelize_job){.params = preset->params,
                                         .points = inputs[frame],
                                         .num_clouds = 1,
                                         .point_counts = scans[frames[frame]].counts,
                                         .output = give_output,
                                         .output_cls = side,
                                         .voxel_counts = side->voxel_counts};
    int64_t began = now_ns();
    if (side->backend->voxelize(side->lane, &side->job, &error) != VX_OK) {
      printf("%s: %s\n", preset->name, error.text);
      exit(1);
    }
    if (round >= 0) {
      whole[round] = now_ns() - began;
      in[round] = side->job.stage_ns[VX_STAGE_COPY_IN];
      out[round] = side->job.stage_ns[VX_STAGE_COPY_OUT];
      voxelize[round] = side->job.stage_ns[VX_STAGE_VOXELIZE];
      features[round] = side->job.stage_ns[VX_STAGE_FEATURES];
      device[round] = voxelize[round] + features[round];
    }
  }
  printf("%-24s %-18s %7lld %7lld %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f\n", preset->name, scans[frames[0]].name,
         (long long)scans[frames[0]].num_points, (long long)side->job.counts.voxels_kept, median_us(in, ROUNDS),
         median_us(voxelize, ROUNDS), median_us(features, ROUNDS), median_us(device, ROUNDS), median_us(out, ROUNDS),
         median_us(whole, ROUNDS));
  for (int i = 0; i < num_frames; i++) {
    side->backend->host_free(side->device, inputs[i], input_bytes[i]);
  }
}

static void time_presets(struct side *side) {
  static const int raw[] = {0, 1, 2, 3}, fov[] = {4, 5, 6, 7}, sweep[] = {8}, sweeps[] = {9};
  printf("%-24s %-18s %7s %7s %8s %8s %8s %8s %8s %8s\n", "preset (median us)", "scan", "points", "voxels", "in",
         "voxelize", "features", "device", "out", "whole");
  for (int k = 0; k < NUM_PRESETS; k++) {
    if (presets[k].params.num_features == 4) {
      time_preset(side, &presets[k], raw, 4);
      time_preset(side, &presets[k], fov, 4);
    } else {
      time_preset(side, &presets[k], sweep, 1);
      time_preset(side, &presets[k], sweeps, 1);
    }
  }
}

int main(int argc, char **argv) {
  const char *directory = "../shared/data";
  int jobs = 300;
  int64_t largest = 2000000;
  bool timing = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
      jobs = atoi(argv[++i]);
    else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
      random_state = strtoull(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--largest") == 0 && i + 1 < argc)
      largest = atoll(argv[++i]);
    else if (strcmp(argv[i], "--time") == 0)
      timing = true;
    else
      directory = argv[i];
  }
  static struct side sides[2];
  open_side(&sides[0], &vx_cpu_backend);
  open_side(&sides[1], &vx_cuda_backend);
  int loaded = load_all(directory);
  if (timing) {
    time_presets(&sides[1]);
  } else {
    compare_presets(sides);
    compare_random(sides, jobs, largest);
    printf("%d scans, %d jobs, %d equal, %d unequal, %d of them refused by both, %.1f MB compared\n", loaded, jobs_run,
           jobs_equal, jobs_run - jobs_equal, jobs_refused, (double)bytes_compared / 1e6);
  }
  close_side(&sides[0]);
  close_side(&sides[1]);
  return jobs_run != jobs_equal;
}

// Shared by the kernel tests: runs a job on a lane, and has a deliberately naive model of the result. The model is
// written from the rules and shares no arithmetic with kernels/. check_batch_on compares the tensors and counts.
#ifndef VOXELD_KERNELS_REFERENCE_H
#define VOXELD_KERNELS_REFERENCE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/jobs.h"

// cmocka compares byte by byte, which is slow.
static inline void check_bytes(const void *a, const void *b, size_t size, const char *file, int line) {
  if (size > 0 && memcmp(a, b, size) != 0) _assert_memory_equal(a, b, size, file, line);
}
#undef assert_memory_equal
#define assert_memory_equal(a, b, size) check_bytes((a), (b), (size), __FILE__, __LINE__)

// With ASan or under qemu a program is 5 to 50 times slower, so tests try only a part of their random values.
#if defined __SANITIZE_ADDRESS__ || !defined __x86_64__
enum { PART = 5 };
#else
enum { PART = 1 };
#endif

#define ALL_TENSORS VX_VOXEL_TENSORS
#define UNCAPPED_TENSORS                                                                                               \
  (VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES) |            \
   VX_TENSOR_BIT(VX_POINT_VOXEL_IDS))

// ---- running a job --------------------------------------------------------------------------------------------------

static const struct vx_backend *backend;  // named by VOXELD_TEST_BACKEND; default: cpu
static struct vx_device *device;
static struct vx_lane *lane;

static inline int open_backend(void **state) {
  (void)state;
  struct error error;
  const char *name = getenv("VOXELD_TEST_BACKEND");
  backend = vx_backend_find(name ? name : "cpu");
  return !backend || backend->open(0, &device, &error) != VX_OK ||
         backend->lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK;
}

static inline int close_backend(void **state) {
  (void)state;
  backend->lane_close(lane);
  backend->close(device);
  return 0;
}

struct outcome {
  enum vx_status status;
  struct error error;
  struct vx_counts counts;
  int32_t row_counts[VX_MAX_CLOUDS];
  int64_t stage_ns[VX_STAGE_COUNT];
  int outputs;  // how often the job asked for memory
  struct vx_layout layout;
  unsigned char *block;
};

static inline enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  (void)error;
  struct outcome *outcome = ctx;
  outcome->outputs++;
  outcome->layout = *layout;
  // Exactly the requested size, so that a sanitizer sees writes beyond it. Filled, so that a missing byte shows.
  size_t bytes = layout->bytes > 0 ? layout->bytes : 1;
  if (posix_memalign(block, VX_TENSOR_ALIGNMENT, bytes) != 0) return VX_OUT_OF_MEMORY;
  outcome->block = memset(*block, 0xA5, bytes);
  return VX_OK;
}

static inline struct outcome run_on(struct vx_lane *on, const struct vx_job *asked, const void *points,
                                    int32_t num_clouds, const int32_t *point_counts) {
  struct outcome outcome = {0};
  struct vx_job job = job_over(asked, points, num_clouds, point_counts);
  job.caller = &(const struct vx_caller){.output = give_output};
  job.ctx = &outcome;
  job.row_counts = outcome.row_counts;
  outcome.status = backend->run(on, &job, &outcome.error);
  outcome.counts = job.counts;
  memcpy(outcome.stage_ns, job.stage_ns, sizeof job.stage_ns);
  return outcome;
}

static inline struct outcome run_scan(const struct vx_job *asked, const void *points, int32_t count) {
  return run_on(lane, asked, points, 1, &count);
}

static inline const void *tensor(const struct outcome *outcome, enum vx_tensor which) {
  assert_true(outcome->layout.tensors & VX_TENSOR_BIT(which));
  return outcome->block + outcome->layout.offset[which];
}

static inline void assert_counts_add_up(const struct vx_counts *counts) {
  assert_int_equal(counts->received, counts->kept + counts->not_finite + counts->out_of_range + counts->over_voxel_cap +
                                         counts->over_max_voxels + counts->block_filtered);
}

// Cells of one metre from the origin; points with 4 columns; all tensors.
static inline struct vx_job plain_params(float cells) {
  return (struct vx_job){
      .params.voxelize = {.range_max = {cells, cells, cells},
                          .voxel_size = {1, 1, 1},
                          .max_points_per_voxel = 4,
                          .max_voxels = 1000},
      .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
      .tensors = ALL_TENSORS,
  };
}

struct random {
  uint64_t state;
};

static inline uint32_t next_random(struct random *random) {
  random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(random->state >> 32);
}

static inline float random_in(struct random *random, float low, float high) {
  return low + (high - low) * ((float)(next_random(random) >> 8) / 16777216.0f);
}

// ---- float16, by value ----------------------------------------------------------------------------------------------

static inline double half_value(uint16_t half) {
  int exponent = half >> 10 & 31, mantissa = half & 1023;
  double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float model_widen(uint16_t half) {
  if ((half & 0x7C00) == 0x7C00)
    return float_of((uint32_t)(half >> 15) << 31 | 0xFFu << 23 | (uint32_t)(half & 1023) << 13);
  return (float)half_value(half);
}

static inline uint16_t model_narrow(float value) {
  if (isnan(value)) return 0x7E00;
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double magnitude = fabs((double)value);
  uint16_t low = 0, high = 0x7C00;  // low <= magnitude < high; 0x7C00 counts as 65536
  if (magnitude >= 65536) return sign | 0x7C00;
  while (high - low > 1) {
    uint16_t middle = (uint16_t)((low + high) / 2);
    if (half_value(middle) <= magnitude)
      low = middle;
    else
      high = middle;
  }
  double below = magnitude - half_value(low), above = (high == 0x7C00 ? 65536.0 : half_value(high)) - magnitude;
  bool up = above < below || (above == below && (low & 1));
  return sign | (up ? high : low);
}

// ---- the model ------------------------------------------------------------------------------------------------------

enum { MODEL_MAX_POINTS = 20000 };

struct model_voxel {
  int32_t cell[3];
  int32_t cloud;
  int32_t hits, kept;
  int32_t *points;  // [hits]
  bool filtered;
  int32_t row;
  int32_t better;  // number of voxels of the cloud that are preferred to this voxel
};

struct model {
  const struct vx_job *asked;
  float *points;  // [N, C]
  int32_t num_points;
  int32_t *voxel_of;  // [N]; -1: none
  struct model_voxel *voxels;
  int32_t num_voxels;
  struct model_voxel **rows;  // [num_rows]; the voxels of the answer, in order
  int32_t num_rows;
  struct vx_counts counts;
  int32_t row_counts[VX_MAX_CLOUDS];
};

static inline void model_place(struct model *model, int32_t cloud, int32_t first_voxel, int32_t i) {
  const struct vx_job *asked = model->asked;
  const float *p = model->points + (size_t)i * (size_t)job_columns(asked);
  int32_t cell[3] = {0, 0, 0};
  model->voxel_of[i] = -1;
  if (!isfinite(p[0]) || !isfinite(p[1]) || !isfinite(p[2])) {
    model->counts.not_finite++;
    return;
  }
  for (int a = 0; a < 3; a++) {
    float cells = roundf((asked->params.voxelize.range_max[a] - asked->params.voxelize.range_min[a]) /
                         asked->params.voxelize.voxel_size[a]);
    float c = floorf((p[a] - asked->params.voxelize.range_min[a]) / asked->params.voxelize.voxel_size[a]);
    if ((double)c < 0 || (double)c >= (double)cells) {
      model->counts.out_of_range++;
      return;
    }
    cell[a] = (int32_t)c;
  }
  int32_t v = model->num_voxels - 1;
  while (v >= first_voxel && memcmp(model->voxels[v].cell, cell, sizeof cell) != 0) v--;
  if (v < first_voxel) {
    v = model->num_voxels++;
    model->voxels[v] = (struct model_voxel){.cloud = cloud, .row = -1};
    memcpy(model->voxels[v].cell, cell, sizeof cell);
  }
  struct model_voxel *voxel = &model->voxels[v];
  voxel->points = realloc(voxel->points, (size_t)(voxel->hits + 1) * sizeof *voxel->points);
  voxel->points[voxel->hits++] = i;
  model->voxel_of[i] = v;
}

static inline uint64_t model_random(const struct model *model, int32_t row) {
  uint64_t z = (uint64_t)model->asked->params.voxelize.choice.seed + (uint64_t)row * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

// Keeps the points within the cap in the voxel's list.
static inline void model_cap(const struct model *model, struct model_voxel *voxel) {
  const struct vx_voxelize *params = &model->asked->params.voxelize;
  bool random = params->choice.points_by == VX_POINTS_RANDOM;
  bool *keeps = malloc((size_t)voxel->hits * sizeof *keeps);
  for (int32_t k = 0; k < voxel->hits; k++) {
    int32_t better = 0;
    for (int32_t other = 0; other < voxel->hits; other++)
      better += random ? model_random(model, voxel->points[other]) < model_random(model, voxel->points[k]) : other < k;
    keeps[k] = params->max_points_per_voxel == 0 || better < params->max_points_per_voxel;
  }
  for (int32_t k = 0; k < voxel->hits; k++)
    if (keeps[k]) voxel->points[voxel->kept++] = voxel->points[k];
  free(keeps);
}

static inline float model_centre(const struct model *model, const struct model_voxel *voxel, int axis) {
  const struct vx_voxelize *params = &model->asked->params.voxelize;
  float scaled = (float)voxel->cell[axis] * params->voxel_size[axis];
  float half = params->voxel_size[axis] / 2;
  float shift = half + params->range_min[axis];
  return scaled + shift;
}

// Whether a voxel is preferred to a later one when max_voxels is exceeded.
static inline bool model_is_better(const struct model *model, const struct model_voxel *voxel,
                                   const struct model_voxel *later) {
  float x[2] = {model_centre(model, voxel, 0), model_centre(model, later, 0)};
  float y[2] = {model_centre(model, voxel, 1), model_centre(model, later, 1)};
  switch (model->asked->params.voxelize.choice.voxels_by) {
    case VX_VOXELS_NEAR: return x[0] * x[0] + y[0] * y[0] <= x[1] * x[1] + y[1] * y[1];
    case VX_VOXELS_FULL: return voxel->hits >= later->hits;
    default: return true;
  }
}

static inline void model_compare_voxels(struct model *model, int32_t first) {
  for (int32_t v = first; v < model->num_voxels; v++) {
    for (int32_t later = v + 1; later < model->num_voxels; later++) {
      bool better = model_is_better(model, &model->voxels[v], &model->voxels[later]);
      model->voxels[better ? later : v].better++;
    }
  }
}

static inline bool model_stays(const struct model *model, int32_t first, int32_t end, const struct model_voxel *voxel) {
  const struct vx_block_filter *filter = &model->asked->params.voxelize.block_filter;
  float min = INFINITY, max = -INFINITY;
  for (int32_t v = first; v < end; v++) {
    const struct model_voxel *other = &model->voxels[v];
    bool near = other->better < model->asked->params.voxelize.max_voxels;
    for (int a = 0; a < 2; a++) {
      int64_t mine = voxel->cell[a] / filter->factor, theirs = other->cell[a] / filter->factor;
      near = near && theirs >= mine - filter->size / 2 && theirs < mine + filter->size - filter->size / 2;
    }
    for (int32_t k = 0; near && k < other->kept; k++) {
      float z = model->points[(size_t)other->points[k] * (size_t)job_columns(model->asked) + 2];
      min = z < min ? z : min;
      max = z > max ? z : max;
    }
  }
  float span = max - min;
  return span > filter->low && span < filter->high;
}

static inline int compare_cells(const void *left, const void *right) {
  const struct model_voxel *a = *(struct model_voxel *const *)left, *b = *(struct model_voxel *const *)right;
  for (int axis = 0; axis < 3; axis++)
    if (a->cell[axis] != b->cell[axis]) return a->cell[axis] < b->cell[axis] ? -1 : 1;
  return 0;
}

static inline void model_cloud(struct model *model, int32_t cloud, int32_t begin, int32_t end) {
  const struct vx_job *asked = model->asked;
  struct vx_counts *counts = &model->counts;
  int32_t first = model->num_voxels, first_row = model->num_rows;
  for (int32_t i = begin; i < end; i++) model_place(model, cloud, first, i);
  int32_t last = model->num_voxels;
  for (int32_t v = first; v < last; v++) model_cap(model, &model->voxels[v]);
  model_compare_voxels(model, first);
  for (int32_t v = first; v < last; v++) {
    struct model_voxel *voxel = &model->voxels[v];
    if (voxel->better >= asked->params.voxelize.max_voxels) {
      counts->voxels_dropped++;
      counts->over_max_voxels += voxel->hits;
    } else if (asked->params.voxelize.block_filter.enabled && !model_stays(model, first, last, voxel)) {
      counts->voxels_block_filtered++;
      counts->block_filtered += voxel->hits;
    } else {
      counts->voxels_kept++;
      counts->kept += voxel->kept;
      counts->over_voxel_cap += voxel->hits - voxel->kept;
      model->rows[model->num_rows++] = voxel;
    }
  }
  if (asked->params.voxelize.order == VX_ORDER_KEY)
    qsort(model->rows + first_row, (size_t)(model->num_rows - first_row), sizeof *model->rows, compare_cells);
  for (int32_t row = first_row; row < model->num_rows; row++) model->rows[row]->row = row;
  model->row_counts[cloud] = model->num_rows - first_row;
}

static inline struct model model_of(const struct vx_job *asked, const void *points, int32_t num_clouds,
                                    const int32_t *point_counts) {
  struct model model = {.asked = asked};
  for (int32_t cloud = 0; cloud < num_clouds; cloud++) model.num_points += point_counts[cloud];
  assert_true(model.num_points <= MODEL_MAX_POINTS);
  size_t count = (size_t)model.num_points, values = count * (size_t)job_columns(asked);
  model.points = malloc((values + 1) * sizeof *model.points);
  model.voxel_of = malloc((count + 1) * sizeof *model.voxel_of);
  model.voxels = malloc((count + 1) * sizeof *model.voxels);
  model.rows = malloc((count + 1) * sizeof *model.rows);
  for (size_t i = 0; i < values; i++)
    if (asked->inputs[VX_POINTS].dtype == VX_FLOAT16)
      model.points[i] = model_widen(((const uint16_t *)points)[i]);
    else
      memcpy(&model.points[i], (const float *)points + i, sizeof(float));
  model.counts.received = model.num_points;
  int32_t begin = 0;
  for (int32_t cloud = 0; cloud < num_clouds; cloud++) {
    model_cloud(&model, cloud, begin, begin + point_counts[cloud]);
    begin += point_counts[cloud];
  }
  return model;
}

static inline void model_free(struct model *model) {
  for (int32_t v = 0; v < model->num_voxels; v++) free(model->voxels[v].points);
  free(model->points);
  free(model->voxel_of);
  free(model->voxels);
  free(model->rows);
}

// The mean of a column. With a cap the sum is sequential. Without a cap, groups of 64 points are summed, then groups of
// 64 sums, and so on.
static inline float model_mean(const struct model *model, const struct model_voxel *voxel, int32_t column) {
  float *values = malloc((size_t)voxel->kept * sizeof *values);
  for (int32_t k = 0; k < voxel->kept; k++)
    values[k] = model->points[(size_t)voxel->points[k] * (size_t)job_columns(model->asked) + (size_t)column];
  int32_t group = model->asked->params.voxelize.max_points_per_voxel == 0 ? 64 : voxel->kept;
  int32_t length = voxel->kept;
  do {
    int32_t groups = 0;
    for (int32_t begin = 0; begin < length; begin += group, groups++) {
      float sum = values[begin];
      for (int32_t i = begin + 1; i < length && i < begin + group; i++) sum += values[i];
      values[groups] = sum;
    }
    length = groups;
  } while (length > 1);
  float mean = values[0] / (float)voxel->kept;
  free(values);
  return isnan(mean) ? float_of(0x7FC00000) : mean;
}

static inline float model_offset(float from, float to) {
  float offset = to - from;
  return isnan(offset) ? float_of(0x7FC00000) : offset;
}

// Column c of the k-th point of a pillar.
static inline float model_pillar(const struct model *model, const struct model_voxel *voxel, int32_t k, int32_t c) {
  const struct vx_job *asked = model->asked;
  const float *p = model->points + (size_t)voxel->points[k] * (size_t)job_columns(asked);
  int32_t columns = job_columns(asked), a = (c - columns) % 3;
  if (c < columns) return p[c];
  if (c < columns + 3) return model_offset(model_mean(model, voxel, a), p[a]);
  return model_offset(model_centre(model, voxel, a), p[a]);
}

static inline void check_value(const struct vx_shape *shape, const void *data, size_t index, float expected) {
  if (shape->dtype == VX_FLOAT16)
    assert_int_equal(((const uint16_t *)data)[index], model_narrow(expected));
  else
    assert_int_equal(((const uint32_t *)data)[index], bits_of(expected));
}

static inline void check_points_of(const struct model *model, const struct outcome *outcome, int32_t r) {
  const struct vx_job *asked = model->asked;
  const struct model_voxel *voxel = model->rows[r];
  int32_t columns = job_columns(asked), cap = asked->params.voxelize.max_points_per_voxel;
  for (int32_t k = 0; k < cap; k++) {
    size_t at = (size_t)r * (size_t)cap + (size_t)k;
    if (asked->tensors & VX_TENSOR_BIT(VX_VOXEL_POINT_MASK))
      assert_int_equal(((const uint8_t *)tensor(outcome, VX_VOXEL_POINT_MASK))[at], k < voxel->kept);
    for (int32_t c = 0; (asked->tensors & VX_TENSOR_BIT(VX_VOXELS)) && c < columns; c++) {
      float padding = asked->params.voxelize.fill == VX_FILL_MEAN ? model_mean(model, voxel, c) : 0.0f;
      float expected = k < voxel->kept ? model_pillar(model, voxel, k, c) : padding;
      check_value(&outcome->layout.shape[VX_VOXELS], tensor(outcome, VX_VOXELS), at * (size_t)columns + (size_t)c,
                  expected);
    }
    for (int32_t c = 0; (asked->tensors & VX_TENSOR_BIT(VX_PILLAR_FEATURES)) && c < columns + 6; c++) {
      float expected = k < voxel->kept ? model_pillar(model, voxel, k, c) : 0.0f;
      check_value(&outcome->layout.shape[VX_PILLAR_FEATURES], tensor(outcome, VX_PILLAR_FEATURES),
                  at * (size_t)(columns + 6) + (size_t)c, expected);
    }
  }
}

static inline void check_row(const struct model *model, const struct outcome *outcome, int32_t r) {
  const struct vx_job *asked = model->asked;
  const struct model_voxel *voxel = model->rows[r];
  if (asked->tensors & VX_TENSOR_BIT(VX_VOXEL_COORDS)) {
    const int32_t *coords = (const int32_t *)tensor(outcome, VX_VOXEL_COORDS) + 4 * (size_t)r;
    int32_t expected[4] = {voxel->cloud, voxel->cell[2], voxel->cell[1], voxel->cell[0]};
    assert_memory_equal(coords, expected, sizeof expected);
  }
  if (asked->tensors & VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS))
    assert_int_equal(((const int32_t *)tensor(outcome, VX_VOXEL_NUM_POINTS))[r], voxel->kept);
  for (int32_t c = 0; (asked->tensors & VX_TENSOR_BIT(VX_VOXEL_FEATURES)) && c < job_columns(asked); c++) {
    check_value(&outcome->layout.shape[VX_VOXEL_FEATURES], tensor(outcome, VX_VOXEL_FEATURES),
                (size_t)r * (size_t)job_columns(asked) + (size_t)c, model_mean(model, voxel, c));
  }
  check_points_of(model, outcome, r);
}

// Runs the job on `on` and compares everything with the model. The caller frees outcome.block.
static inline struct outcome check_batch_on(struct vx_lane *on, const struct vx_job *asked, const void *points,
                                            int32_t num_clouds, const int32_t *point_counts) {
  struct outcome outcome = run_on(on, asked, points, num_clouds, point_counts);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.outputs, asked->tensors != 0);
  struct model model = model_of(asked, points, num_clouds, point_counts);
  assert_counts_add_up(&outcome.counts);
  assert_memory_equal(&outcome.counts, &model.counts, sizeof model.counts);
  assert_memory_equal(outcome.row_counts, model.row_counts, sizeof model.row_counts);
  for (int32_t r = 0; asked->tensors != 0 && r < model.num_rows; r++) check_row(&model, &outcome, r);
  if (asked->tensors & VX_TENSOR_BIT(VX_POINT_VOXEL_IDS)) {
    const int32_t *ids = tensor(&outcome, VX_POINT_VOXEL_IDS);
    for (int32_t i = 0; i < model.num_points; i++)
      assert_int_equal(ids[i], model.voxel_of[i] < 0 ? -1 : model.voxels[model.voxel_of[i]].row);
  }
  model_free(&model);
  return outcome;
}

static inline struct outcome check_scan(const struct vx_job *asked, const void *points, int32_t count) {
  return check_batch_on(lane, asked, points, 1, &count);
}

#endif

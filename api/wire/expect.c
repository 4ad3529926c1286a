// See expect.h.
#include "api/wire/expect.h"

#include <math.h>
#include <string.h>

#include "api/params/values.h"

// ---- the sample of a cloud ------------------------------------------------------------------------------------------

enum { X, Y, Z, INTENSITY, TIME, COLUMNS };

struct sample {
  const struct points_view *view;
  const struct points_expected *expected;
  bool has[COLUMNS];        // a rule may judge the column
  int32_t column[COLUMNS];  // of the points; 0 if !has
  int32_t cloud, rows;
  float value[EXPECT_SAMPLE][COLUMNS];
};

static int32_t place_of(const struct points_expected *expected, const char *name) {
  return value_find_name(expected->columns, name, strlen(name));
}

static void choose_column(struct sample *sample, int column, int32_t place, int32_t columns) {
  sample->has[column] = place >= 0 && place < columns;
  sample->column[column] = sample->has[column] ? place : 0;
}

static void choose_columns(struct sample *sample) {
  const struct points_expected *expected = sample->expected;
  const int32_t columns = (int32_t)sample->view->points->dims[1], sent = sample->view->body_columns;
  int32_t intensity = 3, time = -1;
  if (expected->num_columns) {
    intensity = place_of(expected, "intensity");
    time = place_of(expected, "time");
    if (time < 0) time = place_of(expected, "timestamp");
  }
  for (int axis = X; axis <= Z; axis++) choose_column(sample, axis, axis, columns);
  choose_column(sample, INTENSITY, expected->has_intensity ? intensity : -1, columns);
  choose_column(sample, TIME, time, sent < columns ? sent : columns);
}

static bool is_judged(const struct sample *sample) {
  const struct points_expected *expected = sample->expected;
  return sample->view->points->dims[1] > VX_MIN_FEATURES || expected->has_intensity || expected->has_ground;
}

// Counts a row with finite x, y and z but another value that is not finite. Only the first cloud with such a row
// counts.
static void count_features(const struct sample *sample, const float value[COLUMNS], int32_t column,
                           struct points_seen *seen) {
  if (!vx_are_finite(value[X], value[Y], value[Z])) return;
  if (seen->features.bad && seen->features.cloud != sample->cloud) return;
  if (seen->features.bad++ == 0) seen->features.column = column;
  seen->features.cloud = sample->cloud;
  seen->features.rows = sample->rows;
}

static inline void take_values(const struct sample *sample, enum vx_dtype dtype, const char *row, float value[COLUMNS],
                               struct points_seen *seen) {
  int32_t columns = (int32_t)sample->view->points->dims[1], column = VX_MIN_FEATURES;
  for (int c = 0; c < COLUMNS; c++) value[c] = value_of(dtype, row, c <= Z ? c : sample->column[c]);
  while (column < columns && vx_is_finite(value_of(dtype, row, column))) column++;
  if (column < columns) count_features(sample, value, column, seen);
}

static bool take_row(const struct sample *sample, int64_t row, float value[COLUMNS], struct points_seen *seen) {
  char room[VX_MAX_FEATURES * sizeof(float)];
  const struct vx_input *points = sample->view->points;
  size_t bytes = (size_t)points->dims[1] * vx_dtype_size(points->dtype);
  const char *data = view_bytes(sample->view, (uint64_t)row * bytes, bytes, room);
  if (!data || sample->view->only_reads) return data;
  if (points->dtype == VX_FLOAT32)
    take_values(sample, VX_FLOAT32, data, value, seen);
  else
    take_values(sample, points->dtype, data, value, seen);
  return true;
}

// Samples `most` of the rows `first` to `first + count`, or all if there are fewer.
static bool take_rows(struct sample *sample, int64_t first, int64_t count, int32_t most, struct points_seen *seen) {
  sample->rows = count < most ? (int32_t)count : most;
  int64_t begin = 0;
  for (int32_t i = 0; i < sample->rows; i++) {
    int64_t end = count * (i + 1) / sample->rows;
    uint32_t part = (uint32_t)i * UINT32_C(0x9E3779B9);
    if (!take_row(sample, first + begin + (int64_t)((uint64_t)part * (uint64_t)(end - begin) >> 32), sample->value[i],
                  seen))
      return false;
    begin = end;
  }
  return true;
}

// Copies the finite values of a column. Returns their number.
static int32_t take_column(const struct sample *sample, int column, float values[EXPECT_SAMPLE]) {
  int32_t count = 0;
  for (int32_t i = 0; i < sample->rows && sample->has[column]; i++)
    if (vx_is_finite(sample->value[i][column])) values[count++] = sample->value[i][column];
  return count;
}

// ---- intensity ------------------------------------------------------------------------------------------------------

// At least one value in 20 is below the range by over 1 % of its width, or above it by over half its width; or the
// largest value is within the first 1 % of the range. All values at the least of the range are good: such a sensor has
// no intensity.
static bool is_out_of_range(const float *values, int32_t count, float most, const float range[2]) {
  float width = range[1] - range[0], low = range[0] - width / 100, high = range[1] + width / 2;
  int32_t outside = 0;
  for (int32_t i = 0; i < count; i++) outside += values[i] < low || values[i] > high;
  return (most > range[0] && most <= range[0] + width / 100) || 20 * outside >= count;
}

// Each value stays the same for some rows and never comes again, like the times of four or more sweeps.
static bool are_runs(const float *values, int32_t count) {
  enum { LEAST = 4, MOST = EXPECT_SAMPLE / 10 };
  float run[MOST];
  int32_t runs = 0;
  for (int32_t i = 0; i < count; i++) {
    if (i && values[i] == values[i - 1]) continue;
    for (int32_t r = 0; r < runs; r++)
      if (run[r] == values[i]) return false;
    if (10 * runs >= count || runs == MOST) return false;
    run[runs++] = values[i];
  }
  return runs >= LEAST;
}

// The values rise at least ten times as often as they fall, or the reverse, like the times of single points. For
// intensities of KITTI and nuScenes the ratio is 4 at most.
static bool run_one_way(const float *values, int32_t count) {
  enum { LEAST = 8, RATIO = 10 };
  int32_t rises = 0, falls = 0;
  for (int32_t i = 1; i < count; i++) {
    rises += values[i] > values[i - 1];
    falls += values[i] < values[i - 1];
  }
  return rises + falls >= LEAST && (rises >= RATIO * falls || falls >= RATIO * rises);
}

// Whole numbers below 128, correlated with the sine of the points' elevation. On nuScenes the correlation is 0.999 for
// ring numbers, at most 0.85 for intensities of 32 or more points. Points of the vehicle itself are left out.
static bool are_rings(const struct sample *sample) {
  const double near = 2, most_ring = 127, least = 0.97;
  double n = 0, v = 0, s = 0, vv = 0, ss = 0, vs = 0;
  for (int32_t i = 0; i < sample->rows; i++) {
    const float *value = sample->value[i];
    double x = value[X], y = value[Y], z = value[Z], ring = value[INTENSITY], far = sqrt(x * x + y * y + z * z);
    if (!isfinite(ring) || !isfinite(far)) continue;
    if (ring < 0 || ring > most_ring || ring != floor(ring)) return false;
    if (far < near) continue;
    n++;
    v += ring, s += z / far;
    vv += ring * ring, ss += z / far * (z / far), vs += ring * (z / far);
  }
  double deviations = (n * vv - v * v) * (n * ss - s * s), both = n * vs - v * s;
  return n >= EXPECT_LEAST && deviations > 0 && both * both >= least * least * deviations;
}

static void judge_intensity(const struct sample *sample, struct points_seen *seen) {
  const float *range = sample->expected->intensity_range;
  float values[EXPECT_SAMPLE];
  int32_t count = take_column(sample, INTENSITY, values);
  if (count < EXPECT_LEAST || seen->intensity.fault) return;
  float least = values[0], most = values[0];
  for (int32_t i = 1; i < count; i++) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  if (least == most && most != range[0])
    seen->intensity.fault = INTENSITY_CONSTANT;
  else if (are_rings(sample))
    seen->intensity.fault = INTENSITY_RINGS;
  else if (run_one_way(values, count) || are_runs(values, count))
    seen->intensity.fault = INTENSITY_TIMES;
  else if (is_out_of_range(values, count, most, range))
    seen->intensity.fault = INTENSITY_RANGE;
  seen->intensity.cloud = sample->cloud;
  seen->intensity.least = least;
  seen->intensity.most = most;
}

// ---- ground ---------------------------------------------------------------------------------------------------------

// values[place] of the sorted values. Changes their order.
static float select_value(float *values, int32_t count, int32_t place) {
  for (int32_t low = 0, high = count - 1; low < high;) {
    float middle = values[place];
    int32_t i = low, j = high;
    while (i <= j) {
      while (values[i] < middle) i++;
      while (values[j] > middle) j--;
      if (i > j) break;
      float value = values[i];
      values[i++] = values[j];
      values[j--] = value;
    }
    if (j < place) low = i;
    if (place < i) high = j;
  }
  return values[place];
}

// Points 3 to 20 m from the origin count. The ground is the 20th percentile of their heights: on KITTI and nuScenes,
// within 0.15 m of the true ground. Indoors fewer points may be of the ground, so it is too high only if nine in ten
// points are too high; it is then the 10th percentile.
static void judge_ground(const struct sample *sample, struct points_seen *seen) {
  static const float near = 3, far = 20, most_off = 1;
  float heights[EXPECT_SAMPLE], ground = (float)sample->expected->ground_z;
  int32_t count = 0, below = 0, above = 0;  // `below`, `above`: over most_off from `ground`
  if (!sample->expected->has_ground || seen->ground.off) return;
  for (int32_t i = 0; i < sample->rows; i++) {
    float x = sample->value[i][X], y = sample->value[i][Y], z = sample->value[i][Z], square = x * x + y * y;
    if (!(square > near * near && square < far * far && vx_is_finite(z))) continue;
    heights[count++] = z;
    above += z - ground > most_off;
    below += ground - z > most_off;
  }
  bool too_high = above >= count - count / 10, too_low = below > count / 5;
  seen->ground.off = count >= EXPECT_LEAST && (too_high || too_low);
  if (!seen->ground.off) return;
  seen->ground.cloud = sample->cloud;
  seen->ground.z = select_value(heights, count, too_high ? count / 10 : count / 5);
}

// ---- time -----------------------------------------------------------------------------------------------------------

// Times of sweeps are fractions of a second: whole numbers above 1 are rings. From a minute on, the unit or the origin
// differs.
static void judge_time(const struct sample *sample, struct points_seen *seen) {
  static const float most_ring = 1, most_seconds = 60;
  float values[EXPECT_SAMPLE], most = 0;
  int32_t count = take_column(sample, TIME, values);
  bool whole = true;
  if (count < EXPECT_LEAST || seen->time.off) return;
  for (int32_t i = 0; i < count; i++) {
    whole = whole && values[i] == floorf(values[i]);
    most = fmaxf(most, fabsf(values[i]));
  }
  seen->time.off = most >= most_seconds || (whole && most > most_ring);
  seen->time.cloud = sample->cloud;
  seen->time.most = most;
}

// ---- all clouds -----------------------------------------------------------------------------------------------------

// Of more than CLOUDS clouds, only some are inspected, spread evenly.
struct points_seen points_inspect(const struct points_view *view, const struct points_expected *expected) {
  enum { CLOUDS = EXPECT_ROWS / EXPECT_LEAST };
  struct points_seen seen = {.expected = expected, .num_clouds = view->num_clouds};
  struct sample sample = {.view = view, .expected = expected};
  int32_t clouds = view->num_clouds, inspected = clouds < CLOUDS ? clouds : CLOUDS;
  int32_t most = EXPECT_ROWS / inspected < EXPECT_SAMPLE ? EXPECT_ROWS / inspected : EXPECT_SAMPLE;
  int64_t first = 0;
  choose_columns(&sample);
  if (!is_judged(&sample)) return seen;
  for (int32_t i = 0; i < inspected; i++) {
    for (int32_t next = (int32_t)((int64_t)clouds * i / inspected); sample.cloud < next; sample.cloud++)
      first += view->point_counts[sample.cloud];
    if (!take_rows(&sample, first, view->point_counts[sample.cloud], most, &seen)) break;
    if (view->only_reads) continue;
    judge_intensity(&sample, &seen);
    judge_ground(&sample, &seen);
    judge_time(&sample, &seen);
  }
  return seen;
}

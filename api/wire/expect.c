// See expect.h.
#include "api/wire/expect.h"

#include <math.h>
#include <string.h>

#include "api/params/values.h"
#include "kernels/half.h"

float points_value(const struct vx_input *points, int64_t index) {
  const char *data = points->data;
  uint16_t half;
  uint32_t bits;
  if (points->dtype == VX_FLOAT16) {
    memcpy(&half, data + (size_t)index * sizeof half, sizeof half);
    return vx_half_to_float(half);
  }
  memcpy(&bits, data + (size_t)index * sizeof bits, sizeof bits);
  return vx_bits_float(bits);
}

static float value_at(const struct vx_input *points, int64_t row, int64_t column) {
  return points_value(points, row * points->dims[1] + column);
}

static int32_t sample_of(int64_t rows) { return rows < EXPECT_SAMPLE ? (int32_t)rows : EXPECT_SAMPLE; }

static int64_t row_of(int64_t rows, int32_t number) {
  if (rows <= EXPECT_SAMPLE) return number;
  return (int64_t)(((uint64_t)((uint32_t)number * UINT32_C(0x9E3779B9)) * (uint64_t)rows) >> 32);
}

// Copies the finite values of a column of the sample. Returns their number.
static int32_t take_column(const struct vx_input *points, int32_t column, float *values) {
  int32_t count = 0;
  for (int32_t i = 0; i < sample_of(points->dims[0]); i++) {
    float value = value_at(points, row_of(points->dims[0], i), column);
    if (isfinite(value)) values[count++] = value;
  }
  return count;
}

// ---- intensity ------------------------------------------------------------------------------------------------------

static int32_t place_of(const struct points_expected *expected, const char *name) {
  return value_find_name(expected->columns, name, strlen(name));
}

// The intensity is off if one value in 20 lies outside of the range by half its width, or if no value is above the
// first hundredth of the range. Values that are all 0 are not off: such a sensor has no intensity.
static void look_at_intensity(const struct vx_input *points, struct points_seen *seen) {
  const struct points_expected *expected = seen->expected;
  int32_t column = expected->num_columns ? place_of(expected, "intensity") : 3;
  float values[EXPECT_SAMPLE], low = expected->intensity_range[0], width = expected->intensity_range[1] - low;
  if (column < 0 || column >= points->dims[1]) return;
  int32_t count = take_column(points, column, values), outside = 0;
  if (count < EXPECT_LEAST) return;
  seen->least_intensity = seen->most_intensity = values[0];
  for (int32_t i = 0; i < count; i++) {
    outside += values[i] < low - width / 2 || values[i] > low + width + width / 2;
    seen->least_intensity = fminf(seen->least_intensity, values[i]);
    seen->most_intensity = fmaxf(seen->most_intensity, values[i]);
  }
  bool tiny = seen->most_intensity > low && seen->most_intensity <= low + width / 100;
  seen->intensity_off = tiny || 20 * outside >= count;
}

// ---- ground ---------------------------------------------------------------------------------------------------------

static void sort(float *values, int32_t count) {
  for (int32_t gap = count / 2; gap > 0; gap /= 2)
    for (int32_t i = gap; i < count; i++) {
      float value = values[i];
      int32_t j = i;
      for (; j >= gap && values[j - gap] > value; j -= gap) values[j] = values[j - gap];
      values[j] = value;
    }
}

// Only points `near` to `far` metres from the origin count. The ground is the height above a fifth of these points. In
// scans of KITTI and nuScenes, this is within 0.15 m of the true ground. Indoors fewer points may be of the ground, so
// the ground is too high only if nine of ten points are too high. Then it is the height above the other tenth.
static void look_at_ground(const struct vx_input *points, struct points_seen *seen) {
  static const float near = 3, far = 20, most_off = 1;
  float heights[EXPECT_SAMPLE];
  int32_t count = 0;
  for (int32_t i = 0; i < sample_of(points->dims[0]); i++) {
    int64_t row = row_of(points->dims[0], i);
    float x = value_at(points, row, 0), y = value_at(points, row, 1), z = value_at(points, row, 2);
    float square = x * x + y * y;
    if (square > near * near && square < far * far && isfinite(z)) heights[count++] = z;
  }
  int32_t below = 0, above = 0;  // heights that are off
  for (int32_t i = 0; i < count; i++) {
    double off = (double)heights[i] - seen->expected->ground_z;
    above += off > (double)most_off;
    below += -off > (double)most_off;
  }
  bool too_high = above >= count - count / 10, too_low = below > count / 5;
  seen->ground_off = count >= EXPECT_LEAST && (too_high || too_low);
  if (!seen->ground_off) return;
  sort(heights, count);
  seen->ground = heights[too_high ? count / 10 : count / 5];
}

// ---- time -----------------------------------------------------------------------------------------------------------

// Whole numbers that are not all 0 are a sensor's rings: times of sweeps are fractions of a second. A minute or more is
// in another unit, or does not count from the newest sweep.
static void look_at_time(const struct vx_input *points, int32_t body_columns, struct points_seen *seen) {
  static const float most_ring = 1, most_seconds = 60;
  float values[EXPECT_SAMPLE];
  int32_t column = place_of(seen->expected, "time");
  if (column < 0) column = place_of(seen->expected, "timestamp");
  if (column < 0 || column >= body_columns || column >= points->dims[1]) return;
  int32_t count = take_column(points, column, values);
  if (count < EXPECT_LEAST) return;
  bool whole = true;
  for (int32_t i = 0; i < count; i++) {
    whole = whole && values[i] == floorf(values[i]);
    seen->most_time = fmaxf(seen->most_time, fabsf(values[i]));
  }
  seen->time_off = seen->most_time >= most_seconds || (whole && seen->most_time > most_ring);
}

struct points_seen points_look(const struct vx_input *points, int32_t body_columns,
                               const struct points_expected *expected) {
  struct points_seen seen = {.expected = expected};
  if (points->rank != 2) return seen;
  if (expected->has_intensity) look_at_intensity(points, &seen);
  if (expected->has_ground) look_at_ground(points, &seen);
  if (expected->num_columns) look_at_time(points, body_columns, &seen);
  return seen;
}

// What a raw body looks like; see sniff.h.
//
// Values of one column are closer to each other than to values of other columns: x to x, intensity to intensity. So the
// mean distance between values that lie `lag` positions apart is small if `lag` is the length of a row or a multiple of
// it. A row length is accepted if all lags that are not multiples of it have at least CLEARER times its distance. This
// ratio is 5 to 90 in scans of KITTI and nuScenes, and 1 in points without any order whose columns have similar ranges.
#include "api/wire/sniff.h"

#include <math.h>
#include <string.h>

#include "api/wire/formats.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

// ---- stripped bytes -------------------------------------------------------------------------------------------------

// In this many bytes of a scan there is a NUL, CR or LF, except in fewer than one scan in 100000.
enum { FEWEST_BYTES = 2048, MOST_BYTES = 4096 };

static bool is_stripped(const char *bytes, int64_t size) {
  if (size < FEWEST_BYTES) return false;
  for (int64_t i = 0; i < size && i < MOST_BYTES; i++)
    if (bytes[i] == '\0' || bytes[i] == '\r' || bytes[i] == '\n') return false;
  return true;
}

// ---- columns --------------------------------------------------------------------------------------------------------

enum { WINDOWS = 8, PAIRS = 96, LAGS = 8, WINDOW_MOST = PAIRS + VX_MAX_FEATURES, CLEARER = 2 };

// Roughly the logarithm of 1 + |value|, with the value's sign, so that no column outweighs the others. A few bad values
// must not outweigh the others either: values that are not finite count as 0, and values are limited to 10^6.
static int32_t scaled(float value) {
  enum { ONE = 0x3F800000, DROPPED_BITS = 8 };
  float size = fabsf(value);
  if (!isfinite(size)) return 0;
  if (size > 1e6f) size = 1e6f;
  int32_t logarithm = (int32_t)(vx_float_bits(1 + size) - ONE) >> DROPPED_BITS;  // below 2^20
  return value < 0 ? -logarithm : logarithm;
}

static int32_t distance(const int32_t *window, int lag) {
  int32_t sum = 0;
  for (int i = 0; i < PAIRS; i++) {
    int32_t difference = window[i + lag] - window[i];
    sum += difference < 0 ? -difference : difference;
  }
  return sum;
}

// Whether rows of `columns` are clearly more even than rows of any other length; distances[0] is for the length that
// the request gives.
static bool stands_out(const int64_t distances[LAGS + 1], int columns) {
  for (int lag = 0; lag <= LAGS; lag++)
    if ((lag == 0 || lag % columns != 0) && distances[lag] <= CLEARER * distances[columns]) return false;
  return true;
}

static int32_t columns_of(const struct vx_input *points) {
  int said = (int)points->dims[1], width = PAIRS + (said > LAGS ? said : LAGS);
  int64_t values = points->dims[0] * said, distances[LAGS + 1] = {0};
  int32_t window[WINDOW_MOST] = {0};
  if (values < (int64_t)WINDOWS * width) return 0;
  for (int w = 0; w < WINDOWS; w++) {
    int64_t first = (values - width) / (WINDOWS - 1) * w;
    for (int i = 0; i < width; i++) window[i] = scaled(points_value(points, first + i));
    distances[0] += distance(window, said);
    for (int lag = 1; lag <= LAGS; lag++) distances[lag] += distance(window, lag);
  }
  for (int columns = VX_MIN_FEATURES; columns <= LAGS; columns++)
    if (said % columns != 0 && values % columns == 0 && stands_out(distances, columns)) return columns;
  return 0;
}

// ---- float64 --------------------------------------------------------------------------------------------------------

// Pairs of values that are looked at.
enum { DOUBLES = 256, DOUBLES_LEAST = 64 };

static const double far = 1e10;  // metres
static bool is_sensible(double value) { return value == 0 || (fabs(value) > 1e-9 && fabs(value) < far); }

// Rows of float64 are sensible numbers as such. Read as float32, the lower half of each has any exponent, so that one
// in three is FAR or not finite. If the number was a float32 before, the lower half has one of eight values, of which
// two are FAR. In rows of float32 the halves are two columns, and neither is FAR.
static bool are_float64(const struct vx_input *points) {
  int64_t pairs = points->dims[0] * points->dims[1] / 2;
  int count = pairs < DOUBLES ? (int)pairs : DOUBLES, sensible = 0, senseless = 0;
  if (points->dtype != VX_FLOAT32 || count < DOUBLES_LEAST) return false;
  for (int i = 0; i < count; i++) {
    const char *at = (const char *)points->data + pairs * i / count * (int64_t)sizeof(double);
    double both;
    float low;
    memcpy(&both, at, sizeof both);
    memcpy(&low, at, sizeof low);
    sensible += is_sensible(both);
    senseless += !(fabs((double)low) < far);
  }
  return 20 * sensible >= 19 * count && 8 * senseless >= count;
}

static const char float64_hint[] = "the rows look like float64, but are read as float32: send "
                                   "points.astype('<f4').tobytes()";

struct body_sniff body_sniff(const struct vx_input *points, bool form) {
  int64_t size = points->dims[0] * points->dims[1] * (int64_t)vx_dtype_size(points->dtype);
  const char *hint = format_hint(FORMAT_RAW, points->data, (size_t)size);
  return (struct body_sniff){.stripped = form && is_stripped(points->data, size),
                             .hint = hint || !are_float64(points) ? hint : float64_hint,
                             .columns = columns_of(points)};
}

// See inspect.h.
//
// Values of one column are closer to each other than to values of other columns. So the mean distance between values
// `lag` positions apart is small if `lag` is a multiple of the row's length. A length is accepted if all lags that are
// not its multiples have more than CLEARER times its distance. The ratio is 5 to 90 in scans of KITTI and nuScenes, and
// 1 in unordered points whose columns have similar ranges.
#include "api/wire/inspect.h"

#include <math.h>
#include <string.h>

#include "api/wire/formats.h"
#include "kernels/kernels.h"

// ---- stripped bytes -------------------------------------------------------------------------------------------------

// Fewer than one scan in 100000 has no NUL, CR or LF in its first FEWEST_BYTES.
enum { FEWEST_BYTES = 2048, MOST_BYTES = 4096 };

bool body_may_be_stripped(const char *bytes, int64_t size) {
  for (int64_t i = 0; i < size && i < MOST_BYTES; i++)
    if (bytes[i] == '\0' || bytes[i] == '\r' || bytes[i] == '\n') return false;
  return true;
}

static bool is_stripped(const char *bytes, int64_t size) {
  return size >= FEWEST_BYTES && body_may_be_stripped(bytes, size);
}

// ---- columns --------------------------------------------------------------------------------------------------------

enum { WINDOWS = 8, PAIRS = 96, LAGS = 8, WINDOW_MOST = PAIRS + VX_MAX_FEATURES, CLEARER = 2 };

// Roughly the signed logarithm of 1 + |value|, so that no column outweighs the others. To limit single bad values,
// values that are not finite are 0, and others at most 10^6.
static int32_t scaled(float value) {
  enum { ONE = 0x3F800000, DROPPED_BITS = 8 };
  float size = fabsf(value);
  if (!isfinite(size)) return 0;
  if (size > 1e6f) size = 1e6f;
  int32_t logarithm = (int32_t)(vx_float_bits(1 + size) - ONE) >> DROPPED_BITS;  // below 2^20
  return value < 0 ? -logarithm : logarithm;
}

// Consecutive values from WINDOWS places of the body.
struct windows {
  int width;
  int32_t value[WINDOWS][WINDOW_MOST];
};

// False if the body is too short, or cannot be read.
static bool take_windows(const struct points_view *view, struct windows *windows) {
  char room[WINDOW_MOST * sizeof(float)];
  const struct vx_input *points = view->points;
  int said = (int)points->dims[1], width = PAIRS + (said > LAGS ? said : LAGS);
  int64_t values = points->dims[0] * said;
  size_t size = vx_dtype_size(points->dtype);
  if (values < (int64_t)WINDOWS * width) return false;
  for (int w = 0; w < WINDOWS; w++) {
    uint64_t first = (uint64_t)((values - width) / (WINDOWS - 1) * w);
    const char *window = view_bytes(view, first * size, (size_t)width * size, room);
    if (!window) return false;
    if (view->only_reads) continue;
    for (int i = 0; i < width; i++) windows->value[w][i] = scaled(value_of(points->dtype, window, i));
  }
  return true;
}

static int64_t distance(const struct windows *windows, int lag) {
  int64_t sum = 0;
  for (int w = 0; w < WINDOWS; w++) {
    const int32_t *value = windows->value[w];
    int32_t in_window = 0;
    for (int i = 0; i < PAIRS; i++) {
      int32_t difference = value[i + lag] - value[i];
      in_window += difference < 0 ? -difference : difference;
    }
    sum += in_window;
  }
  return sum;
}

// Whether the distance at lag `columns` is much smaller than at `said`, the request's row length, and at lags that are
// not multiples of `columns`.
static bool stands_out(const struct windows *windows, int columns, int said) {
  int64_t own = CLEARER * distance(windows, columns);
  if (distance(windows, said) <= own) return false;
  for (int lag = 1; lag <= LAGS; lag++)
    if (lag % columns != 0 && distance(windows, lag) <= own) return false;
  return true;
}

static int32_t columns_of(const struct points_view *view) {
  struct windows windows;
  int said = (int)view->points->dims[1];
  int64_t values = view->points->dims[0] * said;
  if (!take_windows(view, &windows) || view->only_reads) return 0;
  for (int columns = VX_MIN_FEATURES; columns <= LAGS; columns++)
    if (said % columns != 0 && values % columns == 0 && stands_out(&windows, columns, said)) return columns;
  return 0;
}

// ---- float64 --------------------------------------------------------------------------------------------------------

// Inspects up to DOUBLES pairs of values at PLACES places, none in a body with fewer than DOUBLES_LEAST pairs.
enum { PLACES = 8, DOUBLES = 256, DOUBLES_LEAST = 64 };

static const double far = 1e10;  // metres
static bool is_sensible(double value) { return value == 0 || (fabs(value) > 1e-9 && fabs(value) < far); }

// Rows of float64 have sensible numbers as float64. As float32, the lower half of a number has a random exponent, so
// one in three is beyond `far` or not finite; if the number was a float32 before, the lower half has one of eight
// values, two of them beyond `far`. In rows of float32, no half is beyond `far`.
static bool are_float64(const struct points_view *view) {
  char room[DOUBLES / PLACES * sizeof(double)];
  int64_t pairs = view->points->dims[0] * view->points->dims[1] / 2;
  int each = pairs < DOUBLES ? (int)pairs / PLACES : DOUBLES / PLACES, sensible = 0, senseless = 0;
  if (view->points->dtype != VX_FLOAT32 || pairs < DOUBLES_LEAST) return false;
  for (int place = 0; place < PLACES; place++) {
    uint64_t first = (uint64_t)((pairs - each) / (PLACES - 1) * place);
    const char *at = view_bytes(view, first * sizeof(double), (size_t)each * sizeof(double), room);
    if (!at) return false;
    if (view->only_reads) continue;
    for (int i = 0; i < each; i++) {
      double both;
      memcpy(&both, at + (size_t)i * sizeof both, sizeof both);
      sensible += is_sensible(both);
      senseless += !(fabsf(value_of(VX_FLOAT32, at, 2 * (int64_t)i)) < (float)far);
    }
  }
  return 20 * sensible >= 19 * PLACES * each && 8 * senseless >= PLACES * each;
}

static const char float64_hint[] = "the rows look like float64, but are read as float32: send "
                                   "points.astype('<f4').tobytes()";

static const char *hint_of(const struct points_view *view, size_t size) {
  char room[INSPECTED_HEAD];
  size_t seen = view->read && size > sizeof room ? sizeof room : size;
  const char *head = view_bytes(view, 0, seen, room);
  const char *hint = head && !view->only_reads ? format_hint(FORMAT_RAW, head, seen) : NULL;
  return hint || !are_float64(view) ? hint : float64_hint;
}

struct inspection body_inspect(const struct points_view *view, bool form) {
  const struct vx_input *points = view->points;
  int64_t size = points->dims[0] * points->dims[1] * (int64_t)vx_dtype_size(points->dtype);
  return (struct inspection){.stripped = form && !view->read && is_stripped(points->data, size),
                             .hint = hint_of(view, (size_t)size),
                             .columns = columns_of(view)};
}

// See times.h.
#include "api/wire/times.h"

#include <math.h>
#include <string.h>

#include "api/ops/stream.h"
#include "api/params/values.h"
#include "api/wire/widen.h"

// ---- reading --------------------------------------------------------------------------------------------------------

bool times_are_read(const struct job_request *request) {
  const char *field = request->time.field;
  return field[0] && (job_request_deskews(request) || request->num_fields > 0);
}

void times_from_rows(const struct job_request *request, int column, const char *rows, struct vx_stop *stop,
                     struct times *times) {
  times->kind = TIME_DOUBLE;
  times->column = column;
  rows_read_column(request, rows, column, stop, &times->values->number);
}

// ---- the origin -----------------------------------------------------------------------------------------------------

// The stamp in the unit of the times.
static struct time_origin of_stamp(const struct times *times, enum time_unit unit) {
  int64_t whole = times->stamp_s * times_per_second[unit], divisor = times_per_second[TIME_NS] / times_per_second[unit];
  return (struct time_origin){
      .fractional = times->stamp_ns % divisor != 0,
      .whole = whole + times->stamp_ns / divisor,
      .number = (double)whole + (double)times->stamp_ns / (double)divisor,
  };
}

static bool is_before(enum time_kind kind, union time_value a, union time_value b) {
  if (kind == TIME_SIGNED) return a.whole < b.whole;
  return kind == TIME_UNSIGNED ? a.natural < b.natural : a.number < b.number;
}

static struct time_origin of_least(const struct times *times, int64_t begin, int64_t end, struct vx_stop *stop) {
  union time_value least = {0};
  bool found = false;
  VX_EACH_ROW(stop, i, begin, end) {
    union time_value value = times->values[i];
    if (times->kind == TIME_DOUBLE && !isfinite(value.number)) continue;
    if (!found || is_before(times->kind, value, least)) least = value;
    found = true;
  }
  if (times->kind == TIME_DOUBLE) return (struct time_origin){.fractional = true, .number = found ? least.number : 0};
  return (struct time_origin){.whole = least.whole, .number = (double)least.whole};
}

static struct time_origin origin_of(const struct time_terms *terms, const struct times *times, int64_t begin,
                                    int64_t end, struct vx_stop *stop) {
  switch (terms->origin.kind) {
    case ORIGIN_STAMP: return of_stamp(times, terms->unit);
    case ORIGIN_FIRST: return of_least(times, begin, end, stop);
    default: return terms->origin;
  }
}

// ---- seconds --------------------------------------------------------------------------------------------------------

// Exact until it becomes a double.
static double signed_from(int64_t value, int64_t origin) {
  return value >= origin ? (double)((uint64_t)value - (uint64_t)origin) : -(double)((uint64_t)origin - (uint64_t)value);
}

static double unsigned_from(uint64_t value, uint64_t origin) {
  return value >= origin ? (double)(value - origin) : -(double)(origin - value);
}

// In the unit of the times. `natural`: the origin is the least time; origin->whole of unsigned times is then a uint64.
static double from_origin(enum time_kind kind, union time_value value, const struct time_origin *origin, bool natural) {
  switch (kind) {
    case TIME_SIGNED:
      return origin->fractional ? (double)value.whole - origin->number : signed_from(value.whole, origin->whole);
    case TIME_UNSIGNED:
      if (origin->fractional || (origin->whole < 0 && !natural)) return (double)value.natural - origin->number;
      return unsigned_from(value.natural, (uint64_t)origin->whole);
    default: return value.number - origin->number;
  }
}

// Converts the times of a cloud or sweep. In memory, the float32 of a time lies at or before the time that it replaces,
// so no time is overwritten before it is read.
static void convert(const struct job_request *request, struct times *times, int64_t begin, int64_t end, char *rows,
                    struct vx_stop *stop, struct deskew_report *report) {
  const double unit = time_seconds[request->time.unit], reference = request->deskew.reference;
  const struct time_origin origin = origin_of(&request->time, times, begin, end, stop);
  const bool least = request->time.origin.kind == ORIGIN_FIRST;
  const size_t row = (size_t)request->num_features * sizeof(float), column = (size_t)times->column * sizeof(float);
  char *out = (char *)times->values;
  float only = 0;
  int64_t finite = 0;
  bool equal = job_request_deskews(request);
  VX_EACH_ROW(stop, i, begin, end) {
    double seconds = from_origin(times->kind, times->values[i], &origin, least) * unit;
    float t = (float)(seconds - reference), value = (float)seconds;
    if (times->column >= 0) memcpy(rows + (size_t)i * row + column, &value, sizeof value);
    memcpy(out + (size_t)i * sizeof t, &t, sizeof t);
    if (!vx_is_finite(t)) continue;
    only = finite++ ? only : t;
    equal = equal && t == only;
  }
  report->equal = report->equal || (equal && finite > 1);
}

void times_convert(const struct job_request *request, struct times *times, char *rows, struct vx_stop *stop,
                   struct deskew_report *report) {
  int32_t sweeps = request->sent.count, parts = sweeps ? sweeps : request->num_clouds;
  int64_t begin = 0;
  for (int32_t part = 0; part < parts; part++) {
    int64_t points = sweeps ? request->sent.points[part] : request->point_counts[part];
    convert(request, times, begin, begin + points, rows, stop, report);
    begin += points;
  }
}

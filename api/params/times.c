// See times.h.
#include "api/params/times.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/params/values.h"

const char *const time_unit_words[] = {"s", "ms", "us", "ns", NULL};
const double time_seconds[TIME_UNITS] = {1, 1e-3, 1e-6, 1e-9};
const int64_t times_per_second[TIME_UNITS] = {1, 1000, 1000000, 1000000000};
_Static_assert(sizeof(enum time_unit) == sizeof(int32_t), "an enum is written as an int32_t");

static const char *const words[] = {[ORIGIN_STAMP] = "stamp", [ORIGIN_FIRST] = "first"};

// Reads a whole number exactly. A double has too few digits for a time in nanoseconds since 1970.
static bool read_whole(const char *item, int64_t *out) {
  char *rest;
  if (strspn(item, "0123456789-") != strlen(item)) return false;
  errno = 0;
  *out = strtoll(item, &rest, 10);
  return errno == 0 && *rest == '\0' && rest > item;
}

static bool read_number(const char *value, const char *end, double *out) {
  return value_take_double(&value, end, out) && value_ended(value, end);
}

static bool read_origin(const struct param *param, const char *value, const char *end, void *record) {
  const double limit = 0x1p63;
  struct time_origin *origin = (void *)((char *)record + param->offset);
  const char *cursor = value;
  char item[64];
  if (!value_next(&cursor, end, item, sizeof item) || !value_ended(cursor, end)) return false;
  *origin = (struct time_origin){.kind = ORIGIN_NUMBER};
  for (enum origin_kind kind = ORIGIN_STAMP; kind <= ORIGIN_FIRST; kind++)
    if (strcmp(item, words[kind]) == 0) origin->kind = kind;
  if (origin->kind != ORIGIN_NUMBER) return true;
  if (read_whole(item, &origin->whole)) {
    origin->number = (double)origin->whole;
    return true;
  }
  if (!read_number(value, end, &origin->number)) return false;
  origin->fractional = floor(origin->number) != origin->number || !(fabs(origin->number) < limit);
  origin->whole = origin->fractional ? 0 : (int64_t)origin->number;
  return true;
}

static void write_origin(const struct param *param, const void *record, struct text *out) {
  const struct time_origin *origin = (const void *)((const char *)record + param->offset);
  if (origin->kind != ORIGIN_NUMBER)
    json_put_string(out, words[origin->kind]);
  else if (origin->fractional)
    json_put_double(out, origin->number);
  else
    json_put_integer(out, origin->whole);
}

const struct value_type value_origin = {"float or string", false, read_origin, write_origin, NULL, NULL};

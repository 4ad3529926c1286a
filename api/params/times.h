// How the times of points are written. The types are constant. Any thread.
#ifndef VOXELD_PARAMS_TIMES_H
#define VOXELD_PARAMS_TIMES_H

#include "api/params/params.h"

enum { TIME_FIELD_SIZE = 64 };
enum time_unit { TIME_S, TIME_MS, TIME_US, TIME_NS, TIME_UNITS };

enum origin_kind {
  ORIGIN_NUMBER,
  ORIGIN_STAMP,  // of the PointCloud2
  ORIGIN_FIRST,  // the least time of the cloud or sweep
};

struct time_origin {
  enum origin_kind kind;
  bool fractional;  // the number does not fit `whole`
  int64_t whole;    // in the unit of the times
  double number;
};

struct time_terms {
  char field[TIME_FIELD_SIZE];  // "" = the request does not read times
  enum time_unit unit;
  struct time_origin origin;
};

extern const struct value_type value_origin;  // struct time_origin

extern const char *const time_unit_words[];         // enum time_unit
extern const double time_seconds[TIME_UNITS];       // seconds in a unit
extern const int64_t times_per_second[TIME_UNITS];  // units in a second

#endif

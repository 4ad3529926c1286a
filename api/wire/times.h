// The times of points, and what de-skew did with the points.
//
// The seconds from the origin to a time are computed in int64 or double, then rounded to float32. kernels/deskew.h
// moves the points; docs/contribute/computation.md has the rules. Any thread; nothing here allocates.
#ifndef VOXELD_TIMES_H
#define VOXELD_TIMES_H

#include "api/ops/ops.h"

enum time_kind { TIME_SIGNED, TIME_UNSIGNED, TIME_DOUBLE };

union time_value {
  int64_t whole;     // TIME_SIGNED
  uint64_t natural;  // TIME_UNSIGNED
  double number;     // TIME_DOUBLE
};

// The times of all points of a body.
struct times {
  enum time_kind kind;
  int column;       // of the rows, for the seconds; -1 = none
  int64_t stamp_s;  // of a PointCloud2
  uint32_t stamp_ns;
  union time_value *values;  // of each point, as in the body; float[] after times_convert
};

struct deskew_report {
  bool still;               // deskew=stream without an earlier sweep: the points did not move
  bool equal;               // a cloud or sweep has two or more finite times, all equal
  struct vx_deskew points;  // its motion is NULL if the run moves no points, as with a stream
};

// Whether the request's points need times.
bool times_are_read(const struct job_request *request);
// Reads the times from a column of the body's rows.
void times_from_rows(const struct job_request *request, int column, const char *rows, struct vx_stop *stop,
                     struct times *times);
// Turns the times of a split request into float32 seconds. The column of the rows gets the seconds since the origin;
// times->values, as float[], gets the seconds since deskew_reference.
void times_convert(const struct job_request *request, struct times *times, char *rows, struct vx_stop *stop,
                   struct deskew_report *report);

#endif

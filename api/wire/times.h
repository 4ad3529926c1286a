// The times of points, and what de-skew did with the points.
//
// Times become seconds since their origin in int64 or double before they are rounded to float32. kernels/deskew.h moves
// the points; docs/contribute/computation.md has the rules. Any thread; nothing here allocates.
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
  bool equal;               // all times of a cloud or sweep, two or more, are equal
  struct vx_deskew points;  // only the counts; both 0 without motion
};

// Whether the request's points need times.
bool times_are_read(const struct job_request *request);
// Reads the times from a column of the body's rows.
void times_from_rows(const struct job_request *request, int column, const char *rows, struct vx_stop *stop,
                     struct times *times);
// Makes float32 seconds of the times of a split request: since the origin in the column of the rows, and since
// deskew_reference in times->values, as float[].
void times_convert(const struct job_request *request, struct times *times, char *rows, struct vx_stop *stop,
                   struct deskew_report *report);

#endif

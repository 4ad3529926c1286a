// The times of points, and what de-skew did with the points.
//
// Times are read as the body has them, and become seconds from their origin in int64 or double before they are rounded
// to float32. kernels/deskew.h moves the points; docs/contribute/computation.md has the rules. Any thread; nothing here
// allocates.
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
  int column;       // the column of the rows that gets the seconds; -1: none
  int64_t stamp_s;  // of a PointCloud2
  uint32_t stamp_ns;
  union time_value *values;  // one for each point, as the body has them; times_convert makes them float[]
};

// What de-skew did with the points of a body.
struct deskew_report {
  bool still;               // deskew=stream, but the stream has no earlier sweep: the points did not move
  bool equal;               // a cloud or sweep of several points has one time
  struct vx_deskew points;  // only its counts; both are 0 if there is no motion
};

// Whether the request's points need their times.
bool times_are_read(const struct job_request *request);
// Reads the times from a column of the rows of the body.
void times_from_rows(const struct job_request *request, int column, const char *rows, struct vx_stop *stop,
                     struct times *times);
// Converts the times of the split request to seconds in float32. Writes the seconds since the origin into the column of
// the rows, which are float32, and the seconds since deskew_reference into times->values, from its beginning on.
void times_convert(const struct job_request *request, struct times *times, char *rows, struct vx_stop *stop,
                   struct deskew_report *report);

#endif

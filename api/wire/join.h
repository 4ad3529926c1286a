// Joins the sweeps of a stream into rows of float32. Moves the points into one frame, removes points near the sensor,
// and can add a column with the age of the sweep. docs/streams.md has the rules. Any thread; nothing here allocates.
#ifndef VOXELD_JOIN_H
#define VOXELD_JOIN_H

#include "api/ops/ops.h"

struct join_sweep {
  const void *rows;  // [points,columns]
  int64_t points;
  bool moved;
  float matrix[VX_MATRIX_VALUES];  // if moved
  float age;                       // seconds before the newest sweep of the first stream; negative = after it
};

// Common to all sweeps.
struct join_terms {
  enum vx_dtype dtype;
  int32_t columns;
  bool time_column;
  float remove_close;  // points with |x| and |y| below it are removed
};

// A received point is removed or joined.
struct join_counts {
  int64_t received, removed_close, joined;
  int64_t not_finite;  // joined points with x, y or z not finite after the move
};

// Writes the rows [joined,columns + time_column] at *out, which needs room for all points. Moves *out past them.
struct join_counts join_rows(const struct join_sweep *sweep, const struct join_terms *terms, struct vx_stop *stop,
                             float **out);

// The sweeps that a request joined, for its metadata.
struct join_report {
  int32_t count;
  struct {
    int32_t stream;  // index of the stream in the request
    double time;
    float age;
    bool sent;  // with this request; else kept from earlier requests
    struct join_counts points;
  } sweeps[JOINED_SWEEPS_MAX];
  double now;       // the time of the frame into which all points are moved
  int64_t wanted;   // that the request asked for
  int64_t evicted;  // dropped since the last join for lack of memory
  int64_t expired;  // dropped since the last join because of their age
  bool begun;       // the body's stream had no earlier sweep
  bool repeated;    // the body replaced a sweep with the same time
};

// Writes a JSON object. `job`: the finished job over the joined points, for the fates of each sweep; may be NULL.
void join_report_write(const struct join_report *report, const struct stream_terms *terms, const struct vx_job *job,
                       struct text *out);

#endif

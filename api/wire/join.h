// Joins the sweeps of a stream into rows of float32. Moves the points into one frame, removes points near the sensor,
// and can add a column with the age of the sweep.
//
// kernels/point_transform.h moves a point; docs/streams.md has the rules. Any thread; nothing here allocates.
#ifndef VOXELD_JOIN_H
#define VOXELD_JOIN_H

#include "api/ops/ops.h"

// The rows of a sweep, and how to join them.
struct join_sweep {
  const void *rows;  // [points, columns]
  int64_t points;
  bool moved;
  float matrix[VX_MATRIX_VALUES];  // if the points are moved
  float age;                       // seconds before the newest sweep of the first stream; below 0: after it
};

// What all sweeps have in common: their columns, and how to join them.
struct join_terms {
  enum vx_dtype dtype;
  int32_t columns;
  bool time_column;
  float remove_close;  // 0 = nothing is removed
};

// Counts of points. Each point of a sweep is either removed or joined.
struct join_counts {
  int64_t received, removed_close, joined;
  int64_t not_finite;  // joined points whose x, y or z is not finite after the move
};

// Writes the joined rows at *out, which needs room for all rows, and moves *out past them.
struct join_counts join_rows(const struct join_sweep *sweep, const struct join_terms *terms, struct vx_stop *stop,
                             float **out);

// Which sweeps a request joined, for its metadata.
struct join_report {
  int32_t count;
  struct {
    int32_t stream;  // its index in the streams that the request names
    double time;
    float age;
    bool sent;  // sent with this request, not kept from earlier requests
    struct join_counts points;
  } sweeps[JOINED_SWEEPS_MAX];
  double now;       // the time of the frame into which all points are moved
  int64_t wanted;   // sweeps that the request asked for
  int64_t evicted;  // sweeps dropped since the last join, because memory was short
  int64_t expired;  // sweeps dropped since the last join, because they were too old
  bool begun;       // the body's stream had no sweep before
  bool repeated;    // the body replaced a sweep with the same time
};

// Writes the report as a JSON object. `job` is the finished job over the joined points; each sweep then has the fates
// of its points. `job` may be NULL.
void join_report_write(const struct join_report *report, const struct stream_terms *terms, const struct vx_job *job,
                       struct text *out);

#endif

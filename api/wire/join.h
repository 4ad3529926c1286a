// Joins the sweeps of a stream into rows of float32: moved into one frame, without points near the sensor, with a
// column of their time.
//
// kernels/transform.h says how a point is moved; docs/streams.md has the rules. Any thread; nothing here allocates.
#ifndef VOXELD_JOIN_H
#define VOXELD_JOIN_H

#include "api/ops/ops.h"

// A sweep's rows, and what becomes of them.
struct join_sweep {
  const void *rows;  // [points, columns]
  int64_t points;
  bool moved;
  float matrix[VX_MATRIX_VALUES];  // if moved
  float age;                       // seconds before the newest
};

// What the columns of all sweeps are, and what is done to them.
struct join_terms {
  enum vx_dtype dtype;
  int32_t columns;
  bool time_column;
  float remove_close;  // 0 = nothing is removed
};

// Each point of a sweep is either removed or joined.
struct join_counts {
  int64_t received, removed_close, joined;
  int64_t not_finite;  // of those joined: x, y or z is not finite once moved
};

// Writes the rows that are joined from *out on, and moves it behind them. There is room for all rows.
struct join_counts join_rows(const struct join_sweep *sweep, const struct join_terms *terms, struct vx_stop *stop,
                             float **out);

// What a request joined, for its metadata.
struct join_report {
  int32_t count;
  struct {
    int32_t stream;  // its number among those that the request names
    double time;
    float age;
    bool sent;  // by this request, and not kept from earlier ones
    struct join_counts points;
  } sweeps[JOINED_SWEEPS_MAX];
  double now;       // the time of the frame that all are moved into
  int64_t wanted;   // sweeps that were asked for
  int64_t evicted;  // of the streams' sweeps, since they were last joined: for want of memory,
  int64_t expired;  // and because of their age
  bool begun;       // the body's stream had no sweep before
  bool repeated;    // the body has the time of a sweep that was there already, and takes its place
};

// Writes it as a JSON object. `job`: the joined points', once run, of which each sweep gets the fates; NULL if there is
// none.
void join_report_write(const struct join_report *report, const struct stream_terms *terms, const struct vx_job *job,
                       struct text *out);

#endif

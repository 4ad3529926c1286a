// The parameters of a stream, which all operations on points have. Any thread.
#ifndef VOXELD_API_OPS_STREAM_H
#define VOXELD_API_OPS_STREAM_H

#include "api/ops/rows.h"

extern const struct param param_stream, param_streams, param_sweeps, param_pose, param_poses, param_mount, param_time,
    param_times, param_time_column, param_remove_close;

#define PARAMS_OF_STREAMS                                                                                              \
  &param_stream, &param_streams, &param_sweeps, &param_pose, &param_poses, &param_mount, &param_time, &param_times,    \
      &param_time_column, &param_remove_close

// Checks the request's stream parameters, and sets the shape of the joined points. Call this after num_features is set.
// False with an error.
VX_WARN_UNUSED bool stream_finish(struct job_request *request, struct error *error);

// The sweeps in the body of a split request. Sweep 0 is the newest.
struct body_sweep {
  double time;
  struct pose pose;
  int64_t points;
};
int32_t stream_sweeps(const struct job_request *request);
struct body_sweep stream_sweep(const struct job_request *request, int32_t number);
// The time of sweep 0, or of the points if there is no stream. The body need not be split yet.
double stream_time(const struct job_request *request);
// Whether the request has that time.
bool stream_is_timed(const struct job_request *request);

#endif

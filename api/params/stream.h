// What a request says of its stream: whose sweeps the body has, when and where they were taken, and which are joined.
//
// api/ops/stream.h reads it, docs/streams.md says what it means. A value; any thread.
#ifndef VOXELD_PARAMS_STREAM_H
#define VOXELD_PARAMS_STREAM_H

#include "api/params/pose.h"

enum {
  STREAM_NAME_SIZE = 64,
  STREAM_NAMES_SIZE = 256,  // of a list of names
  STREAM_SWEEPS_MAX = 32,   // of one stream in one request
  STREAMS_JOINED_MAX = 8,
  JOINED_SWEEPS_MAX = 64,  // of all streams in one request
};

struct stream_terms {
  char name[STREAM_NAME_SIZE];     // "" = the request has no stream
  char joined[STREAM_NAMES_SIZE];  // names of streams, with commas between; "" = `name` alone
  int32_t num_joined;
  int32_t sweeps;       // to join of each stream
  int32_t time_column;  // bool
  float remove_close;   // metres; 0 = nothing is removed
  double time;          // seconds; of the body's one sweep, as is `pose`
  struct pose_numbers pose, mount_numbers;
  struct pose mount;  // made of them, if they were given
};

// A body of several sweeps, the newest first.
struct sent_sweeps {
  int32_t count;                 // 0 = the body is one sweep
  int32_t num_times, num_poses;  // numbers, as given
  int32_t points[STREAM_SWEEPS_MAX];
  double times[STREAM_SWEEPS_MAX];
  double poses[STREAM_SWEEPS_MAX * POSE_MATRIX];
};

// Whether a stream may have the name: letters, digits, '.', '_', '-', and 1 to STREAM_NAME_SIZE - 1 of them; but not
// '.' or '..'.
PARAM_WARN_UNUSED bool stream_name_is_sound(const char *name, size_t length);

extern const struct value_type value_stream;  // char[STREAM_NAME_SIZE]: a sound name

// Copies the next name of those to join, the first if *cursor is 0. False behind the last.
PARAM_WARN_UNUSED bool stream_next(const struct stream_terms *terms, size_t *cursor, char name[STREAM_NAME_SIZE]);

#endif

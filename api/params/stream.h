// What a request says about its stream; docs/streams.md says what the values mean. api/ops/stream.h reads them. Any
// thread.
#ifndef VOXELD_PARAMS_STREAM_H
#define VOXELD_PARAMS_STREAM_H

#include "api/params/pose.h"

enum {
  STREAM_NAME_SIZE = 64,
  STREAM_NAMES_SIZE = 256,  // bytes of a list of names
  STREAM_SWEEPS_MAX = 32,   // maximum sweeps of one stream in one request
  STREAMS_JOINED_MAX = 8,
  JOINED_SWEEPS_MAX = 64,  // maximum sweeps of all streams in one request
};

struct stream_terms {
  char name[STREAM_NAME_SIZE];     // "" = the request has no stream
  char joined[STREAM_NAMES_SIZE];  // names of streams, separated by commas; "" = only `name`
  int32_t num_joined;
  int32_t sweeps;       // number of sweeps to join of each stream
  int32_t time_column;  // bool
  float remove_close;   // metres; 0 = nothing is removed
  double time;          // seconds; `time` and `pose` describe the only sweep of the body
  struct pose_numbers pose, mount_numbers;
  struct pose mount;  // made from mount_numbers, if given
};

// A body of several sweeps, the newest first.
struct sent_sweeps {
  int32_t count;                 // 0 = the body is one sweep
  int32_t num_times, num_poses;  // how many numbers `times` and `poses` have
  int32_t *points;               // [count]
  double *times, *poses;
};

// 1 to STREAM_NAME_SIZE - 1 letters, digits, '.', '_' and '-', but not '.' or '..'.
PARAM_WARN_UNUSED bool stream_name_is_sound(const char *name, size_t length);

extern const struct value_type value_stream;  // char[STREAM_NAME_SIZE]: a valid name

// Copies the name of the next stream to join. *cursor is 0 for the first. False after the last name.
PARAM_WARN_UNUSED bool stream_next(const struct stream_terms *terms, size_t *cursor, char name[STREAM_NAME_SIZE]);

#endif

// See stream.h.
#include "api/ops/stream.h"

#include <math.h>
#include <string.h>

static const char *const flag_words[] = {"no", "yes", NULL};
_Static_assert((int)STREAM_NAMES_SIZE == (int)VALUE_NAMES_SIZE, "streams is read as a list of names");

#define STREAM_ALLOWED "1 to 63 letters, digits, '.', '_' or '-'"
#define TIME_MOST 1e12  // seconds; ages stay finite as float32, and times in ms, us or ns since 1970 are noticed
#define TIME_ALLOWED "seconds from -1e12 to 1e12"
#define POSE_ALLOWED "16 numbers, row by row, or x,y,z,qw,qx,qy,qz"

const struct param param_stream = {
    .name = "stream",
    .type = &value_stream,
    .offset = FIELD(stream.name),
    .allowed = STREAM_ALLOWED,
    .doc = "the body is a sweep of this stream of the client; the server keeps it and joins it with earlier ones",
};

const struct param param_streams = {
    .name = "streams",
    .type = &value_names,
    .offset = FIELD(stream.joined),
    .second = FIELD(stream.num_joined),
    .least = 1,
    .most = STREAMS_JOINED_MAX,
    .allowed = "1 to 8 names of streams, each once",
    .doc = "the streams to join, in the frame of the first; without it stream alone",
};

const struct param param_sweeps = {
    .name = "sweeps",
    .type = &value_int,
    .offset = FIELD(stream.sweeps),
    .least = 1,
    .most = STREAM_SWEEPS_MAX,
    .doc = "sweeps to join of each stream, the newest and those before it; the stream keeps as many; without it 1",
};

const struct param param_pose = {
    .name = "pose",
    .type = &value_pose,
    .offset = FIELD(stream.pose_numbers),
    .allowed = POSE_ALLOWED,
    .doc = "where the sweep was taken: from the sensor's frame, or with mount the vehicle's, to a fixed one",
};

const struct param param_mount = {
    .name = "mount",
    .type = &value_pose,
    .offset = FIELD(stream.mount_numbers),
    .allowed = POSE_ALLOWED,
    .doc = "from the sensor's frame to the vehicle's; the stream keeps it for later sweeps",
};

const struct param param_time = {
    .name = "time",
    .type = &value_double,
    .offset = FIELD(stream.time),
    .allowed = TIME_ALLOWED,
    .doc = "seconds; when the sweep was taken, by any clock that only rises",
};

const struct param param_time_column = {
    .name = "time_column",
    .type = &value_word,
    .offset = FIELD(stream.time_column),
    .words = flag_words,
    .doc = "yes appends a column to the joined rows: seconds from a point's sweep to the newest",
};

const struct param param_remove_close = {
    .name = "remove_close",
    .type = &value_length,
    .offset = FIELD(stream.remove_close),
    .allowed = "a finite number above 0",
    .doc = "metres; removes points from each sweep whose |x| and |y| are both below it, before they are moved",
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool refuse_missing(const char *name, struct problem *problem) {
  return problem_set(problem, PROBLEM_BAD_PARAMETER, name, "%s is missing; a sweep of a stream needs it", name);
}

// Without a stream nothing is joined, so that a request which forgot it must not look as if it had been.
static bool check_alone(const struct job_request *request, struct problem *problem) {
  static const struct param *const rows[] = {PARAMS_OF_STREAMS, NULL};
  for (param_rows row = rows; *row; row++)
    if (job_request_is_given(request, (*row)->name))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, (*row)->name,
                         "%s is given without stream, which says whose sweep the body is", (*row)->name);
  return true;
}

static bool check_names(const struct stream_terms *terms, struct problem *problem) {
  char name[STREAM_NAME_SIZE];
  for (const char *names = terms->joined, *comma; *names; names = comma + (*comma == ',')) {
    comma = names + strcspn(names, ",");
    if (!stream_name_is_sound(names, (size_t)(comma - names)))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, "streams", "streams names '%.*s'; allowed: " STREAM_ALLOWED,
                         (int)(comma - names), names);
  }
  if (terms->num_joined > 0 && value_find_name(terms->joined, terms->name, strlen(terms->name)) < 0)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "streams",
                       "streams does not name '%s', of which stream says that the body is a sweep", terms->name);
  int32_t streams = 0;
  for (size_t cursor = 0; stream_next(terms, &cursor, name);) streams++;
  return streams * terms->sweeps <= JOINED_SWEEPS_MAX ||
         problem_set(problem, PROBLEM_BAD_PARAMETER, "sweeps",
                     "sweeps is %d, of %d streams; allowed: up to %d sweeps of all streams", (int)terms->sweeps,
                     (int)streams, JOINED_SWEEPS_MAX);
}

static bool take_pose(const struct pose_numbers *numbers, const char *name, struct pose *pose,
                      struct problem *problem) {
  const char *fault = numbers->count ? pose_of(numbers, pose) : NULL;
  return !fault || problem_set(problem, PROBLEM_NOT_RIGID, name, "%s is no rigid motion: %s", name, fault);
}

bool stream_finish(struct job_request *request, struct problem *problem) {
  struct stream_terms *terms = &request->stream;
  if (!terms->name[0]) return check_alone(request, problem);
  if (!terms->sweeps) terms->sweeps = 1;
  if (!terms->pose_numbers.count) return refuse_missing("pose", problem);
  if (!job_request_is_given(request, "time")) return refuse_missing("time", problem);
  if (fabs(terms->time) > TIME_MOST)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "time", "time is %g; allowed: " TIME_ALLOWED, terms->time);
  if (request->num_clouds > 0)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "point_counts",
                       "point_counts is given with stream; allowed: one sweep in one body");
  request->job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, job_request_columns(request), NULL);
  return check_names(terms, problem) && take_pose(&terms->pose_numbers, "pose", &terms->pose, problem) &&
         take_pose(&terms->mount_numbers, "mount", &terms->mount, problem);
}

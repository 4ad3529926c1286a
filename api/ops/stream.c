// See stream.h.
#include "api/ops/stream.h"

#include "api/ops/deskew.h"

#include <math.h>
#include <string.h>

static const char *const flag_words[] = {"no", "yes", NULL};
_Static_assert((int)STREAM_NAMES_SIZE == (int)VALUE_NAMES_SIZE, "streams is read as a list of names");

#define TIME_MOST 1e12  // seconds; keeps ages finite as float32, and refuses times in ms, us or ns since 1970
#define TIME_ALLOWED "seconds from -1e12 to 1e12"
#define POSE_ALLOWED "16 numbers, row by row, or x,y,z,qw,qx,qy,qz"

const struct param param_stream = {
    .name = "stream",
    .type = &value_stream,
    .offset = FIELD(stream.name),
    .allowed = STREAM_ALLOWED,
    .doc = "the body is a sweep of this stream; the server joins it with earlier sweeps",
};

const struct param param_streams = {
    .name = "streams",
    .type = &value_names,
    .offset = FIELD(stream.joined),
    .second = FIELD(stream.num_joined),
    .least = 1,
    .most = STREAMS_JOINED_MAX,
    .allowed = "1 to 8 names of streams, each once",
    .doc = "the streams to join, into the frame of the first; without it, only the stream of the body",
};

const struct param param_sweeps = {
    .name = "sweeps",
    .type = &value_int,
    .offset = FIELD(stream.sweeps),
    .least = 1,
    .most = STREAM_SWEEPS_MAX,
    .doc = "number of sweeps to join from each stream and to keep in the body's stream; without it, the number in the "
           "body",
};

const struct param param_pose = {
    .name = "pose",
    .type = &value_pose,
    .offset = FIELD(stream.pose),
    .allowed = POSE_ALLOWED,
    .doc = "transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame",
};

const struct param param_poses = {
    .name = "poses",
    .type = &value_doubles,
    .offset = FIELD(sent.poses),
    .second = FIELD(sent.num_poses),
    .most = (int64_t)STREAM_SWEEPS_MAX * POSE_MATRIX,
    .allowed = "up to 32 poses, one for each sweep of point_counts, each of 16 numbers, or each of 7",
    .doc = "for a body with several sweeps: their poses, in order",
};

const struct param param_mount = {
    .name = "mount",
    .type = &value_pose,
    .offset = FIELD(stream.mount_numbers),
    .allowed = POSE_ALLOWED,
    .doc = "transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps",
};

const struct param param_time = {
    .name = "time",
    .type = &value_double,
    .offset = FIELD(stream.time),
    .allowed = TIME_ALLOWED,
    .unit = "seconds",
    .doc = "the time of the sweep, by any clock that never goes back",
};

const struct param param_times = {
    .name = "times",
    .type = &value_doubles,
    .offset = FIELD(sent.times),
    .second = FIELD(sent.num_times),
    .most = STREAM_SWEEPS_MAX,
    .allowed = "up to 32 times from -1e12 to 1e12, one for each sweep of point_counts, each below the one before",
    .unit = "seconds",
    .doc = "for a body with several sweeps: their times, the newest first",
};

const struct param param_time_column = {
    .name = "time_column",
    .type = &value_word,
    .offset = FIELD(stream.time_column),
    .words = flag_words,
    .doc = "yes appends a column to joined rows: seconds from their sweep to the first stream's newest sweep",
};

const struct param param_remove_close = {
    .name = "remove_close",
    .type = &value_length,
    .offset = FIELD(stream.remove_close),
    .allowed = "a finite number above 0",
    .unit = "metres",
    .doc = "removes from each sweep the points whose |x| and |y| are both below this, before the sweep is moved",
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool refuse_missing(const char *name, const char *who, struct error *error) {
  return error_refuse(error, ERROR_BAD_PARAMETER, name, "%s is missing; %s needs it", name, who);
}

// Whether the parameter is used without a stream: de-skewing uses the mount, and max_age_ms the time.
static bool is_used_alone(const struct job_request *request, const struct param *param) {
  return (param == &param_mount && job_request_deskews(request)) || (param == &param_time && request->max_age_ms);
}

// Without `stream` no sweeps would be joined, and the client would not notice.
static bool check_alone(const struct job_request *request, struct error *error) {
  static const struct param *const rows[] = {PARAMS_OF_STREAMS, NULL};
  for (param_rows row = rows; *row; row++)
    if (job_request_is_given(request, (*row)->name) && !is_used_alone(request, *row))
      return error_refuse(error, ERROR_BAD_PARAMETER, (*row)->name,
                          "%s is given without stream, which names the stream of the body", (*row)->name);
  return true;
}

static bool check_names(const struct stream_terms *terms, struct error *error) {
  char name[STREAM_NAME_SIZE];
  for (const char *names = terms->joined, *comma; *names; names = comma + (*comma == ',')) {
    comma = names + strcspn(names, ",");
    if (!stream_name_is_sound(names, (size_t)(comma - names)))
      return error_refuse(error, ERROR_BAD_PARAMETER, "streams", "streams names '%.*s'; allowed: " STREAM_ALLOWED,
                          (int)(comma - names), names);
  }
  if (terms->num_joined > 0 && value_find_name(terms->joined, terms->name, strlen(terms->name)) < 0)
    return error_refuse(error, ERROR_BAD_PARAMETER, "streams", "streams does not name '%s', the stream of the body",
                        terms->name);
  int32_t streams = 0;
  for (size_t cursor = 0; stream_next(terms, &cursor, name);) streams++;
  return streams * terms->sweeps <= JOINED_SWEEPS_MAX ||
         error_refuse(error, ERROR_BAD_PARAMETER, "sweeps",
                      "sweeps is %d for each of %d streams; allowed: up to %d sweeps in all", (int)terms->sweeps,
                      (int)streams, JOINED_SWEEPS_MAX);
}

static bool check_range(double time, const char *name, struct error *error) {
  return fabs(time) <= TIME_MOST ||
         error_refuse(error, ERROR_BAD_PARAMETER, name, "%s has %g; allowed: " TIME_ALLOWED, name, time);
}

static bool check_age(const struct job_request *request, struct error *error) {
  if (!request->max_age_ms || stream_is_timed(request)) return check_range(request->stream.time, "time", error);
  return job_request_is_stamped(request) || refuse_missing("time", "max_age_ms", error);
}

// ---- one sweep ------------------------------------------------------------------------------------------------------

static bool take_pose(const struct pose_numbers *numbers, const char *name, struct pose *pose, struct error *error) {
  const char *fault = numbers->count ? pose_of(numbers->values, numbers->count, pose) : NULL;
  return !fault || error_refuse(error, ERROR_NOT_RIGID, name, "%s is not a rigid motion: %s", name, fault);
}

static bool finish_one(const struct job_request *request, struct error *error) {
  struct pose pose;
  if (!request->stream.pose.count) return refuse_missing("pose", "a sweep of a stream", error);
  if (!job_request_is_given(request, "time")) return refuse_missing("time", "a sweep of a stream", error);
  return take_pose(&request->stream.pose, "pose", &pose, error);
}

// ---- several sweeps -------------------------------------------------------------------------------------------------

static bool are_several(const struct job_request *request) {
  return request->num_clouds > 0 || request->sent.num_times > 0 || request->sent.num_poses > 0;
}

// Each of the three lists needs the other two, and excludes the parameters of a single sweep.
static bool check_lists(const struct job_request *request, struct error *error) {
  static const char *const lists[] = {"point_counts", "times", "poses"}, *const single[] = {"time", "pose"};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (!job_request_is_given(request, lists[i])) return refuse_missing(lists[i], "a body of several sweeps", error);
  for (size_t i = 0; i < sizeof single / sizeof *single; i++)
    if (job_request_is_given(request, single[i]))
      return error_refuse(error, ERROR_BAD_PARAMETER, single[i],
                          "%s is given with point_counts; allowed: %ss, with a value for each sweep of the body",
                          single[i], single[i]);
  return true;
}

static bool check_times(const struct sent_sweeps *sent, struct error *error) {
  if (sent->num_times != sent->count)
    return error_refuse(error, ERROR_BAD_PARAMETER, "times", "times has %d numbers; allowed: %d, one for each sweep",
                        (int)sent->num_times, (int)sent->count);
  // The times fall (checked below), so the range of the first and the last is enough.
  if (!check_range(sent->times[0], "times", error) || !check_range(sent->times[sent->count - 1], "times", error))
    return false;
  for (int32_t i = 1; i < sent->count; i++)
    if (!(sent->times[i] < sent->times[i - 1]))
      return error_refuse(error, ERROR_BAD_PARAMETER, "times",
                          "times does not fall from sweep %d to %d; allowed: the newest sweep first, no time twice",
                          (int)i - 1, (int)i);
  return true;
}

static int32_t pose_size(const struct sent_sweeps *sent) { return sent->num_poses / sent->count; }

static bool check_poses(const struct sent_sweeps *sent, struct error *error) {
  int32_t size = pose_size(sent);
  if (size * sent->count != sent->num_poses || (size != POSE_MATRIX && size != POSE_QUATERNION))
    return error_refuse(error, ERROR_BAD_PARAMETER, "poses",
                        "poses has %d numbers for %d sweeps; allowed: %d for each, or %d for each",
                        (int)sent->num_poses, (int)sent->count, POSE_MATRIX, POSE_QUATERNION);
  for (int32_t i = 0; i < sent->count; i++) {
    struct pose pose;
    const char *fault = pose_of(sent->poses + (size_t)i * (size_t)size, size, &pose);
    if (fault)
      return error_refuse(error, ERROR_NOT_RIGID, "poses", "the pose of sweep %d is not a rigid motion: %s", (int)i,
                          fault);
  }
  return true;
}

// Here point_counts counts sweeps, not clouds: the job has one cloud, of all joined points.
static void take_counts(struct job_request *request) {
  request->sent.count = request->num_clouds;
  request->sent.points = request->point_counts;
  request->num_clouds = 0;
  job_request_unset(request, "point_counts");
}

static bool finish_several(struct job_request *request, struct error *error) {
  if (!check_lists(request, error)) return false;
  if (request->num_clouds > STREAM_SWEEPS_MAX)
    return error_refuse(error, ERROR_BAD_PARAMETER, "point_counts", "point_counts has %d sweeps; allowed: up to %d",
                        (int)request->num_clouds, STREAM_SWEEPS_MAX);
  take_counts(request);
  return check_times(&request->sent, error) && check_poses(&request->sent, error);
}

static bool check_sweeps(struct job_request *request, struct error *error) {
  int32_t *sweeps = &request->stream.sweeps, sent = stream_sweeps(request);
  if (!*sweeps) *sweeps = sent;
  return sent <= *sweeps ||
         error_refuse(error, ERROR_BAD_PARAMETER, "point_counts",
                      "point_counts has %d sweeps, but sweeps is %d; allowed: no more than sweeps says", (int)sent,
                      (int)*sweeps);
}

bool stream_finish(struct job_request *request, struct error *error) {
  struct stream_terms *terms = &request->stream;
  if (!take_pose(&terms->mount_numbers, "mount", &terms->mount, error)) return false;
  if (!check_age(request, error)) return false;
  if (!terms->name[0]) return check_alone(request, error) && deskew_finish(request, error);
  if (!(are_several(request) ? finish_several(request, error) : finish_one(request, error))) return false;
  request->job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, 0, job_request_columns(request), NULL);
  return check_sweeps(request, error) && check_names(terms, error) && deskew_finish(request, error);
}

// ---- the body's sweeps ----------------------------------------------------------------------------------------------

int32_t stream_sweeps(const struct job_request *request) { return request->sent.count ? request->sent.count : 1; }

double stream_time(const struct job_request *request) {
  return request->sent.count ? request->sent.times[0] : request->stream.time;
}

bool stream_is_timed(const struct job_request *request) {
  return request->sent.num_times > 0 || job_request_is_given(request, "time");
}

struct body_sweep stream_sweep(const struct job_request *request, int32_t number) {
  const struct sent_sweeps *sent = &request->sent;
  const struct pose_numbers *pose = &request->stream.pose;
  struct body_sweep sweep = {request->stream.time, pose_identity, request->point_counts[0]};
  // These numbers were checked to be a pose.
  if (!sent->count) {
    (void)!pose_of(pose->values, pose->count, &sweep.pose);
    return sweep;
  }
  sweep.time = sent->times[number];
  sweep.points = sent->points[number];
  (void)!pose_of(sent->poses + (size_t)number * (size_t)pose_size(sent), pose_size(sent), &sweep.pose);
  return sweep;
}

// See deskew.h.
#include "api/ops/deskew.h"

#include <string.h>
#include <strings.h>

static const char *const deskew_words[] = {"off", "poses", "twists", "stream", NULL};
static const char *const interpolation_words[] = {"screw", "slerp", NULL};
_Static_assert(sizeof(enum deskew_mode) == sizeof(int32_t), "an enum is written as an int32_t");

const struct param param_time_field = {
    .name = "time_field",
    .type = &value_text,
    .offset = FIELD(time.field),
    .allowed = "a name other than x, y and z",
    .doc = "the field of a file, or the column in fields, with the points' times; such a column becomes seconds from "
           "time_origin",
};

const struct param param_time_unit = {
    .name = "time_unit",
    .type = &value_word,
    .offset = FIELD(time.unit),
    .words = time_unit_words,
    .doc = "unit of time_field; by default s",
};

const struct param param_time_origin = {
    .name = "time_origin",
    .type = &value_origin,
    .offset = FIELD(time.origin),
    .allowed = "stamp, first, or a finite number",
    .doc = "subtracted from the times in time_field; in their unit; by default 0",
};

const struct param param_deskew = {
    .name = "deskew",
    .type = &value_word,
    .offset = FIELD(deskew.mode),
    .words = deskew_words,
    .doc = "moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by the "
           "stream's motion since the previous sweep; by default off",
};

const struct param param_deskew_poses = {
    .name = "deskew_poses",
    .type = &value_pose_rows,
    .offset = FIELD(motion),
    .second = FIELD(deskew.poses),
    .least = 2,
    .most = MOTION_POSES_MAX,
    .allowed = "2 to 65 rows separated by semicolons: t and a pose",
    .doc = "poses of the sensor or, with mount, the vehicle at rising times",
};

const struct param param_deskew_twists = {
    .name = "deskew_twists",
    .type = &value_twist_rows,
    .offset = FIELD(motion),
    .second = FIELD(deskew.twists),
    .least = 1,
    .most = MOTION_TWISTS_MAX,
    .allowed = "1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons",
    .doc = "velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from the previous row's "
           "t to "
           "its own",
};

const struct param param_deskew_reference = {
    .name = "deskew_reference",
    .type = &value_double,
    .offset = FIELD(deskew.reference),
    .allowed = "a finite number",
    .unit = "seconds",
    .doc = "the time into whose frame points are moved; by default 0",
};

const struct param param_interpolation = {
    .name = "interpolation",
    .type = &value_word,
    .offset = FIELD(deskew.slerp),
    .words = interpolation_words,
    .doc = "between two deskew_poses: a screw motion, or a straight line and slerp; by default screw",
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool refuse_missing(const char *name, const char *who, struct error *error) {
  return error_refuse(error, ERROR_BAD_PARAMETER, name, "%s is missing; %s needs it", name, who);
}

// The client would not notice that an unused parameter has no effect.
static bool check_used(const struct job_request *request, const struct param *param, const char *needs, bool used,
                       struct error *error) {
  return used || !job_request_is_given(request, param->name) ||
         error_refuse(error, ERROR_BAD_PARAMETER, param->name, "%s is given without %s", param->name, needs);
}

static bool check_field(const struct job_request *request, struct error *error) {
  const char *field = request->time.field;
  bool of_file = request->format != FORMAT_RAW && request->format != FORMAT_SAFETENSORS;
  if (strcasecmp(field, "x") == 0 || strcasecmp(field, "y") == 0 || strcasecmp(field, "z") == 0)
    return error_refuse(error, ERROR_BAD_PARAMETER, "time_field", "time_field is %s; allowed: %s", field,
                        param_time_field.allowed);
  if (request->time.origin.kind == ORIGIN_STAMP && !job_request_is_stamped(request))
    return error_refuse(error, ERROR_BAD_PARAMETER, "time_origin",
                        "time_origin is stamp; allowed: with format=pointcloud2 or compressedpointcloud2");
  if (of_file || value_find_name(request->fields, field, strlen(field)) >= 0) return true;
  return error_refuse(error, ERROR_BAD_PARAMETER, "time_field",
                      "time_field is %s, but no column has this name; name the columns, for example fields=x,y,z,%s",
                      field, field);
}

static bool check_mode(const struct job_request *request, struct error *error) {
  enum deskew_mode mode = request->deskew.mode;
  bool poses = mode == DESKEW_POSES, twists = mode == DESKEW_TWISTS, timed = request->time.field[0];
  if (mode != DESKEW_OFF && !timed) return refuse_missing("time_field", "deskew", error);
  if (poses && !request->deskew.poses.rows) return refuse_missing("deskew_poses", "deskew=poses", error);
  if (twists && !request->deskew.twists.rows) return refuse_missing("deskew_twists", "deskew=twists", error);
  if (mode == DESKEW_STREAM && !request->stream.name[0]) return refuse_missing("stream", "deskew=stream", error);
  return check_used(request, &param_time_unit, "time_field", timed, error) &&
         check_used(request, &param_time_origin, "time_field", timed, error) &&
         check_used(request, &param_deskew_poses, "deskew=poses", poses, error) &&
         check_used(request, &param_interpolation, "deskew=poses", poses, error) &&
         check_used(request, &param_deskew_twists, "deskew=twists", twists, error) &&
         check_used(request, &param_deskew_reference, "deskew", mode != DESKEW_OFF, error);
}

bool deskew_motion(const struct job_request *request, const struct pose *mount, struct vx_motion *motion,
                   struct error *error) {
  const struct deskew_terms *terms = &request->deskew;
  return terms->mode == DESKEW_POSES
             ? motion_of_poses(request->motion, &terms->poses, terms->slerp, mount, terms->reference, motion, error)
             : motion_of_twists(request->motion, &terms->twists, mount, terms->reference, motion, error);
}

// Makes the motion once here, so that a bad one is refused before the body comes.
bool deskew_finish(const struct job_request *request, struct error *error) {
  const struct stream_terms *stream = &request->stream;
  struct vx_motion motion;
  if (!check_mode(request, error) || (request->time.field[0] && !check_field(request, error))) return false;
  if (request->deskew.mode != DESKEW_POSES && request->deskew.mode != DESKEW_TWISTS) return true;
  return deskew_motion(request, stream->mount_numbers.count ? &stream->mount : &pose_identity, &motion, error);
}

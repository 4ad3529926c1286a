// The parameters of the step `ring_outlier`; see kernels/step_ring_outlier.h.
#include <string.h>

#include "api/base/json_write.h"
#include "api/steps/steps.h"
#include "kernels/exact.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static bool read_ring(const struct param *param, const char *value, const char *end, void *record) {
  struct request_step *step = record;
  (void)param;
  return value_next(&value, end, step->column, sizeof step->column) && value_ended(value, end);
}

static void write_ring(const struct param *param, const void *record, struct text *out) {
  (void)param;
  json_put_string(out, ((const struct request_step *)record)->column);
}

static const struct value_type value_ring = {"string", false, read_ring, write_ring, NULL, NULL};

static bool read_most(const struct param *param, const char *value, const char *end, void *record) {
  int32_t *most = &((struct request_step *)record)->step.params.ring_outlier.most;
  int64_t number;
  char item[64];
  *most = INT32_MAX;
  if (value_is_off(value, end)) return true;
  if (!value_next(&value, end, item, sizeof item) || !value_parse_int(item, param->least, param->most, &number))
    return false;
  *most = (int32_t)number;
  return value_ended(value, end);
}

static void write_most(const struct param *param, const void *record, struct text *out) {
  int32_t most = ((const struct request_step *)record)->step.params.ring_outlier.most;
  (void)param;
  if (most == INT32_MAX)
    json_put_string(out, "off");
  else
    json_put_integer(out, most);
}

static const struct value_type value_most = {"int", false, read_most, write_most, NULL, NULL};

static bool read_angle(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_ring_outlier *params = &((struct request_step *)record)->step.params.ring_outlier;
  float degrees;
  double sine, cosine;
  (void)param;
  if (!value_take_floats(&value, end, &degrees, 1) || !value_ended(value, end) || !(degrees >= 0 && degrees <= 89))
    return false;
  vx_sincos((double)degrees * (VX_PI / 180), &sine, &cosine);
  params->degrees = degrees;
  params->tangent = (float)(sine / cosine);
  return true;
}

static void write_angle(const struct param *param, const void *record, struct text *out) {
  (void)param;
  json_put_float(out, ((const struct request_step *)record)->step.params.ring_outlier.degrees);
}

static const struct value_type value_angle = {"float", false, read_angle, write_angle, NULL, NULL};

static const struct param ring = {
    .name = "ring",
    .type = &value_ring,
    .allowed = "the name of a column, up to 31 bytes, or kitti",
    .doc = "the column with the number of each point's ring, whole numbers from 0 to 1023; kitti: for KITTI's files, "
           "whose points come ring by ring, without such a column",
    .required = true,
};
static const struct param distance_ratio = {
    .name = "distance_ratio",
    .type = &value_length,
    .offset = STEP_FIELD(step.params.ring_outlier.ratio),
    .initial = "1.03",
    .allowed = "a number above 0",
    .doc = "neighbours belong together if the farther one's distance is below this many times the nearer one's",
};
static const struct param object_length_threshold = {
    .name = "object_length_threshold",
    .type = &value_length,
    .offset = STEP_FIELD(step.params.ring_outlier.length),
    .initial = "0.05",
    .allowed = "a number above 0",
    .unit = "metres",
    .doc = "points that belong together stay if the first and the last are at least this far apart",
};
static const struct param num_points_threshold = {
    .name = "num_points_threshold",
    .type = &value_most,
    .least = 1,
    .most = INT32_MAX - 1,
    .initial = "off",
    .allowed = "off, or a whole number from 1 to 2147483646",
    .doc = "points that belong together always stay if they outnumber this",
};
static const struct param max_azimuth_diff = {
    .name = "max_azimuth_diff",
    .type = &value_angle,
    .initial = "1",
    .allowed = "a number from 0 to 89",
    .unit = "degrees",
    .doc = "neighbours whose directions differ by more than this do not belong together",
};

static const struct param *const rows[] = {
    &ring, &distance_ratio, &object_length_threshold, &num_points_threshold, &max_azimuth_diff, NULL};
STEP_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool split(struct request_step *step, const struct chain_points *points, struct error *error) {
  struct vx_ring_outlier *params = &step->step.params.ring_outlier;
  params->column = VX_KITTI_RINGS;
  if (strcmp(step->column, "kitti") == 0) return true;
  params->column = value_find_name(points->fields, step->column, strlen(step->column));
  if (params->column >= 0) return true;
  return error_refuse(error, ERROR_BAD_PARAMETER, "ring", "the points have no column named %s; %s%s", step->column,
                      points->fields[0] ? "their columns are " : "their columns have no names: name them with fields",
                      points->fields);
}

const struct step_kind step_ring_outlier = {
    .type = VX_STEP_RING_OUTLIER,
    .doc = "drops points that hang in the air between two surfaces",
    .rows = rows,
    .split = split,
};

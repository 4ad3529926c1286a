// The parameters of the step `transform`; see kernels/step_transform.h.
#include <string.h>

#include "api/base/json_write.h"
#include "api/steps/steps.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static struct vx_transform *params_of(void *record) { return &((struct request_step *)record)->step.params.transform; }
static const struct vx_transform *given_of(const void *record) {
  return &((const struct request_step *)record)->step.params.transform;
}

enum { MATRICES, CUTS, BOX_VALUES = 6 };  // the step's lists

_Static_assert(sizeof(struct vx_box) == BOX_VALUES * sizeof(float), "a list of boxes is a list of floats");

static bool read_matrix(const struct param *param, const char *value, const char *end, void *record) {
  float matrices[STEP_MATRICES * VX_MATRIX_VALUES];
  int32_t *count = &params_of(record)->num_matrices;
  (void)param;
  *count = 0;
  while (*count < STEP_MATRICES && !value_ended(value, end)) {
    float *matrix = matrices + (ptrdiff_t)VX_MATRIX_VALUES * (*count)++;
    if (!value_take_floats(&value, end, matrix, VX_MATRIX_VALUES)) return false;
  }
  return value_ended(value, end) && step_set_numbers(record, MATRICES, matrices, *count * VX_MATRIX_VALUES);
}

static void write_matrix(const struct param *param, const void *record, struct text *out) {
  (void)param;
  value_write_floats(step_numbers(record, MATRICES), (int64_t)given_of(record)->num_matrices * VX_MATRIX_VALUES, out);
}

static const struct value_type value_matrix = {"floats", false, read_matrix, write_matrix, NULL, NULL};

static bool read_box(const char *value, const char *end, struct vx_box *box) {
  float values[6];
  if (!value_take_floats(&value, end, values, 6) || !value_ended(value, end)) return false;
  memcpy(box->min, values, sizeof box->min);
  memcpy(box->max, values + 3, sizeof box->max);
  return true;
}

static bool read_crop(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_transform *params = params_of(record);
  (void)param;
  params->cropped = !value_is_off(value, end);
  return !params->cropped || read_box(value, end, &params->crop);
}

// In the order of a query.
static float number_of(const struct vx_box *box, int number) {
  return number < 3 ? box->min[number] : box->max[number - 3];
}

static void write_crop(const struct param *param, const void *record, struct text *out) {
  const struct vx_transform *params = given_of(record);
  (void)param;
  if (!params->cropped) {
    json_put_string(out, "off");
    return;
  }
  json_printf(out, "[");
  for (int number = 0; number < 6; number++) json_put_float(out, number_of(&params->crop, number));
  json_printf(out, "]");
}

static const struct value_type value_crop = {"floats", false, read_crop, write_crop, NULL, NULL};

static bool read_boxes(const char *value, const char *end, struct vx_box boxes[VX_MAX_CUTS], int32_t *count) {
  *count = 0;
  if (value_is_off(value, end)) return true;
  for (const char *box = value; *count < VX_MAX_CUTS;) {
    const char *semicolon = memchr(box, ';', (size_t)(end - box));
    if (!read_box(box, semicolon ? semicolon : end, &boxes[(*count)++])) return false;
    if (!semicolon) return true;
    box = value_after(semicolon, end);
  }
  return false;
}

static bool read_cut(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_box boxes[VX_MAX_CUTS];
  int32_t *count = &params_of(record)->num_cuts;
  (void)param;
  return read_boxes(value, end, boxes, count) &&
         step_set_numbers(record, CUTS, (const float *)(const void *)boxes, *count * BOX_VALUES);
}

static const struct vx_box *cuts_of(const struct request_step *step) { return (const void *)step_numbers(step, CUTS); }

// Writes a string that queries and presets accept.
static void write_cut(const struct param *param, const void *record, struct text *out) {
  const struct request_step *step = record;
  int32_t count = given_of(step)->num_cuts;
  (void)param;
  json_begin_string(out);
  if (count == 0) text_put(out, "off");
  for (int32_t i = 0; i < count; i++)
    for (int number = 0; number < 6; number++) {
      if (number || i) text_put(out, number ? "," : ";");
      text_float(out, number_of(&cuts_of(step)[i], number));
    }
  json_end(out);
}

static const struct value_type value_cut = {"boxes", false, read_cut, write_cut, NULL, NULL};

static bool read_distance(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_transform *params = params_of(record);
  float limits[2] = {0, 0};
  (void)param;
  params->ranged = !value_is_off(value, end);
  if (params->ranged && !(value_take_floats(&value, end, limits, 2) && value_ended(value, end))) return false;
  params->least = limits[0];
  params->most = limits[1];
  return true;
}

static void write_distance(const struct param *param, const void *record, struct text *out) {
  const struct vx_transform *params = given_of(record);
  const float limits[] = {params->least, params->most};
  (void)param;
  if (params->ranged)
    value_write_floats(limits, 2, out);
  else
    json_put_string(out, "off");
}

static const struct value_type value_distance = {"floats", false, read_distance, write_distance, NULL, NULL};

static const struct param matrix = {
    .name = "matrix",
    .type = &value_matrix,
    .allowed = "16 numbers, row by row, or 16 for each of up to 64 clouds; the last row of each matrix is 0,0,0,1",
    .doc = "moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on",
};
static const struct param crop = {
    .name = "crop",
    .type = &value_crop,
    .initial = "off",
    .allowed = "off, or x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
    .unit = "metres",
    .doc = "removes moved points outside of this box",
};
static const struct param cut = {
    .name = "cut",
    .type = &value_cut,
    .initial = "off",
    .allowed = "off, or up to 64 boxes in the form of crop, separated by semicolons",
    .unit = "metres",
    .doc = "removes moved points inside any of these boxes, such as points on the vehicle itself",
};
static const struct param distance = {
    .name = "distance",
    .type = &value_distance,
    .initial = "off",
    .allowed = "off, or min,max, finite, 0 or more, min below max",
    .unit = "metres",
    .doc = "keeps only moved points with min <= distance from the origin < max",
};

static const struct param *const rows[] = {&matrix, &crop, &cut, &distance, NULL};
STEP_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool check_matrices(const float *matrices, int64_t count, struct error *error) {
  for (int64_t i = 0; i < count; i++) {
    const float *last = matrices + i * VX_MATRIX_VALUES + 12;
    if (last[0] != 0 || last[1] != 0 || last[2] != 0 || last[3] != 1)
      return error_refuse(error, ERROR_BAD_PARAMETER, "matrix",
                          "the last row of matrix number %d is %g,%g,%g,%g; allowed: 0,0,0,1", (int)i, (double)last[0],
                          (double)last[1], (double)last[2], (double)last[3]);
  }
  return true;
}

static bool check_box(const char *name, const struct vx_box *box, struct error *error) {
  for (int a = 0; a < 3; a++) {
    double min = box->min[a], max = box->max[a];
    if (!(min < max))
      return error_refuse(error, ERROR_BAD_PARAMETER, name,
                          "a box of %s runs along %c from %g to %g; allowed: min below max", name, "xyz"[a], min, max);
  }
  return true;
}

static bool finish(struct request_step *step, struct error *error) {
  const struct vx_transform *params = given_of(step);
  bool good = check_matrices(step_numbers(step, MATRICES), params->num_matrices, error) &&
              (!params->cropped || check_box("crop", &params->crop, error));
  for (int32_t i = 0; good && i < params->num_cuts; i++) good = check_box("cut", &cuts_of(step)[i], error);
  if (good && params->ranged && !(params->least >= 0 && params->least < params->most))
    return error_refuse(error, ERROR_BAD_PARAMETER, "distance",
                        "distance runs from %g to %g; allowed: 0 or more, min below max", (double)params->least,
                        (double)params->most);
  return good;
}

static bool take_matrices(struct vx_transform *params, const struct vx_input *matrix, struct error *error) {
  if (params->num_matrices > 0)
    return error_refuse(error, ERROR_BAD_PARAMETER, "matrix",
                        "matrix is given both as a parameter and as a tensor of the body; give only one");
  params->num_matrices = (int32_t)matrix->dims[0];
  params->matrices = matrix->data;
  return check_matrices(params->matrices, params->num_matrices, error);
}

static bool split(struct request_step *step, const struct chain_points *points, struct error *error) {
  struct vx_transform *params = params_of(step);
  if (params->num_matrices > 1 && params->num_matrices != points->num_clouds)
    return error_refuse(
        error, ERROR_BAD_PARAMETER, "matrix",
        "matrix has %d matrices, but the batch has %d clouds; allowed: one matrix, or one for each cloud",
        (int)params->num_matrices, (int)points->num_clouds);
  params->matrices = step_numbers(step, MATRICES);
  params->cuts = cuts_of(step);
  return !points->matrix || take_matrices(params, points->matrix, error);
}

const struct step_kind step_transform = {
    .type = VX_STEP_TRANSFORM,
    .doc = "moves points, and drops points by boxes and by their distance",
    .rows = rows,
    .finish = finish,
    .split = split,
};

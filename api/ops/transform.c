// The parameters of POST /v1/transform; kernels/transform.h says what they mean.
#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/stream.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

// Reads sixteen numbers, or sixteen for each cloud.
static bool read_matrix(const struct param *param, const char *value, const char *end, void *record) {
  struct job_request *request = record;
  (void)param;
  request->num_matrices = 0;
  while (request->num_matrices < REQUEST_MATRICES && !value_ended(value, end)) {
    float *matrix = request->matrices[request->num_matrices++];
    if (!value_take_floats(&value, end, matrix, VX_MATRIX_VALUES)) return false;
  }
  return value_ended(value, end);
}

static void write_matrix(const struct param *param, const void *record, struct text *out) {
  const struct job_request *request = record;
  (void)param;
  value_write_floats(request->matrices[0], (int64_t)request->num_matrices * VX_MATRIX_VALUES, out);
}

static const struct value_type value_matrix = {"floats", false, read_matrix, write_matrix, NULL};

static bool read_box(const char *value, const char *end, struct vx_box *box) {
  float values[6];
  if (!value_take_floats(&value, end, values, 6) || !value_ended(value, end)) return false;
  memcpy(box->min, values, sizeof box->min);
  memcpy(box->max, values + 3, sizeof box->max);
  return true;
}

static bool read_crop(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_transform *params = &((struct job_request *)record)->job.params.transform;
  (void)param;
  params->cropped = !value_is_off(value, end);
  return !params->cropped || read_box(value, end, &params->crop);
}

// The numbers of a box, in the same order as in a query.
static float number_of(const struct vx_box *box, int number) {
  return number < 3 ? box->min[number] : box->max[number - 3];
}

static void write_crop(const struct param *param, const void *record, struct text *out) {
  const struct vx_transform *params = &((const struct job_request *)record)->job.params.transform;
  (void)param;
  if (!params->cropped) {
    json_put_string(out, "off");
    return;
  }
  json_printf(out, "[");
  for (int number = 0; number < 6; number++) json_put_float(out, number_of(&params->crop, number));
  json_printf(out, "]");
}

static const struct value_type value_crop = {"floats", false, read_crop, write_crop, NULL};

// Reads boxes separated by semicolons.
static bool read_cut(const struct param *param, const char *value, const char *end, void *record) {
  struct job_request *request = record;
  int32_t *count = &request->job.params.transform.num_cuts;
  (void)param;
  *count = 0;
  if (value_is_off(value, end)) return true;
  for (const char *box = value; *count < VX_MAX_CUTS;) {
    const char *semicolon = memchr(box, ';', (size_t)(end - box));
    if (!read_box(box, semicolon ? semicolon : end, &request->cuts[(*count)++])) return false;
    if (!semicolon) return true;
    box = semicolon + 1;
  }
  return false;
}

// Writes a string that a client can put into a query or a preset unchanged.
static void write_cut(const struct param *param, const void *record, struct text *out) {
  const struct job_request *request = record;
  (void)param;
  json_begin_string(out);
  if (request->job.params.transform.num_cuts == 0) text_put(out, "off");
  for (int32_t i = 0; i < request->job.params.transform.num_cuts; i++)
    for (int number = 0; number < 6; number++) {
      if (number || i) text_put(out, number ? "," : ";");
      text_float(out, number_of(&request->cuts[i], number));
    }
  json_end(out);
}

static const struct value_type value_cut = {"boxes", false, read_cut, write_cut, NULL};

static const struct param matrix = {
    .name = "matrix",
    .type = &value_matrix,
    .allowed = "16 numbers, row by row, or 16 for each of up to 64 clouds; the last row of each matrix is 0,0,0,1",
    .doc = "moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on; without it the points stay, except that -0 "
           "becomes 0",
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
static const struct param outputs = PARAM_OUTPUTS(VX_TRANSFORM_TENSORS, "points and point_indices");

static const struct param *const rows[] = {
    &param_preset,        &param_num_features,  &param_dtype,      &param_format, &param_fields, &param_intensity_scale,
    &param_point_counts,  PARAMS_OF_STREAMS,    &matrix,           &crop,         &cut,          &outputs,
    &param_points_region, &param_output_region, &param_timeout_ms, NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_MOVED_POINTS, "the moved points in the order of the body, widened to float32", NULL},
    {VX_POINT_INDICES, "the row of each point in the body, counted over all clouds", NULL},
    {.doc = NULL},
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_TRANSFORM_TENSORS;
}

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

static bool finish(struct job_request *request, struct error *error) {
  if (!stream_finish(request, error)) return false;
  const struct vx_transform *params = &request->job.params.transform;
  bool good = check_matrices(request->matrices[0], request->num_matrices, error) &&
              (!params->cropped || check_box("crop", &params->crop, error));
  for (int32_t i = 0; good && i < params->num_cuts; i++) good = check_box("cut", &request->cuts[i], error);
  return good;
}

static bool split(struct job_request *request, struct error *error) {
  if (request->num_matrices > 1 && request->num_matrices != request->num_clouds)
    return error_refuse(
        error, ERROR_BAD_PARAMETER, "matrix",
        "matrix has %d matrices, but the batch has %d clouds; allowed: one matrix, or one for each cloud",
        (int)request->num_matrices, (int)request->num_clouds);
  const struct vx_input *tensor = &request->job.inputs[VX_MATRIX];
  if (request->num_matrices > 0 && tensor->rank)
    return error_refuse(error, ERROR_BAD_PARAMETER, "matrix",
                        "matrix is given both as a parameter and as a tensor of the body; give only one");
  return !tensor->rank || check_matrices(tensor->data, tensor->dims[0], error);
}

static void bind(const struct job_request *request, struct vx_job *job) {
  job->params.transform.cuts = request->cuts;
  if (request->num_matrices > 0)
    job->inputs[VX_MATRIX] = (struct vx_input){VX_FLOAT32, 3, {request->num_matrices, 4, 4}, request->matrices};
}

const struct operation operation_transform = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = split,
    .bind = bind,
};

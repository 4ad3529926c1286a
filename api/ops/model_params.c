// See model_params.h.
#include "api/ops/model_params.h"

#include "api/base/json_write.h"
#include "api/ops/stream.h"
#include "kernels/decoder.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

const struct param param_model = {
    .name = "model",
    .type = &value_text,
    .offset = FIELD(model),
    .allowed = "a name from GET /v1/models",
    .doc = "the model that detects",
    .required = true,
};
// The next three rows are parameters of /v1/voxelize too.
const struct param param_model_voxels_by = PARAM_MAX_VOXELS_BY(job.params.detect.choice.voxels_by, NULL);
const struct param param_model_points_by = PARAM_MAX_POINTS_BY(job.params.detect.choice.points_by, NULL);
const struct param param_model_seed = PARAM_SEED(job.params.detect.choice.seed, NULL);
const struct param param_model_precision = {
    .name = "precision",
    .type = &value_word,
    .offset = FIELD(job.params.detect.precision),
    .words = vx_float_words,
    .initial = "float32",
    .doc = "type of the backbone's features and weights; float16 needs a GPU",
};

// ---- the model's values ---------------------------------------------------------------------------------------------

static bool overrides(const struct param *param) {
  return param->offset >= FIELD(job.params.detect) &&
         param->offset < FIELD(job.params.detect) + sizeof(struct vx_detect);
}

static bool is_used(const struct vx_detector *detector, const struct param *param) {
  bool centers = detector->head == VX_DECODE_CENTER;
  if (param->offset == FIELD(job.params.detect.max_objects)) return centers;
  if (param->offset == FIELD(job.params.detect.nms.iou_threshold))
    return !centers || !detector->params.center.nms.circle;
  if (param->offset == FIELD(job.params.detect.precision)) return vx_has_backbone(detector);
  return true;
}

void model_params_choose(struct job_request *request, const struct vx_detector *detector) {
  param_rows rows = operations[request->job.op]->rows;
  request->job.params.detect = vx_detect_of(detector);
  for (int i = 0; rows[i]; i++)
    if (overrides(rows[i])) request->given[i] = is_used(detector, rows[i]);
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool check_used(const struct job_request *request, struct error *error) {
  param_rows rows = operations[request->job.op]->rows;
  for (int i = 0; rows[i]; i++)
    if (overrides(rows[i]) && request->given[i] && !is_used(request->job.params.detect.detector, rows[i]))
      return error_refuse(error, ERROR_BAD_PARAMETER, rows[i]->name,
                          "%s is given, but the model %s has no such parameter", rows[i]->name, request->model);
  return true;
}

static bool check_backbone(const struct job_request *request, struct error *error) {
  return request->job.op != VX_BACKBONE || vx_has_backbone(request->job.params.detect.detector) ||
         error_refuse(error, ERROR_BAD_PARAMETER, "model", "the model %s has no backbone", request->model);
}

static bool check_outputs(const struct job_request *request, struct error *error) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  vx_tensor_set made = vx_map_tensors(detector, ~0u) | (vx_has_backbone(detector) ? VX_SPARSE_TENSORS : 0);
  vx_tensor_set missing = request->job.tensors & (VX_HEAD_TENSORS | VX_SPARSE_TENSORS) & ~made;
  return !missing ||
         error_refuse(error, ERROR_BAD_PARAMETER, "outputs", "outputs names %s, which the model %s does not have",
                      vx_tensors[__builtin_ctzll(missing)].name, request->model);
}

static bool check_columns(const struct job_request *request, struct error *error) {
  int32_t columns = vx_detector_columns(request->job.params.detect.detector);
  int32_t given = job_request_columns(request);
  return given == columns ||
         error_refuse(error, ERROR_BAD_PARAMETER, request->num_fields ? "fields" : "num_features",
                      "the points have %d columns; the model %s takes %d", (int)given, request->model, (int)columns);
}

bool model_params_finish(struct job_request *request, struct error *error) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  if (!detector)
    return error_refuse(error, ERROR_BAD_PARAMETER, "model", "model is missing; give a name from GET /v1/models");
  if (!job_request_is_given(request, "num_features") && !request->num_fields) {
    // As many columns as the model takes, but not the time of a sweep if the server appends it (time_column).
    request->num_features += vx_detector_columns(detector) - job_request_columns(request);
    request->job.inputs[VX_POINTS].dims[1] = request->num_features;
  }
  return stream_finish(request, error) && check_backbone(request, error) && check_used(request, error) &&
         check_outputs(request, error) && check_columns(request, error);
}

// The body itself may have set the number of columns.
bool model_params_split(struct job_request *request, struct error *error) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  const struct vx_sparse_rows rows = {.num_clouds = request->num_clouds, .max_rows = detector->max_rows};
  struct vx_grid grid;
  if (!check_columns(request, error)) return false;
  if (vx_has_backbone(detector) && vx_sparse_rows_fit(&detector->plan, &rows, error) != VX_OK) return false;
  return vx_grid_of(&detector->voxelize, request->num_clouds, &grid, error) == VX_OK;
}

// ---- metadata -------------------------------------------------------------------------------------------------------

void model_params_write(const struct vx_job *job, struct text *out) {
  const struct vx_detector *detector = job->params.detect.detector;
  json_printf(out, "model_version:%s", detector->version);
  if (!vx_has_backbone(detector)) return;
  json_printf(out, "backbone:{level_rows:");
  json_put_integers(out, job->counts.level_rows, detector->plan.num_levels);
  json_printf(out, "max_rows:%ld}", detector->max_rows);
}

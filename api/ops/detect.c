// The parameters of POST /v1/detect; kernels/detect.h says what it computes. All else is the model's.
#include <string.h>

#include "api/ops/rows.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static const struct param model = {
    .name = "model",
    .type = &value_text,
    .offset = FIELD(model),
    .allowed = "a name of GET /v1/models",
    .doc = "the model that detects",
};
static const struct param outputs = PARAM_OUTPUTS(VX_DETECT_TENSORS, "boxes, scores, labels and box_counts");

static const struct param *const rows[] = {&model,
                                           &param_num_features,
                                           &param_dtype,
                                           &param_format,
                                           &param_fields,
                                           &param_intensity_scale,
                                           &param_point_counts,
                                           &outputs,
                                           &param_points_region,
                                           &param_output_region,
                                           &param_timeout_ms,
                                           NULL};
PARAM_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static uint32_t tensors(const struct job_request *request) {
  (void)request;
  return VX_DECODE_TENSORS & ~VX_TENSOR_BIT(VX_BOX_INDICES);
}

// Maps that the model's network does not make, or that its head does not name so.
static uint32_t missing_maps(const struct vx_detector *detector) {
  static const enum vx_tensor shown[] = {[VX_CLS_PREDS] = VX_HEAD_CLS_PREDS,
                                         [VX_BOX_PREDS] = VX_HEAD_BOX_PREDS,
                                         [VX_DIR_CLS_PREDS] = VX_HEAD_DIR_CLS_PREDS};
  uint32_t missing = 0;
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
    if (detector->head != VX_DECODE || !detector->maps[i].output) missing |= VX_TENSOR_BIT(shown[i]);
  return missing;
}

static int32_t columns_of(const struct vx_detector *detector) {
  return detector->voxelize.encoder.layers[0].inputs - VX_PILLAR_EXTRA;
}

static bool check_columns(const struct job_request *request, struct problem *problem) {
  int32_t columns = columns_of(request->job.params.detect.detector);
  return request->num_features == columns ||
         problem_set(problem, PROBLEM_BAD_PARAMETER, request->num_fields ? "fields" : "num_features",
                     "the points have %d columns; the model %s takes %d", (int)request->num_features, request->model,
                     (int)columns);
}

static bool finish(struct job_request *request, struct problem *problem) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  if (!detector)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "model", "model is missing; give a name of GET /v1/models");
  if (!job_request_is_given(request, "num_features") && !request->num_fields) {
    request->num_features = columns_of(detector);
    request->job.inputs[VX_POINTS].dims[1] = request->num_features;
  }
  uint32_t missing = request->job.tensors & missing_maps(detector);
  if (missing)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "outputs", "outputs names %s, which the model %s has not",
                       vx_tensor_name((enum vx_tensor)__builtin_ctz(missing)), request->model);
  return check_columns(request, problem);
}

// The body itself may have said how many columns there are.
static bool split(struct job_request *request, struct problem *problem) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  struct vx_grid grid;
  struct vx_error error;
  if (!check_columns(request, problem)) return false;
  return vx_grid_of(&detector->voxelize, request->num_clouds, &grid, &error) == VX_OK ||
         problem_set(problem, PROBLEM_IMPOSSIBLE, NULL, "%s", error.text);
}

// ---- metadata -------------------------------------------------------------------------------------------------------

static void write_names(const char *names, struct text *out) {
  for (const char *comma = ""; *names; comma = ",") {
    size_t length = strcspn(names, ",");
    text_put(out, comma);
    text_json_string(out, names, length);
    names += length + (names[length] == ',');
  }
}

// The names of the labels, and what became of the decoder's items.
static void write_detection(const struct vx_job *job, struct text *out) {
  const struct vx_detector *detector = job->params.detect.detector;
  const struct vx_operation *head = vx_operation_of((enum vx_op)detector->head);
  long long kept = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) kept += job->row_counts[cloud];
  text_put(out, ",\"class_names\":[");
  write_names(detector->class_names, out);
  text_printf(out, "],\"%s\":{\"received\":%lld,\"kept\":%lld", vx_item_name(head->items),
              (long long)detector->items * job->num_clouds, kept);
  for (enum vx_fate fate = VX_FATE_KEPT + 1; fate < VX_FATE_COUNT; fate++)
    if (head->fates & VX_FATE_BIT(fate))
      text_printf(out, ",\"%s\":%lld", vx_fate_name(fate), (long long)vx_fate_count(fate, &job->counts));
  text_put(out, "}");
}

const struct operation operation_detect = {
    .rows = rows,
    .tensors = tensors,
    .finish = finish,
    .split = split,
    .write = write_detection,
};

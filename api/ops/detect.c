// The parameters of POST /v1/detect; kernels/detect.h says what it computes. The model has all other parameters.
#include "api/ops/ops.h"

#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/boxes.h"
#include "api/ops/deskew.h"
#include "api/ops/rows.h"
#include "api/ops/stream.h"
#include "kernels/decoder.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static const struct param model = {
    .name = "model",
    .type = &value_text,
    .offset = FIELD(model),
    .allowed = "a name from GET /v1/models",
    .doc = "the model that detects",
    .required = true,
};
// These override the model's values. The first three are parameters of /v1/voxelize, the others of /v1/decode.
#define OF_MODEL "; without it the model's value"
static const struct param max_voxels_by = {
    .name = "max_voxels_by",
    .type = &value_word,
    .offset = FIELD(job.params.detect.choice.voxels_by),
    .words = voxels_by_words,
    .doc = "which voxels are kept" OF_MODEL,
};
static const struct param max_points_by = {
    .name = "max_points_by",
    .type = &value_word,
    .offset = FIELD(job.params.detect.choice.points_by),
    .words = points_by_words,
    .doc = "which points a voxel keeps" OF_MODEL,
};
static const struct param seed = {
    .name = "seed",
    .type = &value_int,
    .offset = FIELD(job.params.detect.choice.seed),
    .least = 0,
    .most = INT32_MAX,
    .doc = "of max_points_by=random" OF_MODEL,
};
static const struct param score_threshold = {
    .name = "score_threshold",
    .type = &value_float,
    .to = 1,
    .offset = FIELD(job.params.detect.score_threshold),
    .doc = "boxes with a lower score are dropped; a centre head also drops boxes with exactly this score" OF_MODEL,
};
static const struct param max_objects = {
    .name = "max_objects",
    .type = &value_int,
    .offset = FIELD(job.params.detect.max_objects),
    .least = 1,
    .most = VX_MAX_RANKED,
    .doc = "for a centre head: maximum number of candidates per task that become boxes" OF_MODEL,
};
static const struct param nms_threshold = {
    .name = "nms_threshold",
    .type = &value_float,
    .to = 1,
    .offset = FIELD(job.params.detect.nms.iou_threshold),
    .doc = "the same as iou_threshold of /v1/nms; not for models that suppress by distance" OF_MODEL,
};
static const struct param nms_pre_max = {
    .name = "nms_pre_max",
    .type = &value_int,
    .offset = FIELD(job.params.detect.nms.pre_max),
    .least = 1,
    .most = VX_MAX_RANKED,
    .doc = "maximum number of boxes to compare per task, or per class with nms_groups=class" OF_MODEL,
};
static const struct param nms_post_max = {
    .name = "nms_post_max",
    .type = &value_int,
    .offset = FIELD(job.params.detect.nms.post_max),
    .least = 1,
    .most = VX_MAX_RANKED,
    .doc = "maximum number of boxes to keep per task, or per class with nms_groups=class" OF_MODEL,
};
static const struct param class_agnostic = {
    .name = "class_agnostic",
    .type = &value_word,
    .offset = FIELD(job.params.detect.nms.class_agnostic),
    .words = no_yes_words,
    .doc = "whether a box also suppresses boxes with other labels" OF_MODEL,
};
static const struct param outputs =
    PARAM_OUTPUTS(VX_DETECT_TENSORS | VX_CHAIN_TENSORS, "boxes, scores, labels and box_counts");

static const struct param *const rows[] = {
    &model,           PARAMS_OF_POINTS,     &param_steps,         &max_voxels_by,  &max_points_by,    &seed,
    &score_threshold, &max_objects,         &nms_threshold,       &nms_pre_max,    &nms_post_max,     &class_agnostic,
    &outputs,         &param_points_region, &param_output_region, &param_metadata, &param_timeout_ms, NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_DECODED_BOXES,
     "x, y, z, dx, dy, dz, heading, and the velocity along x and y if the model has it; best first within each cloud, "
     "or within each of its tasks",
     NULL},
    {VX_DECODED_SCORES, "score of each box, from 0 to 1", NULL},
    {VX_DECODED_LABELS, "class of each box, from 0; class_names of the metadata has the names", NULL},
    {VX_BOX_COUNTS, "boxes of each cloud", NULL},
    {VX_BOX_INDICES, "for each box, the flat index of its anchor, or of its class and cell, within its cloud",
     WHEN_NAMED},
    {VX_HEAD_CLS_PREDS, "logits of classes, channels last; of an anchor head", WHEN_NAMED},
    {VX_HEAD_BOX_PREDS, "offsets of boxes; of an anchor head", WHEN_NAMED},
    {VX_HEAD_DIR_CLS_PREDS, "logits of directions; of an anchor head that has directions", WHEN_NAMED},
    {VX_HEAD_HEATMAP, "logits of classes, channels last; of a centre head", WHEN_NAMED},
    {VX_HEAD_CENTER, "offsets of centres in a cell; of a centre head", WHEN_NAMED},
    {VX_HEAD_HEIGHT, "z of centres; of a centre head", WHEN_NAMED},
    {VX_HEAD_DIM, "logarithms of sizes; of a centre head", WHEN_NAMED},
    {VX_HEAD_ROT, "cosines and sines of headings, in the order that the model has; of a centre head", WHEN_NAMED},
    {VX_HEAD_VEL, "velocities along x and y; of a centre head that has velocities", WHEN_NAMED},
    {VX_HEAD_IOU, "overlaps of boxes; of a centre head that predicts overlaps", WHEN_NAMED},
    {VX_BEV_FEATURES, "the network's input: the pillars' features as a map", WHEN_NAMED},
    CHAIN_RESULTS,
    {.doc = NULL},
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_DECODE_TENSORS & ~VX_TENSOR_BIT(VX_BOX_INDICES);
}

// Whether the decoder uses this parameter of the model.
static bool is_used(const struct vx_detector *detector, const struct param *param) {
  bool centers = detector->head == VX_DECODE_CENTER;
  if (param == &max_objects) return centers;
  if (param == &nms_threshold) return !centers || !detector->params.center.nms.circle;
  return true;
}

static const struct param *const of_model[] = {&max_voxels_by,   &max_points_by, &seed,
                                               &score_threshold, &max_objects,   &nms_threshold,
                                               &nms_pre_max,     &nms_post_max,  &class_agnostic};
enum { OF_MODEL_COUNT = sizeof of_model / sizeof *of_model };

void detect_choose(struct job_request *request, const struct vx_detector *detector) {
  request->job.params.detect = vx_detect_of(detector);
  for (int i = 0; i < OF_MODEL_COUNT; i++)
    request->given[params_find(rows, of_model[i]->name, strlen(of_model[i]->name))] = is_used(detector, of_model[i]);
}

static bool check_used(const struct job_request *request, struct error *error) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  for (int i = 0; i < OF_MODEL_COUNT; i++)
    if (!is_used(detector, of_model[i]) && job_request_is_given(request, of_model[i]->name))
      return error_refuse(error, ERROR_BAD_PARAMETER, of_model[i]->name,
                          "%s is given, but the model %s has no such parameter", of_model[i]->name, request->model);
  return true;
}

static bool check_outputs(const struct job_request *request, struct error *error) {
  vx_tensor_set made = vx_map_tensors(request->job.params.detect.detector, ~0u);
  vx_tensor_set missing = request->job.tensors & VX_HEAD_TENSORS & ~made;
  return !missing ||
         error_refuse(error, ERROR_BAD_PARAMETER, "outputs", "outputs names %s, which the model %s does not have",
                      vx_tensor_name((enum vx_tensor)__builtin_ctzll(missing)), request->model);
}

static int32_t columns_of(const struct vx_detector *detector) {
  return detector->voxelize.encoder.layers[0].inputs - VX_PILLAR_EXTRA;
}

static bool check_columns(const struct job_request *request, struct error *error) {
  int32_t columns = columns_of(request->job.params.detect.detector);
  int32_t given = job_request_columns(request);
  return given == columns ||
         error_refuse(error, ERROR_BAD_PARAMETER, request->num_fields ? "fields" : "num_features",
                      "the points have %d columns; the model %s takes %d", (int)given, request->model, (int)columns);
}

static bool finish(struct job_request *request, struct error *error) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  if (!detector)
    return error_refuse(error, ERROR_BAD_PARAMETER, "model", "model is missing; give a name from GET /v1/models");
  if (!job_request_is_given(request, "num_features") && !request->num_fields) {
    // The columns of the body: the model's columns without the time of a sweep, which the server appends.
    request->num_features += columns_of(detector) - job_request_columns(request);
    request->job.inputs[VX_POINTS].dims[1] = request->num_features;
  }
  return stream_finish(request, error) && check_used(request, error) && check_outputs(request, error) &&
         check_columns(request, error);
}

// Checks the columns again, since the body itself may have set their number.
static bool split(struct job_request *request, struct error *error) {
  const struct vx_detector *detector = request->job.params.detect.detector;
  struct vx_grid grid;
  if (!check_columns(request, error)) return false;
  return vx_grid_of(&detector->voxelize, request->num_clouds, &grid, error) == VX_OK;
}

// ---- metadata -------------------------------------------------------------------------------------------------------

// Writes the model's version, the names of the labels, and counts of the decoder's items.
static void write_detection(const struct vx_job *job, struct text *out) {
  const struct vx_detector *detector = job->params.detect.detector;
  const struct vx_operation *head = vx_operation_of((enum vx_op)detector->head);
  long long kept = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) kept += job->row_counts[cloud];
  json_printf(out, "model_version:%s class_names:", detector->version);
  value_write_names(detector->class_names, out);
  json_printf(out, "%s:{received:%ld kept:%lld", vx_item_name(head->items), detector->items * job->num_clouds, kept);
  fates_write(head->fates & ~VX_FATE_BIT(VX_FATE_KEPT), &job->counts, out);
  json_printf(out, "}");
}

const struct operation operation_detect = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = split,
    .write = write_detection,
};

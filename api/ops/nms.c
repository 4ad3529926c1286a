// The parameters of POST /v1/nms; kernels/boxes.h says what they mean.
#include "api/ops/boxes.h"

static const struct param iou_threshold = {
    .name = "iou_threshold",
    .type = &value_float,
    .to = 1,
    .offset = FIELD(job.params.nms.iou_threshold),
    .initial = "0.01",
    .doc = "a better box suppresses a box if they overlap by more than this part of their union, seen from above",
};
static const struct param box_counts = PARAM_BOX_COUNTS;
static const struct param nms_pre_max = PARAM_NMS_PRE_MAX(job.params.nms.pre_max, "4096", "cloud");
static const struct param nms_post_max = PARAM_NMS_POST_MAX(job.params.nms.post_max, "500", "cloud");
static const struct param class_agnostic = PARAM_CLASS_AGNOSTIC(job.params.nms.class_agnostic, "yes");
static const struct param outputs = PARAM_OUTPUTS(VX_NMS_TENSORS, "kept_indices");

static const struct param *const rows[] = {&param_preset,   &box_counts, &iou_threshold,   &nms_pre_max, &nms_post_max,
                                           &class_agnostic, &outputs,    PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_KEPT_INDICES, "the rows of the kept boxes, in the order of their ranks, counted over all clouds", NULL},
    {.doc = NULL},
};

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_NMS_TENSORS;
}

static bool finish(struct job_request *request, struct error *error) {
  (void)request, (void)error;
  return true;
}

static bool split(struct job_request *request, struct error *error) {
  return request->job.params.nms.class_agnostic || request->job.inputs[VX_LABELS].rank ||
         error_refuse(error, ERROR_BAD_BODY, NULL, "the input labels is missing; class_agnostic=no needs it");
}

const struct operation operation_nms = {
    .body = FORMAT_SAFETENSORS,
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = split,
};

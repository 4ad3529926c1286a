// The parameters of POST /v1/decode with head=anchor; kernels/decode.h says what they mean.
#include "api/ops/boxes.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

#define DECODE(member) FIELD(job.params.decode.member)

static const struct param point_cloud_range = PARAM_MAPS_RANGE(job.params.decode.range_min);
static const struct param anchor_sizes = {
    .name = "anchor_sizes",
    .type = &value_rows,
    .offset = DECODE(sizes),
    .second = DECODE(num_sizes),
    .least = 3,
    .most = VX_MAX_ANCHOR_SIZES,
    .allowed = "dx,dy,dz for each of 1 to 16 sizes, each above 0",
    .unit = "metres",
    .doc = "each cell has an anchor for every size and rotation",
};
static const struct param anchor_bottoms = {
    .name = "anchor_bottoms",
    .type = &value_rows,
    .offset = DECODE(bottoms),
    .second = FIELD(num_bottoms),
    .least = 1,
    .most = VX_MAX_ANCHOR_SIZES,
    .allowed = "a number for each size",
    .unit = "metres",
    .doc = "z of the bottom of the anchors, for each size",
};
static const struct param anchor_rotations = {
    .name = "anchor_rotations",
    .type = &value_rows,
    .offset = DECODE(rotations),
    .second = DECODE(num_rotations),
    .least = 1,
    .most = VX_MAX_ANCHOR_ROTATIONS,
    .initial = "0,1.57",
    .allowed = "1 to 8 numbers",
    .unit = "radians",
    .doc = "rotations of the anchors",
};
static const struct param velocity = {
    .name = "velocity",
    .type = &value_word,
    .offset = DECODE(velocity),
    .words = no_yes_words,
    .initial = "no",
    .doc = "whether box_preds has nine values for an anchor: the last two are the velocity along x and y",
};
static const struct param align_center = {
    .name = "align_center",
    .type = &value_word,
    .offset = DECODE(align_center),
    .words = no_yes_words,
    .initial = "no",
    .doc =
        "whether anchors are at the centres of the maps' cells; if not, the outer anchors lie on the ends of the range",
};
static const struct param dir_offset = {
    .name = "dir_offset",
    .type = &value_float,
    .offset = DECODE(dir_offset),
    .initial = "0.78539",
    .allowed = "a finite number",
    .unit = "radians",
    .doc = "the start of the first bin of directions",
};
static const struct param dir_limit_offset = {
    .name = "dir_limit_offset",
    .type = &value_float,
    .offset = DECODE(dir_limit_offset),
    .initial = "0",
    .allowed = "a finite number",
    .doc = "headings of the first bin begin this many bins below dir_offset",
};
static const struct param dir_bins = {
    .name = "dir_bins",
    .type = &value_int,
    .offset = DECODE(dir_bins),
    .least = 1,
    .most = VX_MAX_DIR_BINS,
    .initial = "2",
    .doc = "number of directions per anchor in dir_cls_preds",
};
static const struct param score_threshold = PARAM_SCORE_THRESHOLD(job.params.decode.score_threshold);
static const struct param nms_threshold = PARAM_NMS_THRESHOLD(job.params.decode.nms.iou_threshold);
static const struct param nms_pre_max = PARAM_NMS_PRE_MAX(job.params.decode.nms.pre_max, CLOUD_OR_TASK);
static const struct param nms_post_max = PARAM_NMS_POST_MAX(job.params.decode.nms.post_max, CLOUD_OR_TASK);
static const struct param class_agnostic = PARAM_CLASS_AGNOSTIC(job.params.decode.nms.class_agnostic);
static const struct param outputs = PARAM_OUTPUTS(VX_DECODE_TENSORS, "all");

static const struct param *const rows[] = {&param_preset,
                                           &param_head,
                                           &point_cloud_range,
                                           &anchor_sizes,
                                           &anchor_bottoms,
                                           &anchor_rotations,
                                           &velocity,
                                           &align_center,
                                           &dir_offset,
                                           &dir_limit_offset,
                                           &dir_bins,
                                           &score_threshold,
                                           &nms_threshold,
                                           &nms_pre_max,
                                           &nms_post_max,
                                           &class_agnostic,
                                           &param_class_names,
                                           &outputs,
                                           &param_points_region,
                                           &param_output_region,
                                           &param_timeout_ms,
                                           NULL};
PARAM_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_DECODE_TENSORS;
}

static bool finish(struct job_request *request, struct error *error) {
  static const char *const needed[] = {"point_cloud_range", "anchor_sizes", "anchor_bottoms", NULL};
  const struct vx_decode *params = &request->job.params.decode;
  if (!boxes_check_given(request, needed, error) ||
      !boxes_check_range("point_cloud_range", params->range_min, params->range_max, error))
    return false;
  for (int i = 0; i < 3 * params->num_sizes; i++)
    if (!(params->sizes[i / 3][i % 3] > 0))
      return error_refuse(error, ERROR_BAD_PARAMETER, "anchor_sizes", "anchor_sizes has %g; allowed: above 0",
                          (double)params->sizes[i / 3][i % 3]);
  return request->num_bottoms == params->num_sizes ||
         error_refuse(error, ERROR_BAD_PARAMETER, "anchor_bottoms",
                      "anchor_bottoms has %d numbers for %d anchor_sizes; allowed: one for each",
                      (int)request->num_bottoms, (int)params->num_sizes);
}

// The items of a cloud are all anchors of its maps.
static bool count(struct job_request *request, struct error *error) {
  const struct vx_decode *params = &request->job.params.decode;
  int64_t anchors = (int64_t)params->num_sizes * params->num_rotations;
  int64_t channels = request->job.inputs[VX_CLS_PREDS].dims[3], classes = channels / anchors;
  if (!boxes_check_maps(request, error)) return false;
  if (channels % anchors || classes < 1 || classes > VX_MAX_CLASSES)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "the input cls_preds has %lld channels; allowed: 1 to %d classes for each of %lld anchors",
                        (long long)channels, VX_MAX_CLASSES, (long long)anchors);
  return boxes_count(request, classes, error);
}

const struct operation operation_decode = {
    .head = "anchor",
    .body = FORMAT_SAFETENSORS,
    .rows = rows,
    .results = decoded_results,
    .tensors = tensors,
    .finish = finish,
    .count = count,
};

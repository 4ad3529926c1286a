// The parameters of POST /v1/decode with head=anchor; kernels/decode.h says what they mean.
#include "api/ops/boxes.h"
#include "kernels/exact.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

#define DECODE(member) FIELD(job.params.decode.member)

static const char *const heading_words[] = {"angle", "cos_sin", NULL};  // enum vx_heading
static const char *const labels_words[] = {"best", "all", NULL};        // enum vx_labels
static const char *const groups_words[] = {"task", "class", NULL};      // enum vx_nms_groups

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
    .doc = "z of the anchors' bottoms",
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
static const struct param task_classes =
    PARAM_TASK_CLASSES(job.params.decode.tasks.classes, job.params.decode.tasks.count);
static const struct param task_sizes = {
    .name = "task_sizes",
    .type = &value_counts,
    .offset = DECODE(task_sizes),
    .second = DECODE(num_task_sizes),
    .most = VX_MAX_TASKS,
    .allowed = "whole numbers of 1 or more, one for each of task_classes, that add up to the number of anchor_sizes",
    .doc = "number of anchor_sizes of each task",
};
static const struct param heading = {
    .name = "heading",
    .type = &value_word,
    .offset = DECODE(heading),
    .words = heading_words,
    .initial = "angle",
    .doc = "the heading in box_preds: one value to add to the anchor's rotation, or two to add to its cosine and sine",
};
static const struct param velocity = {
    .name = "velocity",
    .type = &value_word,
    .offset = DECODE(velocity),
    .words = no_yes_words,
    .initial = "no",
    .doc = "whether box_preds also has two values for the velocity along x and y",
};
static const struct param align_center = {
    .name = "align_center",
    .type = &value_word,
    .offset = DECODE(align_center),
    .words = no_yes_words,
    .initial = "no",
    .doc = "whether anchors are at the centres of cells; if not, the outermost anchors are at the ends of the range",
};
static const struct param dir_offset = {
    .name = "dir_offset",
    .type = &value_float,
    .offset = DECODE(dir_offset),
    .initial = "0.78539",
    .allowed = "a finite number",
    .unit = "radians",
    .doc = "the heading at which the first bin of directions begins",
};
static const struct param dir_limit_offset = {
    .name = "dir_limit_offset",
    .type = &value_float,
    .offset = DECODE(dir_limit_offset),
    .initial = "0",
    .allowed = "a finite number",
    .doc = "moves the beginning of each bin back by this many bins",
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
static const struct param labels = {
    .name = "labels",
    .type = &value_word,
    .offset = DECODE(labels),
    .words = labels_words,
    .initial = "best",
    .doc = "whether an anchor gives one box, for its best class, or a box for each class that reaches score_threshold",
};
static const struct param nms_groups = {
    .name = "nms_groups",
    .type = &value_word,
    .offset = DECODE(nms_groups),
    .words = groups_words,
    .initial = "task",
    .doc = "which boxes are ranked, limited and suppressed together: those of a task, or those of a class",
};
static const struct param score_threshold = PARAM_SCORE_THRESHOLD(job.params.decode.score_threshold, "0.1");
static const struct param nms_threshold = PARAM_NMS_THRESHOLD(job.params.decode.nms.iou_threshold, "0.01");
static const struct param nms_pre_max = PARAM_NMS_PRE_MAX(job.params.decode.nms.pre_max, "4096", TASK_OR_CLASS);
static const struct param nms_post_max = PARAM_NMS_POST_MAX(job.params.decode.nms.post_max, "500", TASK_OR_CLASS);
static const struct param class_agnostic = PARAM_CLASS_AGNOSTIC(job.params.decode.nms.class_agnostic, "yes");
static const struct param outputs = PARAM_OUTPUTS(VX_DECODE_TENSORS, "all");

static const struct param *const rows[] = {
    &param_preset,     &param_head,        &point_cloud_range, &anchor_sizes,    &anchor_bottoms,
    &anchor_rotations, &task_classes,      &task_sizes,        &heading,         &velocity,
    &align_center,     &dir_offset,        &dir_limit_offset,  &dir_bins,        &labels,
    &score_threshold,  &nms_groups,        &nms_threshold,     &nms_pre_max,     &nms_post_max,
    &class_agnostic,   &param_class_names, &outputs,           PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_DECODE_TENSORS;
}

static bool check_sizes(const struct job_request *request, struct error *error) {
  const struct vx_decode *params = &request->job.params.decode;
  for (int i = 0; i < 3 * params->num_sizes; i++)
    if (!(params->sizes[i / 3][i % 3] > 0))
      return error_refuse(error, ERROR_BAD_PARAMETER, "anchor_sizes", "anchor_sizes has %g; allowed: above 0",
                          (double)params->sizes[i / 3][i % 3]);
  return request->num_bottoms == params->num_sizes ||
         error_refuse(error, ERROR_BAD_PARAMETER, "anchor_bottoms",
                      "anchor_bottoms has %d numbers for %d anchor_sizes; allowed: one for each",
                      (int)request->num_bottoms, (int)params->num_sizes);
}

static bool check_task_sizes(const struct vx_decode *params, struct error *error) {
  int64_t sizes = 0;
  if (params->num_task_sizes != params->tasks.count)
    return error_refuse(error, ERROR_BAD_PARAMETER, "task_sizes",
                        "task_sizes has %d numbers for %d task_classes; allowed: one for each",
                        (int)params->num_task_sizes, (int)params->tasks.count);
  for (int32_t task = 0; task < params->num_task_sizes; task++) {
    sizes += params->task_sizes[task];
    if (params->task_sizes[task] < 1)
      return error_refuse(error, ERROR_BAD_PARAMETER, "task_sizes", "task_sizes has 0; allowed: 1 or more");
  }
  return params->num_task_sizes == 0 || sizes == params->num_sizes ||
         error_refuse(error, ERROR_BAD_PARAMETER, "task_sizes", "task_sizes add up to %lld; there are %d anchor_sizes",
                      (long long)sizes, (int)params->num_sizes);
}

static bool check_rotations(const struct vx_decode *params, struct error *error) {
  for (int32_t i = 0; params->heading == VX_HEADING_COS_SIN && i < params->num_rotations; i++)
    if (!(params->rotations[i] >= -VX_MOST_RADIANS && params->rotations[i] <= VX_MOST_RADIANS))
      return error_refuse(error, ERROR_BAD_PARAMETER, "anchor_rotations",
                          "anchor_rotations has %g; allowed with heading=cos_sin: from %d to %d",
                          (double)params->rotations[i], -VX_MOST_RADIANS, VX_MOST_RADIANS);
  return true;
}

static bool finish(struct job_request *request, struct error *error) {
  static const char *const needed[] = {"point_cloud_range", "anchor_sizes", "anchor_bottoms", NULL};
  const struct vx_decode *params = &request->job.params.decode;
  return boxes_check_given(request, needed, error) &&
         boxes_check_range("point_cloud_range", params->range_min, params->range_max, error) &&
         check_sizes(request, error) && boxes_check_tasks(&params->tasks, error) && check_task_sizes(params, error) &&
         check_rotations(params, error);
}

// Without task_classes, the number of channels of cls_preds gives the number of classes.
static bool check_channels(const struct vx_decode *params, int64_t channels, int64_t *classes, struct error *error) {
  int64_t anchors = vx_cell_anchors(params), logits = vx_cell_logits(params, channels);
  *classes = channels / anchors;
  if (params->tasks.count == 0)
    return (channels % anchors == 0 && *classes >= 1 && *classes <= VX_MAX_CLASSES) ||
           error_refuse(error, ERROR_BAD_BODY, NULL,
                        "the input cls_preds has %lld channels; allowed: 1 to %d classes for each of %lld anchors",
                        (long long)channels, VX_MAX_CLASSES, (long long)anchors);
  *classes = 0;
  for (int32_t task = 0; task < params->tasks.count; task++) *classes += params->tasks.classes[task];
  return channels == logits ||
         error_refuse(error, ERROR_BAD_BODY, "task_classes",
                      "the input cls_preds has %lld channels; the anchors of all tasks have %lld logits",
                      (long long)channels, (long long)logits);
}

// Counts the items (kernels/decode.h) of each cloud: all anchors or, with labels=all, all logits.
static bool count(struct job_request *request, struct error *error) {
  int64_t classes;
  return boxes_check_maps(request, error) &&
         check_channels(&request->job.params.decode, request->job.inputs[VX_CLS_PREDS].dims[3], &classes, error) &&
         boxes_count(request, classes, error);
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

// The parameters of POST /v1/decode; kernels/decode.h says what they mean.
#include "api/ops/boxes.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

#define DECODE(member) FIELD(job.params.decode.member)

static const struct param point_cloud_range = {
    .name = "point_cloud_range",
    .type = &value_floats,
    .offset = DECODE(range_min),
    .least = 6,
    .allowed = "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
    .doc = "metres; the range that the maps cover",
};
static const struct param anchor_sizes = {
    .name = "anchor_sizes",
    .type = &value_rows,
    .offset = DECODE(sizes),
    .second = DECODE(num_sizes),
    .least = 3,
    .most = VX_MAX_ANCHOR_SIZES,
    .allowed = "dx,dy,dz for each of 1 to 16 sizes, each above 0",
    .doc = "metres; the anchors of a cell are its sizes, each with every rotation",
};
static const struct param anchor_bottoms = {
    .name = "anchor_bottoms",
    .type = &value_rows,
    .offset = DECODE(bottoms),
    .second = FIELD(num_bottoms),
    .least = 1,
    .most = VX_MAX_ANCHOR_SIZES,
    .allowed = "a number for each size",
    .doc = "metres; z of the lower side of the anchors of each size",
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
    .doc = "radians",
};
static const struct param align_center = {
    .name = "align_center",
    .type = &value_word,
    .offset = DECODE(align_center),
    .words = no_yes_words,
    .initial = "no",
    .doc =
        "whether anchors are at the centres of the maps' cells; without it the outer ones lie on the ends of the range",
};
static const struct param dir_offset = {
    .name = "dir_offset",
    .type = &value_floats,
    .offset = DECODE(dir_offset),
    .least = 1,
    .initial = "0.78539",
    .allowed = "a finite number",
    .doc = "radians; where the first bin of directions begins",
};
static const struct param dir_limit_offset = {
    .name = "dir_limit_offset",
    .type = &value_floats,
    .offset = DECODE(dir_limit_offset),
    .least = 1,
    .initial = "0",
    .allowed = "a finite number",
    .doc = "which turn a heading is brought into, in parts of a bin",
};
static const struct param dir_bins = {
    .name = "dir_bins",
    .type = &value_int,
    .offset = DECODE(dir_bins),
    .least = 1,
    .most = VX_MAX_DIR_BINS,
    .initial = "2",
    .doc = "directions of an anchor in dir_cls_preds",
};
static const struct param score_threshold = {
    .name = "score_threshold",
    .type = &value_fraction,
    .offset = DECODE(score_threshold),
    .initial = "0.1",
    .doc = "boxes with a lower score are dropped",
};
static const struct param nms_threshold = {
    .name = "nms_threshold",
    .type = &value_fraction,
    .offset = DECODE(nms.iou_threshold),
    .initial = "0.01",
    .doc = "as iou_threshold of /v1/nms",
};
static const struct param class_names = {
    .name = "class_names",
    .type = &value_names,
    .offset = FIELD(class_names),
    .second = FIELD(num_class_names),
    .least = 1,
    .most = VX_MAX_CLASSES,
    .allowed = "1 to 64 names, each once, of up to 255 bytes in all",
    .doc = "names of the labels; cls_preds must have as many classes",
};
static const struct param nms_pre_max = PARAM_NMS_PRE_MAX(job.params.decode.nms.pre_max);
static const struct param nms_post_max = PARAM_NMS_POST_MAX(job.params.decode.nms.post_max);
static const struct param class_agnostic = PARAM_CLASS_AGNOSTIC(job.params.decode.nms.class_agnostic);
static const struct param outputs = PARAM_OUTPUTS(VX_DECODE_TENSORS, "all");

static const struct param *const rows[] = {
    &param_preset,  &point_cloud_range,   &anchor_sizes,        &anchor_bottoms,   &anchor_rotations,
    &align_center,  &dir_offset,          &dir_limit_offset,    &dir_bins,         &score_threshold,
    &nms_threshold, &nms_pre_max,         &nms_post_max,        &class_agnostic,   &class_names,
    &outputs,       &param_points_region, &param_output_region, &param_timeout_ms, NULL};
PARAM_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static uint32_t tensors(const struct job_request *request) {
  (void)request;
  return VX_DECODE_TENSORS;
}

static bool check_given(const struct job_request *request, struct problem *problem) {
  static const char *const needed[] = {"point_cloud_range", "anchor_sizes", "anchor_bottoms"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!job_request_is_given(request, needed[i]))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, needed[i], "%s is missing; give it, or a preset that has it",
                         needed[i]);
  return true;
}

static bool finish(struct job_request *request, struct problem *problem) {
  const struct vx_decode *params = &request->job.params.decode;
  if (!check_given(request, problem)) return false;
  for (int a = 0; a < 3; a++)
    if (!(params->range_min[a] < params->range_max[a]))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, "point_cloud_range",
                         "point_cloud_range runs along %c from %g to %g; allowed: min below max", "xyz"[a],
                         (double)params -> range_min[a], (double)params -> range_max[a]);
  for (int i = 0; i < 3 * params->num_sizes; i++)
    if (!(params->sizes[i / 3][i % 3] > 0))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, "anchor_sizes", "anchor_sizes has %g; allowed: above 0",
                         (double)params->sizes[i / 3][i % 3]);
  return request->num_bottoms == params->num_sizes ||
         problem_set(problem, PROBLEM_BAD_PARAMETER, "anchor_bottoms",
                     "anchor_bottoms has %d numbers for %d anchor_sizes; allowed: one for each",
                     (int)request->num_bottoms, (int)params->num_sizes);
}

// Each cloud has all anchors of its maps.
static bool count(struct job_request *request, struct problem *problem) {
  const struct vx_decode *params = &request->job.params.decode;
  const struct vx_input *logits = &request->job.inputs[VX_CLS_PREDS];
  int64_t anchors = (int64_t)params->num_sizes * params->num_rotations, clouds = logits->dims[0];
  if (logits->rank != 4 || clouds < 1 || clouds > VX_MAX_CLOUDS)
    return problem_set(
        problem, PROBLEM_BAD_BODY, NULL,
        "the input cls_preds has not the shape [H, W, channels] or [B, H, W, channels] with B from 1 to %d",
        VX_MAX_CLOUDS);
  int64_t classes = logits->dims[3] / anchors;
  if (logits->dims[3] % anchors || classes < 1 || classes > VX_MAX_CLASSES)
    return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                       "the input cls_preds has %lld channels; allowed: 1 to %d classes for each of %lld anchors",
                       (long long)logits->dims[3], VX_MAX_CLASSES, (long long)anchors);
  if (request->num_class_names && classes != request->num_class_names)
    return problem_set(problem, PROBLEM_BAD_BODY, "class_names",
                       "the input cls_preds has %lld classes; class_names has %d names", (long long)classes,
                       (int)request->num_class_names);
  int64_t rows = vx_sizes_of(&request->job).rows;
  if (rows > VX_MAX_POINTS)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL, "the maps have %lld anchors; allowed: up to %lld",
                       (long long)rows, (long long)VX_MAX_POINTS);
  request->num_clouds = (int32_t)clouds;
  for (int64_t i = 0; i < clouds; i++) request->point_counts[i] = (int32_t)(rows / clouds);
  return true;
}

const struct operation operation_decode = {
    .body = FORMAT_SAFETENSORS,
    .rows = rows,
    .tensors = tensors,
    .finish = finish,
    .count = count,
};

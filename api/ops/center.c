// The parameters of POST /v1/decode with head=center; kernels/center.h says what they mean.
#include "api/ops/boxes.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

#define CENTER(member) FIELD(job.params.center.member)

static const char *const rot_words[] = {"cos_sin", "sin_cos", NULL};   // enum vx_rot_order
static const char *const cell_labels_words[] = {"all", "best", NULL};  // vx_decode_center.best_class
#define POWERS "a number from 0 to 16, or one for each class"
static const char *const nms_words[] = {"rotated", "circle", NULL};  // vx_nms.circle

static const struct param point_cloud_range = PARAM_MAPS_RANGE(job.params.center.range_min);
static const struct param voxel_size = {
    .name = "voxel_size",
    .type = &value_floats,
    .offset = CENTER(voxel_size),
    .least = 3,
    .allowed = "x,y,z, finite, each above 0",
    .unit = "metres",
    .doc = "the size of the points' voxels; z is not used",
};
static const struct param feature_map_stride = {
    .name = "feature_map_stride",
    .type = &value_int,
    .offset = CENTER(stride),
    .least = 1,
    .most = VX_MAX_STRIDE,
    .doc = "voxels per cell of the maps, along x and along y",
};
static const struct param task_classes =
    PARAM_TASK_CLASSES(job.params.center.tasks.classes, job.params.center.tasks.count);
static const struct param rot_order = {
    .name = "rot_order",
    .type = &value_word,
    .offset = CENTER(rot_order),
    .words = rot_words,
    .initial = "cos_sin",
    .doc = "meaning of the two channels of rot: cos_sin in OpenPCDet, sin_cos in mmdetection3d and Autoware",
};
static const struct param cell_labels = {
    .name = "cell_labels",
    .type = &value_word,
    .offset = CENTER(best_class),
    .words = cell_labels_words,
    .initial = "all",
    .doc = "whether a cell gives a box for each class above score_threshold, or for the best class of each task",
};
static const struct param max_objects = PARAM_MAX_OBJECTS(job.params.center.max_objects, "500");
static const struct param post_center_range = {
    .name = "post_center_range",
    .type = &value_floats,
    .offset = CENTER(center_min),
    .least = 6,
    .allowed = "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
    .unit = "metres",
    .doc = "boxes with centres outside of this range are dropped",
};
_Static_assert(CENTER(range_max) == CENTER(range_min) + 3 * sizeof(float) &&
                   CENTER(center_max) == CENTER(center_min) + 3 * sizeof(float),
               "ranges are read as six floats");
static const struct param nms = {
    .name = "nms",
    .type = &value_word,
    .offset = CENTER(nms.circle),
    .words = nms_words,
    .initial = "rotated",
    .doc = "rotated: a better box suppresses a box that it overlaps by more than nms_threshold; circle: a box "
           "with its centre within min_radius",
};
static const struct param min_radius = {
    .name = "min_radius",
    .type = &value_rows,
    .offset = CENTER(radii),
    .second = CENTER(num_radii),
    .least = 1,
    .most = VX_MAX_TASKS,
    .allowed = "a number of 0 or more, or one for each of task_classes",
    .unit = "metres",
    .doc = "with nms=circle: a box suppresses worse boxes with centres at most this far from its own centre",
};
static const struct param iou_power = {
    .name = "iou_power",
    .type = &value_rows,
    .offset = CENTER(iou_powers),
    .second = CENTER(num_iou_powers),
    .least = 1,
    .most = VX_MAX_CLASSES,
    .allowed = POWERS,
    .doc =
        "with the map iou, the score of a box becomes score^score_power * overlap^iou_power; overlap is (iou + 1) / 2, "
        "from 0 to 1",
};
static const struct param score_power = {
    .name = "score_power",
    .type = &value_rows,
    .offset = CENTER(score_powers),
    .second = CENTER(num_score_powers),
    .least = 1,
    .most = VX_MAX_CLASSES,
    .initial = "1",
    .allowed = POWERS,
    .doc = "see iou_power",
};
static const struct param rectified_threshold = {
    .name = "rectified_threshold",
    .type = &value_float,
    .to = 1,
    .offset = CENTER(rectified_threshold),
    .doc = "with the map iou, boxes whose rectified score is not above this are dropped",
};
static const struct param score_threshold = PARAM_SCORE_THRESHOLD(job.params.center.score_threshold, "0.1");
static const struct param nms_threshold = PARAM_NMS_THRESHOLD(job.params.center.nms.iou_threshold, "0.01");
static const struct param nms_pre_max = PARAM_NMS_PRE_MAX(job.params.center.nms.pre_max, "4096", TASK_OR_CLASS);
static const struct param nms_post_max = PARAM_NMS_POST_MAX(job.params.center.nms.post_max, "500", TASK_OR_CLASS);
static const struct param class_agnostic = PARAM_CLASS_AGNOSTIC(job.params.center.nms.class_agnostic, "yes");
static const struct param outputs = PARAM_OUTPUTS(VX_DECODE_TENSORS, "all");

static const struct param *const rows[] = {
    &param_preset,      &param_head,    &point_cloud_range,   &voxel_size,   &feature_map_stride,
    &task_classes,      &rot_order,     &cell_labels,         &max_objects,  &score_threshold,
    &iou_power,         &score_power,   &rectified_threshold, &nms,          &post_center_range,
    &min_radius,        &nms_threshold, &nms_pre_max,         &nms_post_max, &class_agnostic,
    &param_class_names, &outputs,       PARAMS_OF_ANSWER,     NULL};
PARAM_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_DECODE_TENSORS;
}

static bool check_radii(const struct job_request *request, struct error *error) {
  const struct vx_decode_center *params = &request->job.params.center;
  if (params->nms.circle && params->num_radii == 0)
    return error_refuse(error, ERROR_BAD_PARAMETER, "min_radius", "min_radius is missing; nms=circle needs it");
  if (params->num_radii > 1 && params->num_radii != params->tasks.count)
    return error_refuse(error, ERROR_BAD_PARAMETER, "min_radius",
                        "min_radius has %d numbers for %d task_classes; allowed: one, or one for each",
                        (int)params->num_radii, (int)params->tasks.count);
  for (int32_t i = 0; i < params->num_radii; i++)
    if (!(params->radii[i] >= 0))
      return error_refuse(error, ERROR_BAD_PARAMETER, "min_radius", "min_radius has %g; allowed: 0 or more",
                          (double)params->radii[i]);
  return true;
}

static bool check_powers(const char *name, const float *powers, int32_t count, struct error *error) {
  for (int32_t i = 0; i < count; i++)
    if (!(powers[i] >= 0 && powers[i] <= VX_MAX_POWER))
      return error_refuse(error, ERROR_BAD_PARAMETER, name, "%s has %g; allowed: 0 to %d", name, (double)powers[i],
                          VX_MAX_POWER);
  return true;
}

static bool finish(struct job_request *request, struct error *error) {
  static const char *const needed[] = {"point_cloud_range", "voxel_size", "feature_map_stride", NULL};
  struct vx_decode_center *params = &request->job.params.center;
  params->limited = job_request_is_given(request, "post_center_range");
  if (!job_request_is_given(request, "rectified_threshold")) params->rectified_threshold = -1;
  if (!boxes_check_given(request, needed, error) ||
      !boxes_check_range("point_cloud_range", params->range_min, params->range_max, error) ||
      (params->limited && !boxes_check_range("post_center_range", params->center_min, params->center_max, error)))
    return false;
  for (int a = 0; a < 3; a++)
    if (!(params->voxel_size[a] > 0))
      return error_refuse(error, ERROR_BAD_PARAMETER, "voxel_size", "voxel_size along %c is %g; allowed: above 0",
                          "xyz"[a], (double)params -> voxel_size[a]);
  return boxes_check_tasks(&params->tasks, error) && check_radii(request, error) &&
         check_powers("iou_power", params->iou_powers, params->num_iou_powers, error) &&
         check_powers("score_power", params->score_powers, params->num_score_powers, error);
}

static bool check_power_count(const char *name, int64_t count, int64_t classes, struct error *error) {
  return count <= 1 || count == classes ||
         error_refuse(error, ERROR_BAD_BODY, name,
                      "%s has %lld numbers for %lld classes; allowed: one, or one for each", name, (long long)count,
                      (long long)classes);
}

static bool check_iou(const struct job_request *request, int64_t classes, struct error *error) {
  const struct vx_decode_center *params = &request->job.params.center;
  bool has_map = request->job.inputs[VX_IOU].rank != 0, has_power = params->num_iou_powers > 0;
  if (has_map && !has_power)
    return error_refuse(error, ERROR_BAD_PARAMETER, "iou_power", "iou_power is missing; the input iou needs it");
  if (has_power && !has_map)
    return error_refuse(error, ERROR_BAD_BODY, "iou_power", "the input iou is missing; iou_power needs it");
  return check_power_count("iou_power", params->num_iou_powers, classes, error) &&
         check_power_count("score_power", params->num_score_powers, classes, error);
}

static bool count(struct job_request *request, struct error *error) {
  int64_t channels = request->job.inputs[VX_HEATMAP].dims[3], classes = vx_sizes_of(&request->job).logits;
  if (!boxes_check_maps(request, error)) return false;
  if (channels < 1 || channels > VX_MAX_CLASSES)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the input heatmap has %lld channels; allowed: 1 to %d",
                        (long long)channels, VX_MAX_CLASSES);
  if (channels != classes)
    return error_refuse(error, ERROR_BAD_BODY, "task_classes",
                        "the input heatmap has %lld channels; task_classes add up to %lld", (long long)channels,
                        (long long)classes);
  return check_iou(request, classes, error) && boxes_count(request, classes, error);
}

const struct operation operation_decode_center = {
    .head = "center",
    .body = FORMAT_SAFETENSORS,
    .rows = rows,
    .results = decoded_results,
    .tensors = tensors,
    .finish = finish,
    .count = count,
};

// The parameters of POST /v1/detect; kernels/detect.h says what it computes. The model gives all other parameters.
#include "api/ops/ops.h"

#include "api/base/json_write.h"
#include "api/ops/boxes.h"
#include "api/ops/deskew.h"
#include "api/ops/model_params.h"
#include "api/ops/stream.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

// These parameters of /v1/decode override the model's values.
static const struct param score_threshold = PARAM_SCORE_THRESHOLD(job.params.detect.score_threshold, NULL);
static const struct param max_objects = PARAM_MAX_OBJECTS(job.params.detect.max_objects, NULL);
static const struct param nms_threshold = PARAM_NMS_THRESHOLD(job.params.detect.nms.iou_threshold, NULL);
static const struct param nms_pre_max = PARAM_NMS_PRE_MAX(job.params.detect.nms.pre_max, NULL, TASK_OR_CLASS);
static const struct param nms_post_max = PARAM_NMS_POST_MAX(job.params.detect.nms.post_max, NULL, TASK_OR_CLASS);
static const struct param class_agnostic = PARAM_CLASS_AGNOSTIC(job.params.detect.nms.class_agnostic, NULL);
static const struct param outputs = PARAM_OUTPUTS(VX_DETECT_TENSORS | VX_TRACK_TENSORS | VX_CHAIN_TENSORS,
                                                  "boxes, scores, labels, box_counts and, with track=yes, track_ids");
static const struct param track = {
    .name = "track",
    .type = &value_word,
    .offset = FIELD(job.params.detect.track),
    .words = no_yes_words,
    .initial = "no",
    .doc = "yes gives each box the id of its track; needs a stream",
};
static const struct param track_max_distance =
    PARAM_TRACK_MAX_DISTANCE(job.params.detect.tracks.max_distance, job.params.detect.tracks.num_distances);
static const struct param track_max_age = PARAM_TRACK_MAX_AGE(job.params.detect.tracks.max_age);

static const struct param *const rows[] = {&param_model,
                                           PARAMS_OF_POINTS,
                                           &param_steps,
                                           &param_model_voxels_by,
                                           &param_model_points_by,
                                           &param_model_seed,
                                           &param_model_precision,
                                           &score_threshold,
                                           &max_objects,
                                           &nms_threshold,
                                           &nms_pre_max,
                                           &nms_post_max,
                                           &class_agnostic,
                                           &track,
                                           &track_max_distance,
                                           &track_max_age,
                                           &outputs,
                                           PARAMS_OF_ANSWER,
                                           NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_DECODED_BOXES,
     "x, y, z, dx, dy, dz, heading, and the velocity along x and y if the model has it; best first within each cloud, "
     "or within each of its tasks",
     NULL},
    {VX_DECODED_SCORES, "score of each box, from 0 to 1", NULL},
    {VX_DECODED_LABELS, "class of each box, from 0; class_names of the metadata has the names", NULL},
    {VX_BOX_COUNTS, "boxes of each cloud", NULL},
    {VX_TRACK_IDS, "the id of each box's track, from 1", "if track is yes"},
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
    {VX_SPARSE_COORDS, "batch, z, y, x of each occupied cell of the backbone's last level; of a model with a backbone",
     WHEN_NAMED},
    {VX_SPARSE_FEATURES, "the backbone's features of each of these cells; of a model with a backbone", WHEN_NAMED},
    {VX_BEV_FEATURES, "the network's input: the features of pillars, or of the backbone, as a map", WHEN_NAMED},
    CHAIN_RESULTS,
    {.doc = NULL},
};

static vx_tensor_set tensors(const struct job_request *request) {
  vx_tensor_set boxes = VX_DECODE_TENSORS & ~VX_TENSOR_BIT(VX_BOX_INDICES);
  return request->job.params.detect.track ? boxes | VX_TRACK_TENSORS : boxes;
}

// ---- tracks ---------------------------------------------------------------------------------------------------------

static bool check_track_outputs(const struct job_request *request, struct error *error) {
  const vx_tensor_set needed = VX_TRACKED_TENSORS | VX_TRACK_TENSORS;
  bool named = (request->job.tensors & VX_TRACK_TENSORS) != 0;
  if (!request->job.params.detect.track)
    return !named ||
           error_refuse(error, ERROR_BAD_PARAMETER, "outputs", "outputs names track_ids, which needs track=yes");
  return (request->job.tensors & needed) == needed ||
         error_refuse(error, ERROR_BAD_PARAMETER, "outputs",
                      "outputs does not name all of boxes, scores, labels and track_ids, which track=yes needs");
}

static bool check_tracks(const struct job_request *request, struct error *error) {
  const struct vx_detect *detect = &request->job.params.detect;
  if (detect->track && !request->stream.name[0])
    return error_refuse(error, ERROR_BAD_PARAMETER, "track",
                        "track is yes, but no stream is given; tracks belong to a stream");
  return check_track_outputs(request, error) &&
         track_terms_check(&detect->tracks, detect->detector->class_names, error);
}

static bool finish(struct job_request *request, struct error *error) {
  return model_params_finish(request, error) && check_tracks(request, error);
}

// ---- metadata -------------------------------------------------------------------------------------------------------

static void write_detection(const struct vx_job *job, struct text *out) {
  const struct vx_detector *detector = job->params.detect.detector;
  const struct vx_operation *head = &vx_operations[detector->head];
  long long kept = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) kept += job->row_counts[cloud];
  model_params_write(job, out);
  json_printf(out, "class_names:");
  value_write_names(detector->class_names, out);
  json_printf(out, "%s:{received:%ld kept:%lld", vx_item_names[head->items], detector->items * job->num_clouds, kept);
  fates_write(head->fates & ~VX_FATE_BIT(VX_FATE_KEPT), &job->counts, out);
  json_printf(out, "}");
  const struct vx_track_counts *tracked = &job->tracked;
  if (job->params.detect.track)
    json_printf(out, "tracks:{begun:%i matched:%d new:%d missed:%d ended:%d}", tracked->begun, tracked->matched,
                tracked->started, tracked->missed, tracked->ended);
}

const struct operation operation_detect = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = model_params_split,
    .write = write_detection,
};

// Fuzzes the query of every operation. Any query gives either a request whose values are within their bounds, or a
// problem with a reason. One thread.
//
// The input is a query string without percent-encoding: name=value&name=value.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/ops/boxes.h"
#include "api/ops/deskew.h"
#include "api/ops/ops.h"
#include "api/ops/stream.h"
#include "api/presets.h"
#include "api/query.h"
#include "tests/fuzz/split_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_grid(const struct job_request *request) {
  const struct vx_voxelize *job = &request->job.params.voxelize;
  for (int a = 0; a < 3; a++) {
    assert(isfinite(job->voxel_size[a]) && job->voxel_size[a] > 0);
    assert(isfinite(job->range_min[a]) && isfinite(job->range_max[a]) && job->range_min[a] < job->range_max[a]);
  }
  struct vx_grid grid;
  struct error error;
  assert(vx_grid_of(job, request->num_clouds ? request->num_clouds : 1, &grid, &error) == VX_OK);
  for (int a = 0; a < 3; a++) assert(grid.cells[a] > 0);
}

static void check_sampling(const struct job_request *request) {
  const struct vx_sampling *sampling = vx_sampling_of(&request->job);
  assert((sampling != NULL) == (request->num_sample_counts > 0));
  if (request->job.op == VX_FPS) assert(sampling);
  if (!sampling) {
    assert(!(request->job.tensors & VX_SAMPLED_TENSORS));
    return;
  }
  assert(request->num_sample_counts <= VX_MAX_CLOUDS && sampling->start >= 0);
  assert(sampling->stacked == (request->num_sample_counts > 1));
  for (int32_t i = 0; i < request->num_sample_counts; i++) assert(request->sample_counts[i] >= 0);
}

static void check_voxelize(const struct job_request *request) {
  const struct vx_voxelize *params = &request->job.params.voxelize;
  assert(params->max_points_per_voxel >= 0 && params->max_points_per_voxel <= VX_MAX_POINTS_PER_VOXEL);
  assert(params->max_voxels >= 1 && params->max_voxels <= VX_MAX_VOXELS);
  check_grid(request);
}

static void check_box(const struct vx_box *box) {
  for (int a = 0; a < 3; a++) assert(isfinite(box->min[a]) && isfinite(box->max[a]) && box->min[a] < box->max[a]);
}

static void check_transform(const struct request_step *step) {
  const struct vx_transform *params = &step->step.params.transform;
  assert(params->num_matrices >= 0 && params->num_matrices <= STEP_MATRICES);
  for (int32_t i = 0; i < params->num_matrices; i++)
    for (int k = 0; k < VX_MATRIX_VALUES; k++) assert(isfinite(step_numbers(step, 0)[i * VX_MATRIX_VALUES + k]));
  if (params->cropped) check_box(&params->crop);
  assert(params->num_cuts >= 0 && params->num_cuts <= VX_MAX_CUTS);
  for (int32_t i = 0; i < params->num_cuts; i++)
    check_box((const struct vx_box *)(const void *)step_numbers(step, 1) + i);
  assert(!params->ranged || (params->least >= 0 && params->least < params->most && isfinite(params->most)));
}

static void check_downsample(const struct vx_downsample *params) {
  for (int a = 0; a < 3; a++) assert(params->every != 0 || (isfinite(params->size[a]) && params->size[a] > 0));
  for (int a = 0; a < 3; a++) assert(isfinite(params->origin[a]));
  assert(params->every >= 0 && params->min_points >= 1 && params->seed >= 0);
}

static void check_outliers(const struct request_step *step) {
  const struct vx_ring_outlier *ring = &step->step.params.ring_outlier;
  const struct vx_radius_outlier *radius = &step->step.params.radius_outlier;
  const struct vx_statistical_outlier *statistical = &step->step.params.statistical_outlier;
  if (step->step.type == VX_STEP_RING_OUTLIER) {
    assert(step->column[0] && memchr(step->column, 0, STEP_COLUMN_SIZE));
    assert(isfinite(ring->ratio) && ring->ratio > 0 && isfinite(ring->length) && ring->length > 0);
    assert(isfinite(ring->tangent) && ring->tangent >= 0 && ring->most >= 1);
  } else if (step->step.type == VX_STEP_RADIUS_OUTLIER) {
    assert(radius->radius >= VX_LEAST_RADIUS && radius->radius <= VX_MOST_RADIUS);
    assert(radius->min_neighbors >= 1 && radius->min_neighbors <= VX_MAX_NEIGHBORS);
  } else if (step->step.type == VX_STEP_STATISTICAL_OUTLIER) {
    assert(statistical->mean_k >= 1 && statistical->mean_k <= VX_MAX_MEAN_K);
    assert(isfinite(statistical->std_mul) && statistical->std_mul >= 0);
  }
}

static void check_chain(const struct request_chain *chain) {
  assert(chain->count >= 0 && chain->count <= VX_MAX_STEPS);
  for (int32_t i = 0; i < chain->count; i++) {
    const struct request_step *step = &chain->steps[i];
    for (int list = 0; list < STEP_LISTS; list++) assert(step->lists[list].count >= 0);
    assert(step->tag[0] && memchr(step->tag, 0, STEP_TAG_SIZE));
    for (int32_t k = 0; k < i; k++) assert(strcmp(step->tag, chain->steps[k].tag) != 0);
    if (step->step.type == VX_STEP_TRANSFORM) check_transform(step);
    if (step->step.type == VX_STEP_DOWNSAMPLE) check_downsample(&step->step.params.downsample);
    check_outliers(step);
  }
}

static void check_deskew(const struct job_request *request) {
  static struct vx_motion motion;
  struct error error = {.kind = ERROR_NONE};
  float origin[3] = {0, 0, 0};
  assert(memchr(request->time.field, 0, TIME_FIELD_SIZE) && request->time.unit < TIME_UNITS);
  assert(request->deskew.mode == DESKEW_OFF || request->time.field[0]);
  if (request->deskew.mode != DESKEW_POSES && request->deskew.mode != DESKEW_TWISTS) return;
  assert(request->deskew.poses.rows <= MOTION_POSES_MAX || request->deskew.mode != DESKEW_POSES);
  assert(deskew_motion(request, &pose_identity, &motion, &error) || error.kind == ERROR_IMPOSSIBLE);
  if (error.kind == ERROR_IMPOSSIBLE) return;  // without the request's mount, a motion may not fit in float32
  assert(motion.count >= 1 && motion.count <= VX_MAX_SEGMENTS && motion.first <= 0 && motion.last >= 0);
  for (int32_t i = 1; i < motion.count; i++) assert(motion.segments[i].start >= motion.segments[i - 1].start);
  vx_deskew(&motion.segments[vx_segment_at(motion.segments, motion.count, 0, 0)], 0, origin);
  for (int k = 0; k < 3; k++) assert(!isnan(origin[k]));
}

static void check_scatter(const struct job_request *request) {
  const int32_t *cells = request->job.params.scatter.grid_size;
  for (int a = 0; a < 3; a++) assert(cells[a] > 0);
  assert(request->num_clouds > 0);
}

static void check_image(const struct job_request *request) {
  const struct vx_range_image *params = &request->job.params.image;
  assert(params->height >= 1 && params->height <= VX_MAX_IMAGE_HEIGHT);
  assert(params->width >= 1 && params->width <= VX_MAX_IMAGE_WIDTH);
  assert(params->rows != VX_ROWS_ELEVATION || vx_view_of(params).span > 0);
  assert(params->rows == VX_ROWS_ELEVATION || request->image.ring);
  assert(params->num_channels >= 1 && params->num_channels <= VX_MAX_IMAGE_CHANNELS && isfinite(params->empty));
  assert(params->num_means == params->num_stds &&
         (params->num_means == 0 || params->num_means == params->num_channels));
  for (int32_t i = 0; i < params->num_means; i++) assert(isfinite(params->means[i]) && params->stds[i] > 0);
}

static void check_nms(const struct vx_nms *nms) {
  assert(nms->iou_threshold >= 0 && nms->iou_threshold <= 1 && nms->radius == 0);
  assert(nms->pre_max >= 1 && nms->pre_max <= VX_MAX_RANKED && nms->post_max >= 1 && nms->post_max <= VX_MAX_RANKED);
}

static void check_ranges(const float min[3], const float max[3]) {
  for (int a = 0; a < 3; a++) assert(isfinite(min[a]) && isfinite(max[a]) && min[a] < max[a]);
}

static void check_tasks(const struct vx_head_tasks *tasks) {
  int64_t classes = 0;
  assert(tasks->count >= 0 && tasks->count <= VX_MAX_TASKS);
  for (int32_t i = 0; i < tasks->count; i++) {
    assert(tasks->classes[i] >= 1);
    classes += tasks->classes[i];
  }
  assert(classes <= VX_MAX_CLASSES);
}

static void check_anchor_head(const struct vx_decode *head) {
  int64_t sizes = 0;
  check_tasks(&head->tasks);
  assert(head->num_task_sizes == head->tasks.count);
  for (int32_t i = 0; i < head->num_task_sizes; i++) {
    assert(head->task_sizes[i] >= 1);
    sizes += head->task_sizes[i];
  }
  assert(head->num_task_sizes == 0 || sizes == head->num_sizes);
  assert(head->num_sizes >= 1 && head->num_sizes <= VX_MAX_ANCHOR_SIZES);
  assert(head->num_rotations >= 1 && head->num_rotations <= VX_MAX_ANCHOR_ROTATIONS);
  for (int i = 0; i < 3 * head->num_sizes; i++) assert(head->sizes[i / 3][i % 3] > 0);
  assert(head->dir_bins >= 1 && head->dir_bins <= VX_MAX_DIR_BINS);
  assert(head->velocity == 0 || head->velocity == 1);
  assert(head->score_threshold >= 0 && head->score_threshold <= 1);
  check_ranges(head->range_min, head->range_max);
  check_nms(&head->nms);
}

static void check_powers(const float *powers, int32_t count) {
  assert(count >= 0 && count <= VX_MAX_CLASSES);
  for (int32_t i = 0; i < count; i++) assert(powers[i] >= 0 && powers[i] <= VX_MAX_POWER);
}

static void check_center_head(const struct vx_decode_center *head) {
  check_tasks(&head->tasks);
  assert(head->num_radii <= VX_MAX_TASKS);
  assert(head->num_radii <= 1 || head->num_radii == head->tasks.count);
  for (int32_t i = 0; i < head->num_radii; i++) assert(isfinite(head->radii[i]) && head->radii[i] >= 0);
  assert(!head->nms.circle || head->num_radii > 0);
  assert(head->stride >= 1 && head->stride <= VX_MAX_STRIDE);
  assert(head->max_objects >= 1 && head->max_objects <= VX_MAX_RANKED);
  assert(head->score_threshold >= 0 && head->score_threshold <= 1);
  check_ranges(head->range_min, head->range_max);
  check_powers(head->iou_powers, head->num_iou_powers);
  check_powers(head->score_powers, head->num_score_powers);
  assert(head->rectified_threshold == -1 || (head->rectified_threshold >= 0 && head->rectified_threshold <= 1));
  if (head->limited) check_ranges(head->center_min, head->center_max);
  check_nms(&head->nms);
}

// An accepted pose is a rigid motion: from the pose to itself, pose_motion gives the identity. The newest sweep is
// first.
static void check_stream(const struct job_request *request) {
  const struct stream_terms *stream = &request->stream;
  assert(stream->sweeps >= 1 && stream->sweeps <= STREAM_SWEEPS_MAX && stream_sweeps(request) <= stream->sweeps);
  assert(stream->num_joined >= 0 && stream->num_joined <= STREAMS_JOINED_MAX && request->num_clouds == 0);
  assert(stream->remove_close >= 0 && isfinite(stream->remove_close));
  // Without point_counts, the body is one sweep. Here it has no points.
  int32_t none = 0;
  struct job_request split = *request;
  split.point_counts = request->point_counts ? request->point_counts : &none;
  for (int32_t number = 0; number < stream_sweeps(request); number++) {
    struct body_sweep sweep = stream_sweep(&split, number);
    float same[16];
    assert(isfinite(sweep.time) && sweep.points >= 0);
    assert(number == 0 || sweep.time < stream_sweep(&split, number - 1).time);
    pose_motion(&sweep.pose, &sweep.pose, same);
    for (int i = 0; i < 16; i++) assert(fabsf(same[i] - (i % 5 == 0)) <= 2e-4f);
  }
}

// There is no model, so all requests for detections are refused. Nevertheless their parameters of tracks are within
// their bounds.
static void check_tracks(const struct vx_track_terms *terms) {
  struct error error = {.kind = ERROR_NONE};
  assert(terms->num_distances >= 0 && terms->num_distances <= VX_MAX_CLASSES);
  assert(terms->max_age >= 0 && terms->max_age <= VX_MAX_TRACK_AGE);
  if (!track_terms_check(terms, "car,van,bus", &error)) {
    assert(error.kind == ERROR_BAD_PARAMETER);
    return;
  }
  assert(terms->num_distances == 1 || terms->num_distances == 3);
  for (int32_t i = 0; i < terms->num_distances; i++) assert(isfinite(terms->max_distance[i]));
}

static void check_serialize(const struct vx_serialize *params) {
  struct error error;
  assert(vx_check_serialize(params, &error) == VX_OK);
}

static void check_request(const struct job_request *request) {
  bool points = vx_operations[request->job.op].items == VX_POINT_ITEMS;
  assert(!points || (request->num_features >= VX_MIN_FEATURES && request->num_features <= VX_MAX_FEATURES));
  assert(request->num_clouds >= 0 && request->num_clouds <= VX_MAX_CLOUDS);
  assert(request->timeout_ms >= 0);
  assert(request->num_fields == 0 || request->num_fields == request->num_features);
  assert(request->format == FORMAT_RAW || request->dtype == VX_FLOAT32);
  vx_tensor_set tensors = request->job.tensors;
  assert(tensors && !(tensors & ~vx_operations[request->job.op].tensors));
  check_sampling(request);
  if (request->stream.name[0]) check_stream(request);
  if (request->job.op == VX_VOXELIZE) check_voxelize(request);
  check_chain(&request->chain);
  check_deskew(request);
  if (request->job.op == VX_SCATTER) check_scatter(request);
  if (request->job.op == VX_SERIALIZE) check_serialize(&request->job.params.serialize);
  if (request->job.op == VX_RANGE_IMAGE_OP) check_image(request);
  if (request->job.op == VX_NMS) check_nms(&request->job.params.nms);
  if (request->job.op == VX_DECODE) check_anchor_head(&request->job.params.decode);
  if (request->job.op == VX_DECODE_CENTER) check_center_head(&request->job.params.center);
}

static void check_columns(const struct job_request *request) {
  const struct vx_range_image *params = &request->job.params.image;
  for (int32_t i = 0; i < params->num_channels; i++)
    assert(params->channels[i] >= VX_DISTANCE_CHANNEL && params->channels[i] < job_request_columns(request));
  assert(params->ring >= VX_KITTI_RINGS && params->ring < job_request_columns(request));
}

static void check_split(const struct job_request *request, int64_t rows) {
  if (request->job.op == VX_RANGE_IMAGE_OP) check_columns(request);
  if (vx_operations[request->job.op].rows_carry_cloud_index) return;  // the rows of the clouds may be mixed
  for (int32_t i = 0; i < request->num_clouds; i++) {
    rows -= request->point_counts[i];
    if (request->job.op == VX_FPS) assert(request->sample_counts[i] <= request->point_counts[i]);
  }
  assert(rows == 0 && request->num_clouds > 0);
}

// Measures the parameters' JSON, then writes it into memory of exactly this size.
static void check_rendering(const struct job_request *request) {
  struct text measure = text_over(NULL, 0);
  job_request_write(request, &measure);
  char *json = malloc(measure.length + 1);
  assert(json);
  struct text out = text_over(json, measure.length + 1);
  job_request_write(request, &out);
  assert(text_complete(&out) && out.length == measure.length && json[0] == '{' && json[out.length - 1] == '}');
  free(json);
}

static void check_problem(const struct error *error) {
  char memory[8192];
  struct text out = text_over(memory, sizeof memory);
  assert(error->kind > ERROR_NONE && error->kind < ERROR_COUNT && error->text[0]);
  problem_render(error, PROBLEM_STYLE_HTTP, "", &out);
  assert(text_complete(&out));
}

static void check_query(enum vx_op op, const struct query *query, const struct presets *presets, int64_t rows) {
  static struct job_request request;
  struct error error = {.kind = ERROR_NONE};
  if (!job_request_from_query(&request, op, query, &(const struct named){presets, NULL}, &error)) {
    check_problem(&error);
    if (request.job.op == VX_DETECT) check_tracks(&request.job.params.detect.tracks);
    return;
  }
  check_request(&request);
  check_rendering(&request);
  request.max_sampling_work = 1000;
  bool joined = request.stream.name[0];
  if (job_request_split(&request, rows, &error) && (!joined || job_request_join(&request, rows, &error)))
    check_split(&request, rows);
  else
    check_problem(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct presets *presets;
  static struct query query;
  struct error error;
  if (!presets) presets = presets_load("", &error);
  assert(presets);

  query_split((const char *)data, (const char *)data + size, &query);
  for (enum vx_op op = 0; op < VX_OPS; op++) check_query(op, &query, presets, (int64_t)size);
  query_free(&query);
  return 0;
}

// The parameter table, and requests made by it; see params.h.
#include "api/params/params.h"

#include <stdio.h>
#include <string.h>

#include "api/params/values.h"

static const char *const dtype_words[] = {"float32", "float16", NULL};  // VX_FLOAT32, VX_FLOAT16
static const char *const order_words[] = {"first", "key", NULL};        // enum vx_order
static const char *const fill_words[] = {"zero", "mean", NULL};         // enum vx_fill

#define FIELD(member) offsetof(struct job_request, member)
#define VOXELIZE JOB_KIND_BIT(JOB_VOXELIZE)
#define FPS JOB_KIND_BIT(JOB_FPS)
static const struct param params[] = {
    {"preset", VOXELIZE, TYPE_PRESET, FIELD(preset), 0, 0, NULL, NULL, "a name of GET /v1/presets",
     "a named parameter set; the query overrides it"},
    {"num_features", VOXELIZE | FPS, TYPE_INT, FIELD(job.num_features), VX_MIN_FEATURES, VX_MAX_FEATURES, NULL, "4",
     NULL, "columns of a row (C): x, y, z first"},
    {"dtype", VOXELIZE | FPS, TYPE_WORD, FIELD(job.input_dtype), 0, 0, dtype_words, "float32", NULL,
     "type of the body's values"},
    {"point_counts", VOXELIZE | FPS, TYPE_COUNTS, FIELD(point_counts), 0, 0, NULL, NULL,
     "1 to 1024 whole numbers that add up to the rows of the body", "splits the body into a batch of clouds"},
    {"point_cloud_range", VOXELIZE, TYPE_FLOATS, FIELD(job.range_min), 6, 6, NULL, NULL,
     "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
     "metres; a point is inside where its cell is"},
    {"voxel_size", VOXELIZE, TYPE_FLOATS, FIELD(job.voxel_size), 3, 3, NULL, NULL, "x,y,z, finite, each above 0",
     "metres"},
    {"max_points_per_voxel", VOXELIZE, TYPE_INT, FIELD(job.max_points_per_voxel), 0, VX_MAX_POINTS_PER_VOXEL, NULL,
     "32", NULL, "P: a voxel keeps its first P points; 0 = no cap (dynamic voxelization)"},
    {"max_voxels", VOXELIZE, TYPE_INT, FIELD(job.max_voxels), 1, VX_MAX_VOXELS, NULL, "40000", NULL,
     "per cloud: the first that appear are kept"},
    {"feature", VOXELIZE, TYPE_FEATURES, FIELD(features), 0, 0, NULL, "mean", "a list of points, mean, pillar",
     "which tensors are computed"},
    {"feature_dtype", VOXELIZE, TYPE_WORD, FIELD(job.feature_dtype), 0, 0, dtype_words, "float32", NULL,
     "type of voxel_features and pillar_features"},
    {"order", VOXELIZE, TYPE_WORD, FIELD(job.order), 0, 0, order_words, "first", NULL,
     "voxels by first appearance (spconv), or by ascending batch, x, y, z (torch.unique of dynamic VFEs)"},
    {"fill", VOXELIZE, TYPE_WORD, FIELD(job.fill), 0, 0, fill_words, "zero", NULL,
     "what pads voxels: zeros or the voxel's mean (spconv full_mean)"},
    {"block_filter", VOXELIZE, TYPE_BLOCK_FILTER, FIELD(job.block_filter), 0, 0, NULL, "off",
     "off, or block_factor,block_size,height_threshold,height_high_threshold (factor 1 or more, size 1 to 32)",
     "keep a voxel only where the heights around it span more and less than the thresholds (spconv)"},
    {"num_samples", FPS, TYPE_SAMPLES, FIELD(sample_counts), 0, 0, NULL, NULL,
     "whole numbers from 0 to 2147483647: one, or one a cloud",
     "points to choose of each cloud (M): with one number the tensors are [B, M], with several they follow on each "
     "other"},
    {"fps", VOXELIZE, TYPE_SAMPLES, FIELD(sample_counts), 0, 0, NULL, "off",
     "off, or whole numbers from 0 to 2147483647: one, or one a cloud",
     "chooses so many voxels of each cloud by the farthest point rule, between their means"},
    {"start", VOXELIZE | FPS, TYPE_INT, FIELD(job.sampling.start), 0, VX_MAX_POINTS, NULL, "0", NULL,
     "what each cloud's sampling starts from: the first finite point (with fps, voxel) from this one on"},
    {"outputs", VOXELIZE, TYPE_TENSORS, FIELD(outputs), 0, VX_VOXEL_TENSORS | VX_SAMPLED_TENSORS, NULL, NULL, NULL,
     "which tensors to return; without it voxel_coords, voxel_num_points and those that feature computes; with fps "
     "also sampled_indices and sampled_points"},
    {"outputs", FPS, TYPE_TENSORS, FIELD(outputs), 0, VX_SAMPLED_TENSORS, NULL, NULL, NULL,
     "which tensors to return; without it sampled_indices and sampled_points"},
    {"timeout_ms", VOXELIZE | FPS, TYPE_INT, FIELD(timeout_ms), 0, 3600000, NULL, "0", NULL,
     "the job is answered 504 if it has not begun by then, or if it still samples; 0 = the server's own limit"},
};
#undef VOXELIZE
#undef FPS
_Static_assert(FIELD(job.range_max) == FIELD(job.range_min) + 3 * sizeof(float),
               "point_cloud_range is read as six floats");
enum { PARAM_COUNT = sizeof params / sizeof *params };
_Static_assert(PARAM_COUNT <= 32, "struct job_request.given has a bit a row");

// ---- the request ------------------------------------------------------------------------------------------------------

static bool takes(const struct job_request *request, const struct param *param) {
  return param->kinds & JOB_KIND_BIT(request->kind);
}

static const struct param *find_param(const struct job_request *request, const char *name, size_t length) {
  for (size_t i = 0; i < PARAM_COUNT; i++)
    if (takes(request, &params[i]) && strlen(params[i].name) == length && memcmp(params[i].name, name, length) == 0)
      return &params[i];
  return NULL;
}

static uint32_t bit_of(const struct param *param) { return 1u << (param - params); }

static bool is_given(const struct job_request *request, const char *name) {
  return request->given & bit_of(find_param(request, name, strlen(name)));
}

void job_request_init(struct job_request *request, enum job_kind kind) {
  memset(request, 0, sizeof *request);
  request->kind = kind;
  request->job.sampling.max_work = INT64_MAX;
  for (size_t i = 0; i < PARAM_COUNT; i++)
    if (params[i].initial && takes(request, &params[i]))
      (void)!param_read(&params[i], params[i].initial, strlen(params[i].initial), request);
}

bool job_request_set(struct job_request *request, const char *name, size_t name_length, const char *value,
                     size_t value_length, struct problem *problem) {
  const struct param *param = find_param(request, name, name_length);
  if (!param) {
    char unknown[64];
    snprintf(unknown, sizeof unknown, "%.*s", (int)(name_length < sizeof unknown ? name_length : sizeof unknown - 1),
             name);
    return problem_set(problem, PROBLEM_BAD_PARAMETER, unknown, "there is no parameter '%s' here; see /openapi.yaml",
                       unknown);
  }
  if (!value) return problem_set(problem, PROBLEM_BAD_PARAMETER, param->name, "%s has no value", param->name);
  if (!param_read(param, value, value_length, request))
    return job_request_refuse(request, param->name, value, value_length, problem);
  request->given |= bit_of(param);
  return true;
}

bool job_request_refuse(const struct job_request *request, const char *name, const char *value, size_t value_length,
                        struct problem *problem) {
  char allowed[256];
  param_allowed(find_param(request, name, strlen(name)), allowed, sizeof allowed);
  int shown = value_length > 80 ? 80 : (int)value_length;
  return problem_set(problem, PROBLEM_BAD_PARAMETER, name, "%s is '%.*s'%s; allowed: %s", name, shown, value,
                     value_length > 80 ? "..." : "", allowed);
}

void job_request_unset_outputs(struct job_request *request) {
  request->outputs = 0;
  request->given &= ~bit_of(find_param(request, "outputs", 7));
}

// What is returned without `outputs`.
static uint32_t default_tensors(const struct job_request *request) {
  static const enum vx_tensor tensor_of[FEATURE_COUNT] = {VX_VOXELS, VX_VOXEL_FEATURES, VX_PILLAR_FEATURES};
  const uint32_t voxels = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS);
  const uint32_t samples = VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS);
  uint32_t tensors = request->kind == JOB_FPS ? 0 : voxels;
  for (int feature = 0; feature < FEATURE_COUNT; feature++)
    if (request->features & 1u << feature) tensors |= VX_TENSOR_BIT(tensor_of[feature]);
  return request->job.sampling.from == VX_SAMPLE_NONE ? tensors : tensors | samples;
}

static bool check_computed(uint32_t tensors, uint32_t available, struct problem *problem) {
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(tensors & ~available & VX_TENSOR_BIT(tensor))) continue;
    bool sampled = VX_SAMPLED_TENSORS & VX_TENSOR_BIT(tensor);
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "outputs", "outputs names %s, which %s",
                       vx_tensor_name((enum vx_tensor)tensor),
                       sampled ? "is there with fps only" : "feature does not compute");
  }
  return true;
}

static bool check_tensors(struct job_request *request, struct problem *problem) {
  const uint32_t padded =
      VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  uint32_t computed = default_tensors(request);
  uint32_t available = computed | VX_TENSOR_BIT(VX_POINT_VOXEL_IDS) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  if (request->job.sampling.from != VX_SAMPLE_NONE) available |= VX_SAMPLED_TENSORS;
  uint32_t tensors = request->outputs ? request->outputs : computed;
  if (!check_computed(tensors, available, problem)) return false;
  if (request->job.sampling.from != VX_SAMPLE_NONE && !(tensors & VX_SAMPLED_TENSORS))
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "outputs",
                       "outputs names none of the tensors that are sampled; without them leave fps out, or off");
  for (int tensor = 0; request->job.max_points_per_voxel == 0 && tensor < VX_TENSOR_COUNT; tensor++)
    if (tensors & padded & VX_TENSOR_BIT(tensor))
      return problem_set(problem, PROBLEM_IMPOSSIBLE, "max_points_per_voxel",
                         "%s is padded to max_points_per_voxel points, so it needs a cap of 1 or more; "
                         "with 0 (no cap) ask for feature=mean and point_voxel_ids",
                         vx_tensor_name((enum vx_tensor)tensor));
  request->job.tensors = tensors;
  return true;
}

static bool check_grid(struct job_request *request, struct problem *problem) {
  static const char *const needed[] = {"point_cloud_range", "voxel_size"};
  static const char axes[] = "xyz";
  struct vx_params *job = &request->job;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!is_given(request, needed[i]))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, needed[i], "%s is missing: give it, or a preset", needed[i]);
  for (int a = 0; a < 3; a++) {
    if (!(job->voxel_size[a] > 0))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, "voxel_size", "voxel_size along %c is %g; allowed: above 0",
                         axes[a], (double)job->voxel_size[a]);
    if (!(job->range_min[a] < job->range_max[a]))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, "point_cloud_range",
                         "point_cloud_range along %c runs from %g to %g; allowed: min below max", axes[a],
                         (double)job->range_min[a], (double)job->range_max[a]);
  }
  struct vx_grid grid;
  struct vx_error error;
  if (vx_grid_of(job, request->num_clouds ? request->num_clouds : 1, &grid, &error) != VX_OK)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, "voxel_size", "%s", error.text);
  return true;
}

// Whether and what is sampled follows from the kind of the job and whether it says how many.
static bool check_sampling(struct job_request *request, struct problem *problem) {
  struct vx_sampling_params *sampling = &request->job.sampling;
  bool wanted = request->num_sample_counts > 0;
  if (request->kind == JOB_FPS && !wanted)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "num_samples", "num_samples is missing");
  // Where fps is off by name, a preset's start goes with it.
  if (!wanted && is_given(request, "start") && !is_given(request, "fps"))
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "start", "start is given, but fps is not");
  sampling->from = !wanted ? VX_SAMPLE_NONE : request->kind == JOB_FPS ? VX_SAMPLE_POINTS : VX_SAMPLE_VOXELS;
  sampling->stacked = request->num_sample_counts > 1;
  return true;
}

bool job_request_finish(struct job_request *request, struct problem *problem) {
  return (request->kind == JOB_FPS || check_grid(request, problem)) && check_sampling(request, problem) &&
         check_tensors(request, problem);
}

size_t job_request_row_bytes(const struct job_request *request) {
  return (size_t)request->job.num_features * vx_dtype_size(request->job.input_dtype);
}

static bool split_points(struct job_request *request, int64_t rows, struct problem *problem) {
  if (rows > VX_MAX_POINTS)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL, "the body has %lld points; allowed: up to %lld",
                       (long long)rows, (long long)VX_MAX_POINTS);
  if (request->num_clouds == 0) {
    request->num_clouds = 1;
    request->point_counts[0] = (int32_t)rows;
    return true;
  }
  int64_t sum = 0;
  for (int32_t i = 0; i < request->num_clouds; i++) sum += request->point_counts[i];
  if (sum == rows) return true;
  return problem_set(problem, PROBLEM_BAD_BODY, "point_counts",
                     "point_counts add up to %lld points but the body has %lld", (long long)sum, (long long)rows);
}

const char *job_request_samples_name(const struct job_request *request) {
  return request->kind == JOB_FPS ? "num_samples" : "fps";
}

// Without `start` first, so that what fails with it is its fault.
static bool check_samples(const struct job_request *request, struct problem *problem) {
  const struct vx_sampling_params *sampling = &request->job.sampling;
  struct vx_sampling_params from_first = *sampling;
  struct vx_error error;
  from_first.start = 0;
  if (vx_check_samples(&from_first, request->num_clouds, request->point_counts, request->sample_counts, &error) !=
      VX_OK)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, job_request_samples_name(request), "%s", error.text);
  if (vx_check_samples(sampling, request->num_clouds, request->point_counts, request->sample_counts, &error) != VX_OK)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, "start", "%s", error.text);
  return true;
}

// How many samples each cloud has.
static bool split_samples(struct job_request *request, struct problem *problem) {
  const struct vx_sampling_params *sampling = &request->job.sampling;
  const char *name = job_request_samples_name(request);
  if (sampling->stacked && request->num_sample_counts != request->num_clouds)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, name, "%s has %d numbers, one a cloud, and the batch %d", name,
                       (int)request->num_sample_counts, (int)request->num_clouds);
  for (int32_t i = 1; !sampling->stacked && i < request->num_clouds; i++)
    request->sample_counts[i] = request->sample_counts[0];
  // How many voxels there are shows only when they are made.
  return sampling->from == VX_SAMPLE_VOXELS || check_samples(request, problem);
}

bool job_request_split(struct job_request *request, int64_t rows, struct problem *problem) {
  return split_points(request, rows, problem) &&
         (request->job.sampling.from == VX_SAMPLE_NONE || split_samples(request, problem));
}

// ---- writing ----------------------------------------------------------------------------------------------------------

void job_request_write(const struct job_request *request, struct text *out) {
  const char *comma = "";
  text_put(out, "{");
  for (size_t i = 0; i < PARAM_COUNT; i++) {
    bool given = request->given & bit_of(&params[i]);
    if (!takes(request, &params[i])) continue;
    // Without a default there is no value to show; outputs always has one, the tensors in effect.
    if (!given && !params[i].initial && params[i].type != TYPE_TENSORS) continue;
    text_printf(out, "%s\"%s\":", comma, params[i].name);
    param_write(&params[i], request, out);
    comma = ",";
  }
  text_put(out, "}");
}

void params_describe(enum job_kind kind, struct text *out) {
  static const char *const types[] = {[TYPE_INT] = "int",       [TYPE_FLOATS] = "floats", [TYPE_WORD] = "string",
                                      [TYPE_FEATURES] = "list", [TYPE_TENSORS] = "list",  [TYPE_BLOCK_FILTER] = "list",
                                      [TYPE_COUNTS] = "ints",   [TYPE_SAMPLES] = "ints",  [TYPE_PRESET] = "string"};
  _Static_assert(sizeof types / sizeof *types == PARAM_TYPES, "a name a type");
  const char *comma = "[";
  for (size_t i = 0; i < PARAM_COUNT; i++) {
    char allowed[256];
    if (!(params[i].kinds & JOB_KIND_BIT(kind))) continue;
    param_allowed(&params[i], allowed, sizeof allowed);
    text_printf(out, "%s\n    {\"name\":\"%s\",\"type\":\"%s\",\"default\":", comma, params[i].name,
                types[params[i].type]);
    comma = ",";
    if (params[i].initial)
      text_json_string(out, params[i].initial, strlen(params[i].initial));
    else
      text_put(out, "null");
    text_put(out, ",\"allowed\":");
    text_json_string(out, allowed, strlen(allowed));
    text_put(out, ",\"doc\":");
    text_json_string(out, params[i].doc, strlen(params[i].doc));
    text_put(out, "}");
  }
  text_put(out, "\n  ]");
}

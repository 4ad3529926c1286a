// The parameters of POST /v1/voxelize, and its own members of the metadata; kernels/voxelize.h says what they mean.
#include <float.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/deskew.h"
#include "api/ops/sampling.h"
#include "api/ops/stream.h"
#include "kernels/cylinder.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

enum feature { FEATURE_POINTS, FEATURE_MEAN, FEATURE_PILLAR, FEATURE_COUNT };

static const char *const feature_words[] = {"points", "mean", "pillar", NULL};  // enum feature
static const char *const coordinates_words[] = {"xyz", "cylinder", NULL};       // enum vx_coordinates
static const char *const order_words[] = {"first", "key", NULL};                // enum vx_order
static const char *const fill_words[] = {"zero", "mean", NULL};                 // enum vx_fill
const char *const voxels_by_words[] = {"first", "near", "full", NULL};          // enum vx_voxels_by
const char *const points_by_words[] = {"first", "random", NULL};                // enum vx_points_by
_Static_assert(sizeof(enum vx_coordinates) == sizeof(int32_t) && sizeof(enum vx_order) == sizeof(int32_t) &&
                   sizeof(enum vx_fill) == sizeof(int32_t) && sizeof(enum vx_voxels_by) == sizeof(int32_t) &&
                   sizeof(enum vx_points_by) == sizeof(int32_t),
               "an enum is written as an int32_t");

static bool read_block_filter(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_block_filter *out = (struct vx_block_filter *)(void *)((char *)record + param->offset);
  char item[64];
  int64_t factor, size;
  float heights[2];
  *out = (struct vx_block_filter){.enabled = false};
  if (value_is_off(value, end)) return true;
  if (!value_next(&value, end, item, sizeof item) || !value_parse_int(item, 1, INT32_MAX, &factor)) return false;
  if (!value_next(&value, end, item, sizeof item) || !value_parse_int(item, 1, VX_MAX_BLOCK_SIZE, &size)) return false;
  if (!value_take_floats(&value, end, heights, 2) || !value_ended(value, end)) return false;
  *out = (struct vx_block_filter){true, (int32_t)factor, (int32_t)size, heights[0], heights[1]};
  return true;
}

static void write_block_filter(const struct param *param, const void *record, struct text *out) {
  const struct vx_block_filter *filter = (const void *)((const char *)record + param->offset);
  if (!filter->enabled) {
    json_put_string(out, "off");
    return;
  }
  json_printf(out, "[%d %d", filter->factor, filter->size);
  json_put_float(out, filter->low);
  json_put_float(out, filter->high);
  json_printf(out, "]");
}

static const struct value_type value_block_filter = {"floats",           false, read_block_filter,
                                                     write_block_filter, NULL,  NULL};

static const struct param point_cloud_range = {
    .name = "point_cloud_range",
    .type = &value_floats,
    .offset = FIELD(job.params.voxelize.range_min),
    .least = 6,
    .allowed = "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
    .unit = "metres",
    .doc = "a point is in range if its cell index is inside the grid",
};
_Static_assert(FIELD(job.params.voxelize.range_max) == FIELD(job.params.voxelize.range_min) + 3 * sizeof(float),
               "point_cloud_range is read as six floats");
static const struct param voxel_size = {
    .name = "voxel_size",
    .type = &value_floats,
    .offset = FIELD(job.params.voxelize.voxel_size),
    .least = 3,
    .allowed = "x,y,z, finite, each above 0",
    .unit = "metres",
    .doc = "size of a voxel along x, y and z",
};
static const struct param coordinates = {
    .name = "coordinates",
    .type = &value_word,
    .offset = FIELD(job.params.voxelize.coordinates),
    .words = coordinates_words,
    .initial = "xyz",
    .doc = "with cylinder the service computes rows of rho, phi, z, x, y and the other columns; point_cloud_range "
           "bounds rho, phi, z",
};
static const struct param grid_shape = {
    .name = "grid_shape",
    .type = &value_counts,
    .offset = FIELD(job.params.voxelize.grid_shape),
    .second = FIELD(num_grid_shape),
    .most = 3,
    .allowed = "3 whole numbers from 2 to 65536",
    .doc = "with coordinates=cylinder, in place of voxel_size: the cells along rho, phi, z; points outside go to the "
           "outermost cells",
};
static const struct param max_points_per_voxel = {
    .name = "max_points_per_voxel",
    .type = &value_int,
    .offset = FIELD(job.params.voxelize.max_points_per_voxel),
    .least = 0,
    .most = VX_MAX_POINTS_PER_VOXEL,
    .initial = "32",
    .doc = "P: maximum number of points per voxel; 0 = no cap (dynamic voxelization)",
};
static const struct param max_points_by = PARAM_MAX_POINTS_BY(job.params.voxelize.choice.points_by, "first");
static const struct param seed = PARAM_SEED(job.params.voxelize.choice.seed, "0");
static const struct param max_voxels = {
    .name = "max_voxels",
    .type = &value_int,
    .offset = FIELD(job.params.voxelize.max_voxels),
    .least = 1,
    .most = VX_MAX_VOXELS,
    .initial = "40000",
    .doc = "maximum number of voxels per cloud",
};
static const struct param max_voxels_by = PARAM_MAX_VOXELS_BY(job.params.voxelize.choice.voxels_by, "first");
static const struct param feature = {
    .name = "feature",
    .type = &value_words,
    .offset = FIELD(features),
    .words = feature_words,
    .initial = "mean",
    .doc = "which tensors are computed",
    .names_tensors = true,
};
static const struct param feature_dtype = {
    .name = "feature_dtype",
    .type = &value_word,
    .offset = FIELD(job.params.voxelize.feature_dtype),
    .words = vx_float_words,
    .initial = "float32",
    .doc = "type of voxel_features, pillar_features and bev_features",
};
static const struct param order = {
    .name = "order",
    .type = &value_word,
    .offset = FIELD(job.params.voxelize.order),
    .words = order_words,
    .initial = "first",
    .doc = "order of voxels: first appearance (spconv), or ascending batch, x, y, z (torch.unique of dynamic VFEs)",
};
static const struct param fill = {
    .name = "fill",
    .type = &value_word,
    .offset = FIELD(job.params.voxelize.fill),
    .words = fill_words,
    .initial = "zero",
    .doc = "what pads voxels: zeros or the voxel's mean (spconv full_mean)",
};
static const struct param block_filter = {
    .name = "block_filter",
    .type = &value_block_filter,
    .offset = FIELD(job.params.voxelize.block_filter),
    .initial = "off",
    .allowed =
        "off, or block_factor,block_size,height_threshold,height_high_threshold (factor 1 or more, size 1 to 32)",
    .doc = "keeps a voxel only if the heights around it span more than the first threshold and less than the second "
           "(spconv)",
};
static const struct param fps = {
    .name = "fps",
    .type = &value_samples,
    .offset = FIELD(sample_counts),
    .initial = "off",
    .allowed = "off, or whole numbers from 0 to 2147483647: one for all clouds, or one for each",
    .doc = "number of voxels to choose from each cloud by farthest point sampling of their means",
};
static const struct param start = PARAM_START(job.params.voxelize.sampling.start);
static const struct param columns = {
    .name = "columns",
    .type = &value_names,
    .offset = FIELD(expected.columns),
    .second = FIELD(expected.num_columns),
    .least = VX_MIN_FEATURES,
    .most = VX_MAX_FEATURES,
    .allowed = "3 to 64 different names, beginning with x,y,z",
    .doc = "names of the columns that the model expects, such as x,y,z,intensity,time",
};
static const struct param intensity_range = {
    .name = "intensity_range",
    .type = &value_floats,
    .offset = FIELD(expected.intensity_range),
    .least = 2,
    .allowed = "min,max, finite, min below max",
    .doc = "the intensity that the model expects; another range gets a warning",
};
static const struct param ground_z = {
    .name = "ground_z",
    .type = &value_double,
    .offset = FIELD(expected.ground_z),
    .allowed = "a finite number",
    .unit = "metres",
    .doc = "where the model expects the ground; a ground more than 1 m off gets a warning",
};
static const struct param outputs = PARAM_OUTPUTS(
    VX_VOXEL_TENSORS | VX_DENSE_TENSORS | VX_SAMPLED_TENSORS | VX_CHAIN_TENSORS,
    "voxel_coords, voxel_num_points and the tensors that feature computes; with fps also sampled_indices and "
    "sampled_points");

static const struct param *const rows[] = {&param_preset,
                                           PARAMS_OF_POINTS,
                                           &param_steps,
                                           &point_cloud_range,
                                           &voxel_size,
                                           &coordinates,
                                           &grid_shape,
                                           &max_points_per_voxel,
                                           &max_points_by,
                                           &seed,
                                           &max_voxels,
                                           &max_voxels_by,
                                           &feature,
                                           &feature_dtype,
                                           &order,
                                           &fill,
                                           &block_filter,
                                           &fps,
                                           &start,
                                           &columns,
                                           &intensity_range,
                                           &ground_z,
                                           &outputs,
                                           PARAMS_OF_ANSWER,
                                           NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_VOXEL_COORDS, "batch, z, y, x of each voxel, in the order that the parameter order says", NULL},
    {VX_VOXEL_NUM_POINTS, "points that each voxel keeps", NULL},
    {VX_VOXELS, "the points that each voxel keeps, in the body's order, padded as fill says", "with feature=points"},
    {VX_VOXEL_FEATURES, "mean of the points that each voxel keeps", "with feature=mean"},
    {VX_PILLAR_FEATURES,
     "the point, its offset from the voxel's mean x, y, z, its offset from the voxel's centre; zeros in padding",
     "with feature=pillar"},
    {VX_POINT_VOXEL_IDS, "row of each point's voxel; -1 if the point is dropped", WHEN_NAMED},
    {VX_VOXEL_POINT_MASK, "which rows of voxels are points: 1 for a point, 0 for padding", WHEN_NAMED},
    {VX_SAMPLED_INDICES, "row of the sample among its cloud's voxels, in the order chosen", "with fps"},
    {VX_SAMPLED_POINTS, "the sample's mean", "with fps"},
    {VX_SAMPLED_DISTANCES, "distance to the nearest voxel chosen before; infinite for the first of a cloud",
     "with fps, " WHEN_NAMED},
    {VX_BEV_FEATURES, "voxel_features at channel c*nz + z, row y, column x; zeros elsewhere", WHEN_NAMED},
    {VX_OCCUPANCY, "1 if a point in range is in the cell", WHEN_NAMED},
    {VX_OCCUPANCY_COUNTS, "number of points in range in the cell", WHEN_NAMED},
    {VX_OCCUPANCY_PACKED, "occupancy as bits; cell x is bit x % 8, the lowest first, of byte x / 8", WHEN_NAMED},
    {VX_BEV_MAX_HEIGHT, "largest z of the points in range above the cell; 0 if there is no such point", WHEN_NAMED},
    {VX_BEV_MIN_HEIGHT, "smallest z of these points; 0 if there is no such point", WHEN_NAMED},
    {VX_BEV_MAX_INTENSITY, "largest finite intensity of these points; 0 if there is no such point", WHEN_NAMED},
    {VX_BEV_TOP_INTENSITY,
     "intensity of the highest of these points; if several are equally high, of the first; 0 if there is no such point",
     WHEN_NAMED},
    {VX_BEV_DENSITY, "min(1, ln(n + 1) / ln 64) of n points", WHEN_NAMED},
    CHAIN_RESULTS,
    {.doc = NULL},
};

// ---- tensors --------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  static const enum vx_tensor tensor_of[FEATURE_COUNT] = {VX_VOXELS, VX_VOXEL_FEATURES, VX_PILLAR_FEATURES};
  vx_tensor_set tensors = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS);
  for (int i = 0; i < FEATURE_COUNT; i++)
    if (request->features & 1u << i) tensors |= VX_TENSOR_BIT(tensor_of[i]);
  return request->num_sample_counts == 0 ? tensors : tensors | SAMPLED_BY_DEFAULT;
}

static bool check_computed(vx_tensor_set tensors, vx_tensor_set available, struct error *error) {
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(tensors & ~available & VX_TENSOR_BIT(tensor))) continue;
    bool sampled = VX_SAMPLED_TENSORS & VX_TENSOR_BIT(tensor);
    return error_refuse(error, ERROR_BAD_PARAMETER, "outputs", "outputs names %s, which %s", vx_tensors[tensor].name,
                        sampled ? "needs fps" : "feature does not compute");
  }
  return true;
}

static bool check_tensors(const struct job_request *request, struct error *error) {
  const vx_tensor_set padded =
      VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  bool sampled = request->job.params.voxelize.sampling.enabled;
  bool capped = request->job.params.voxelize.max_points_per_voxel > 0;
  bool means = request->features & 1u << FEATURE_MEAN;
  vx_tensor_set scattered = VX_TENSOR_BIT(VX_BEV_FEATURES), wanted = request->job.tensors,
                available = tensors(request) | VX_TENSOR_BIT(VX_POINT_VOXEL_IDS) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK) |
                            (VX_DENSE_TENSORS & ~scattered) | (means ? scattered : 0) |
                            (sampled ? VX_SAMPLED_TENSORS : 0) | VX_CHAIN_TENSORS;
  if (!check_computed(wanted, available, error)) return false;
  if (request->job.params.voxelize.coordinates == VX_CYLINDER && wanted & VX_DENSE_TENSORS)
    return error_refuse(error, ERROR_BAD_PARAMETER, "outputs",
                        "outputs names a dense map, which coordinates=cylinder does not have");
  if (sampled && !(wanted & VX_SAMPLED_TENSORS))
    return error_refuse(error, ERROR_BAD_PARAMETER, "outputs",
                        "fps is given, but outputs names no tensor of the samples; name one, or give fps=off");
  for (int tensor = 0; !capped && tensor < VX_TENSOR_COUNT; tensor++)
    if (wanted & padded & VX_TENSOR_BIT(tensor))
      return error_refuse(error, ERROR_IMPOSSIBLE, "max_points_per_voxel",
                          "%s is padded to max_points_per_voxel points, so it needs a cap of 1 or more; "
                          "with 0 (no cap) ask for feature=mean and point_voxel_ids",
                          vx_tensors[tensor].name);
  return true;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool finish_cylinder(struct job_request *request, struct error *error) {
  struct vx_voxelize *params = &request->job.params.voxelize;
  bool cylinder = params->coordinates == VX_CYLINDER, shaped = job_request_is_given(request, "grid_shape");
  if (!cylinder)
    return !shaped || error_refuse(error, ERROR_BAD_PARAMETER, "grid_shape",
                                   "grid_shape is given without coordinates=cylinder; give voxel_size");
  if (job_request_is_given(request, "voxel_size"))
    return error_refuse(error, ERROR_BAD_PARAMETER, "voxel_size",
                        "voxel_size is given with coordinates=cylinder; give grid_shape");
  bool fits = shaped && request->num_grid_shape == 3;
  for (int a = 0; a < 3 && fits; a++) {
    fits = params->grid_shape[a] >= 2 && params->grid_shape[a] <= 65536;
    params->voxel_size[a] = (params->range_max[a] - params->range_min[a]) / (float)(params->grid_shape[a] - 1);
  }
  if (!fits)
    return error_refuse(error, ERROR_BAD_PARAMETER, "grid_shape",
                        "coordinates=cylinder needs grid_shape; allowed: 3 whole numbers from 2 to 65536");
  if (request->num_sample_counts > 0)
    return error_refuse(error, ERROR_BAD_PARAMETER, "fps", "fps is given with coordinates=cylinder; allowed: off");
  if (job_request_columns(request) + VX_CYLINDER_EXTRA <= VX_MAX_FEATURES) return true;
  return error_refuse(error, ERROR_BAD_PARAMETER, "num_features",
                      "with coordinates=cylinder the rows have %d columns; allowed: up to %d",
                      (int)job_request_columns(request) + VX_CYLINDER_EXTRA, VX_MAX_FEATURES);
}

static bool check_grid(const struct job_request *request, struct error *error) {
  static const char *const needed[] = {"point_cloud_range", "voxel_size"};
  static const char *const cartesian[] = {"x", "y", "z"}, *const cylindrical[] = {"rho", "phi", "z"};
  const struct vx_voxelize *params = &request->job.params.voxelize;
  bool cylinder = params->coordinates == VX_CYLINDER;
  const char *const *axes = cylinder ? cylindrical : cartesian;
  const char *sized_by = cylinder ? "grid_shape" : "voxel_size";
  for (size_t i = 0; i < (cylinder ? 1 : 2); i++)
    if (!job_request_is_given(request, needed[i]))
      return error_refuse(error, ERROR_BAD_PARAMETER, needed[i], "%s is missing; give it, or a preset that has it",
                          needed[i]);
  for (int a = 0; a < 3; a++) {
    if (!(params->range_min[a] < params->range_max[a]))
      return error_refuse(error, ERROR_BAD_PARAMETER, "point_cloud_range",
                          "along %s point_cloud_range runs from %g to %g; allowed: min below max", axes[a],
                          (double)params->range_min[a], (double)params->range_max[a]);
    if (!(params->voxel_size[a] > 0 && params->voxel_size[a] <= FLT_MAX))
      return error_refuse(error, ERROR_BAD_PARAMETER, sized_by, "%s along %s is %g; allowed: finite, above 0",
                          cylinder ? "the size of cells" : "voxel_size", axes[a], (double)params->voxel_size[a]);
  }
  struct vx_grid grid;
  return vx_grid_of(params, request->num_clouds ? request->num_clouds : 1, &grid, error) == VX_OK ||
         error_blame(error, sized_by);
}

static bool finish_expected(struct job_request *request, struct error *error) {
  struct points_expected *expected = &request->expected;
  expected->has_intensity = job_request_is_given(request, "intensity_range");
  expected->has_ground = job_request_is_given(request, "ground_z");
  const float *range = expected->intensity_range;
  if (expected->has_intensity && !(range[0] < range[1]))
    return error_refuse(error, ERROR_BAD_PARAMETER, "intensity_range",
                        "intensity_range runs from %g to %g; allowed: min below max", (double)range[0],
                        (double)range[1]);
  const char *names = expected->columns;
  if (expected->num_columns && (strncmp(names, "x,y,z", 5) != 0 || (names[5] != '\0' && names[5] != ',')))
    return error_refuse(error, ERROR_BAD_PARAMETER, "columns", "columns must begin with x,y,z");
  return true;
}

static bool finish(struct job_request *request, struct error *error) {
  if (!stream_finish(request, error) || !finish_cylinder(request, error) || !check_grid(request, error) ||
      !finish_expected(request, error))
    return false;
  // A query may set fps=off and leave a preset's `start` in place.
  if (request->num_sample_counts == 0 && job_request_is_given(request, "start") &&
      !job_request_is_given(request, "fps"))
    return error_refuse(error, ERROR_BAD_PARAMETER, "start", "start is given without fps");
  sampling_finish(request, &request->job.params.voxelize.sampling);
  return check_tensors(request, error);
}

// The maps of intensity use the column named intensity or, if the columns have no names, the fourth.
static bool find_intensity(struct job_request *request, struct error *error) {
  static const char name[] = "intensity";
  int column = request->num_features > 3 ? 3 : -1;
  if (request->num_fields) column = value_find_name(request->fields, name, sizeof name - 1);
  request->job.params.voxelize.intensity = column < 0 ? 0 : column;
  if (column >= 0 || !(request->job.tensors & VX_INTENSITY_MAPS)) return true;
  return error_refuse(
      error, ERROR_BAD_PARAMETER, "outputs",
      "outputs names a map of intensity, which needs a column named intensity or, without names, a fourth column");
}

// `fps` and `start` cannot be compared with the number of voxels yet.
static bool split(struct job_request *request, struct error *error) {
  if (!find_intensity(request, error)) return false;
  return sampling_split(request, &request->job.params.voxelize.sampling, error);
}

// ---- metadata -------------------------------------------------------------------------------------------------------

static void write_grid(const struct vx_job *job, struct text *out) {
  const struct vx_voxelize *params = &job->params.voxelize;
  struct vx_grid grid = {{0, 0, 0}};
  struct error error;
  (void)!vx_grid_of(params, job->num_clouds, &grid, &error);  // check_grid has checked it
  json_printf(out, "grid_size:[%d %d %d] effective_range:", grid.cells[0], grid.cells[1], grid.cells[2]);
  float range[6];
  for (int a = 0; a < 3; a++) {
    // If the range is not a whole number of voxels, the grid ends elsewhere. FLT_MAX, since JSON has no infinity.
    float end = params->range_min[a] + (float)grid.cells[a] * params->voxel_size[a];
    range[a] = params->range_min[a];
    range[3 + a] = end < FLT_MAX ? end : FLT_MAX;
  }
  value_write_floats(range, 6, out);
}

const struct operation operation_voxelize = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = split,
    .write = write_grid,
    .samples = "fps",
};

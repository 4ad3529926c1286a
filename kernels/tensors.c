// What does not depend on the backend: the table of tensors, the layout of the output block, the grid of a request,
// names. Pure functions over constant tables; any thread may call them.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "kernels/kernels.h"

// How long one dimension of a tensor is.
enum extent {
  EXTENT_NONE,
  EXTENT_POINTS,   // of all clouds
  EXTENT_VOXELS,   // of all clouds
  EXTENT_CAP,      // max_points_per_voxel
  EXTENT_COORDS,   // batch, z, y, x
  EXTENT_COLUMNS,  // num_features
  EXTENT_PILLAR,   // num_features, offsets from the mean, offsets from the centre
  EXTENT_CLOUDS,   // left out where samples are stacked
  EXTENT_SAMPLES,  // of one cloud, or of all where they are stacked
};

#define MAX_RANK 3

static const struct tensor_row {
  const char *name;
  enum vx_dtype dtype;
  bool feature_dtype;  // params.feature_dtype overrides `dtype`
  enum extent extents[MAX_RANK];
} tensor_table[VX_TENSOR_COUNT] = {
    [VX_VOXEL_COORDS] = {"voxel_coords", VX_INT32, false, {EXTENT_VOXELS, EXTENT_COORDS}},
    [VX_VOXEL_NUM_POINTS] = {"voxel_num_points", VX_INT32, false, {EXTENT_VOXELS}},
    [VX_VOXELS] = {"voxels", VX_FLOAT32, false, {EXTENT_VOXELS, EXTENT_CAP, EXTENT_COLUMNS}},
    [VX_VOXEL_FEATURES] = {"voxel_features", VX_FLOAT32, true, {EXTENT_VOXELS, EXTENT_COLUMNS}},
    [VX_PILLAR_FEATURES] = {"pillar_features", VX_FLOAT32, true, {EXTENT_VOXELS, EXTENT_CAP, EXTENT_PILLAR}},
    [VX_POINT_VOXEL_IDS] = {"point_voxel_ids", VX_INT32, false, {EXTENT_POINTS}},
    [VX_VOXEL_POINT_MASK] = {"voxel_point_mask", VX_UINT8, false, {EXTENT_VOXELS, EXTENT_CAP}},
    [VX_SAMPLED_INDICES] = {"sampled_indices", VX_INT32, false, {EXTENT_CLOUDS, EXTENT_SAMPLES}},
    [VX_SAMPLED_POINTS] = {"sampled_points", VX_FLOAT32, false, {EXTENT_CLOUDS, EXTENT_SAMPLES, EXTENT_COLUMNS}},
    [VX_SAMPLED_DISTANCES] = {"sampled_distances", VX_FLOAT32, false, {EXTENT_CLOUDS, EXTENT_SAMPLES}},
};

static const struct dtype_row {
  const char *name;
  size_t size;
} dtype_table[] = {
    [VX_FLOAT32] = {"F32", 4},
    [VX_FLOAT16] = {"F16", 2},
    [VX_INT32] = {"I32", 4},
    [VX_UINT8] = {"U8", 1},
};

static const char *const stage_table[VX_STAGE_COUNT] = {
    [VX_STAGE_COPY_IN] = "copy_in", [VX_STAGE_VOXELIZE] = "voxelize", [VX_STAGE_FEATURES] = "features",
    [VX_STAGE_SAMPLE] = "sample",   [VX_STAGE_COPY_OUT] = "copy_out",
};

const char *vx_tensor_name(enum vx_tensor tensor) { return tensor_table[tensor].name; }
const char *vx_dtype_name(enum vx_dtype dtype) { return dtype_table[dtype].name; }
size_t vx_dtype_size(enum vx_dtype dtype) { return dtype_table[dtype].size; }
const char *vx_stage_name(enum vx_stage stage) { return stage_table[stage]; }

__attribute__((format(printf, 2, 3))) static enum vx_status refuse(struct vx_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return VX_REFUSED;
}

enum vx_status vx_grid_of(const struct vx_params *params, int32_t num_clouds, struct vx_grid *grid,
                          struct vx_error *error) {
  for (int axis = 0; axis < 3; axis++) {
    float cells = roundf((params->range_max[axis] - params->range_min[axis]) / params->voxel_size[axis]);
    if (!(cells >= 1.0f)) {
      return refuse(error, "the grid has no cell along %c: the range is shorter than half a voxel", "xyz"[axis]);
    }
    if ((double)cells > (double)VX_MAX_AXIS_CELLS) {
      return refuse(error, "the grid has %.0f cells along %c; at most %lld are possible", (double)cells, "xyz"[axis],
                    (long long)VX_MAX_AXIS_CELLS);
    }
    grid->cells[axis] = (int32_t)cells;
  }
  // Two axes always fit 62 bits; the third is compared by division, since the whole product may not fit 64.
  int64_t plane = (int64_t)grid->cells[0] * grid->cells[1];
  int64_t height = (int64_t)grid->cells[2] * num_clouds;
  if (plane > VX_MAX_GRID_CELLS / height) {
    return refuse(error, "a grid of %d x %d x %d cells, %d times, is more than 2^62 cells", (int)grid->cells[0],
                  (int)grid->cells[1], (int)grid->cells[2], (int)num_clouds);
  }
  return VX_OK;
}

static int64_t extent_of(enum extent extent, const struct vx_params *params, const struct vx_sizes *sizes) {
  switch (extent) {
    case EXTENT_POINTS: return sizes->points;
    case EXTENT_VOXELS: return sizes->voxels;
    case EXTENT_CAP: return params->max_points_per_voxel;
    case EXTENT_COORDS: return 4;
    case EXTENT_COLUMNS: return params->num_features;
    case EXTENT_PILLAR: return (int64_t)params->num_features + 6;
    case EXTENT_CLOUDS: return sizes->clouds;
    case EXTENT_SAMPLES: return params->sampling.stacked ? sizes->samples : sizes->samples / sizes->clouds;
    case EXTENT_NONE: break;
  }
  return 1;
}

static enum vx_status shape_of(enum vx_tensor tensor, const struct vx_params *params, const struct vx_sizes *sizes,
                               struct vx_shape *shape, struct vx_error *error) {
  const struct tensor_row *row = &tensor_table[tensor];
  *shape = (struct vx_shape){.dtype = row->feature_dtype ? params->feature_dtype : row->dtype};
  shape->bytes = vx_dtype_size(shape->dtype);
  for (int i = 0; i < MAX_RANK && row->extents[i] != EXTENT_NONE; i++) {
    enum extent extent = row->extents[i];
    if (extent == EXTENT_CLOUDS && params->sampling.stacked) {
      continue;
    }
    if (extent == EXTENT_CAP && params->max_points_per_voxel == 0) {
      return refuse(error, "%s has no shape without a cap: max_points_per_voxel must be at least 1", row->name);
    }
    int64_t length = extent_of(extent, params, sizes);
    shape->dims[shape->rank++] = length;
    if (__builtin_mul_overflow(shape->bytes, (uint64_t)length, &shape->bytes)) {
      return refuse(error, "%s does not fit in memory", row->name);
    }
  }
  return VX_OK;
}

enum vx_status vx_layout_of(const struct vx_params *params, const struct vx_sizes *sizes, struct vx_layout *layout,
                            struct vx_error *error) {
  *layout = (struct vx_layout){.tensors = params->tensors};
  for (enum vx_tensor tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((params->tensors & VX_TENSOR_BIT(tensor)) == 0) {
      continue;
    }
    struct vx_shape *shape = &layout->shape[tensor];
    enum vx_status status = shape_of(tensor, params, sizes, shape, error);
    if (status != VX_OK) {
      return status;
    }
    size_t offset;
    if (__builtin_add_overflow(layout->bytes, VX_TENSOR_ALIGNMENT - 1, &offset)) {
      return refuse(error, "the tensors do not fit in memory together");
    }
    offset -= offset % VX_TENSOR_ALIGNMENT;
    layout->offset[tensor] = offset;
    if (__builtin_add_overflow(offset, shape->bytes, &layout->bytes)) {
      return refuse(error, "the tensors do not fit in memory together");
    }
  }
  return VX_OK;
}

enum vx_status vx_check_samples(const struct vx_sampling_params *sampling, int32_t num_clouds, const int32_t *from,
                                const int32_t *samples, struct vx_error *error) {
  const char *what = sampling->from == VX_SAMPLE_VOXELS ? "voxels" : "points";
  int64_t work = 0;
  for (int32_t cloud = 0; cloud < num_clouds; cloud++) {
    if (samples[cloud] > from[cloud]) {
      return refuse(error, "cloud %d has %d %s, fewer than the %d samples asked of it", (int)cloud, (int)from[cloud],
                    what, (int)samples[cloud]);
    }
    if (samples[cloud] > 0 && sampling->start >= from[cloud]) {
      return refuse(error, "cloud %d has %d %s, so none of number %d to start from", (int)cloud, (int)from[cloud], what,
                    (int)sampling->start);
    }
    if (__builtin_add_overflow(work, (int64_t)from[cloud] * samples[cloud], &work)) {
      work = INT64_MAX;
    }
  }
  if (work > sampling->max_work) {
    return refuse(error, "%lld %s times samples are too much work for one request; allowed: up to %lld",
                  (long long)work, what, (long long)sampling->max_work);
  }
  return VX_OK;
}

enum vx_status vx_check_candidates(const struct vx_sampling_params *sampling, int32_t cloud, int64_t candidates,
                                   int32_t samples, struct vx_error *error) {
  if (samples <= candidates) {
    return VX_OK;
  }
  return refuse(error, "cloud %d has %lld %s whose x, y and z are finite, fewer than the %d samples asked of it",
                (int)cloud, (long long)candidates, sampling->from == VX_SAMPLE_VOXELS ? "voxels" : "points",
                (int)samples);
}

enum vx_status vx_begin_samples(struct vx_job *job, const int32_t *from, struct vx_error *error) {
  enum vx_status status = vx_check_samples(&job->params.sampling, job->num_clouds, from, job->sample_counts, error);
  for (int32_t cloud = 0; status == VX_OK && cloud < job->num_clouds; cloud++) {
    job->counts.sampled += job->sample_counts[cloud];
  }
  return status;
}

// From rows to tensors: one function per tensor.
//
// A task of CPU_ROWS has few rows, so its loops over rows do not ask whether the job is stopped.
#include "kernels/cpu/voxelize/voxelize.h"

#include <string.h>

#include "kernels/cpu/base/sums.h"
#include "kernels/cpu/encode/encode.h"

enum { PILLAR_EXTRA = 6, MAX_PILLAR_COLUMNS = VX_MAX_FEATURES + PILLAR_EXTRA };

// ---- the mean -------------------------------------------------------------------------------------------------------

static const float *point_at(const struct cpu_run *run, int32_t index) {
  return run->points + (int64_t)index * run->columns;
}

static void mean_of(const struct cpu_run *run, const struct cpu_row *row, int32_t columns, float *mean) {
  const struct cpu_summands points = {run->points, run->columns, columns, run->cap == INT32_MAX};
  cpu_sum_rows(&points, run->list + row->first, row->kept, mean);
  for (int32_t c = 0; c < columns; c++) mean[c] = vx_canonical(mean[c] / (float)row->kept);
}

// ---- writers --------------------------------------------------------------------------------------------------------

// Where to compute a row as float32: in place, or in `room` if it must be narrowed later.
static float *row_in(enum vx_dtype dtype, unsigned char *place, float *room) {
  return vx_is_narrow(dtype) ? room : (float *)(void *)place;
}

static void narrow_row(enum vx_dtype dtype, unsigned char *place, const float *values, int32_t count) {
  if (vx_is_narrow(dtype)) vx_narrow(dtype, values, count, place);
}

static void write_coords(const struct cpu_run *run, void *out) {
  int32_t(*coords)[4] = out;
  for (int32_t i = 0; i < run->num_rows; i++) {
    int32_t cell[3];
    vx_cell_of_key(run->map.key, run->rows[i].key, cell);
    coords[i][0] = run->rows[i].cloud;
    coords[i][1] = cell[2];
    coords[i][2] = cell[1];
    coords[i][3] = cell[0];
  }
}

static void write_num_points(const struct cpu_run *run, void *out) {
  int32_t *num_points = out;
  for (int32_t i = 0; i < run->num_rows; i++) num_points[i] = run->rows[i].kept;
}

// Rows are cleared in blocks, which stay in the nearest cache. A memset of each row's padding would be slower.
enum { BLOCK_BYTES = 4096 };

static void fill_with_mean(const struct cpu_run *run, const struct cpu_row *row, float *place) {
  float mean[VX_MAX_FEATURES];
  mean_of(run, row, run->columns, mean);
  VX_EACH_ROW(run->stop, k, row->kept, run->cap) {
    memcpy(place, mean, (size_t)run->columns * sizeof *place);
    place += run->columns;
  }
}

// Copies the fields that it reads: the compiler must assume that a store to `out` may change *run.
static inline void write_rows_of_voxels(const struct cpu_run *run, int32_t columns, float *out) {
  const float *points = run->points;
  const int32_t *list = run->list;
  const struct cpu_row *row = run->rows;
  int32_t num_rows = run->num_rows, cap = run->cap;
  size_t point_bytes = (size_t)columns * sizeof *out, row_bytes = (size_t)cap * point_bytes;
  int32_t block = row_bytes < BLOCK_BYTES ? (int32_t)(BLOCK_BYTES / row_bytes) : 1;
  bool zeros = run->params->fill == VX_FILL_ZERO;
  for (int32_t begin = 0, end; begin < num_rows; begin = end) {
    end = num_rows - begin < block ? num_rows : begin + block;
    float *first = out + (int64_t)begin * cap * columns;
    vx_fill(run->stop, first, 0, zeros ? (size_t)(end - begin) * row_bytes : 0);
    for (int32_t i = begin; i < end; i++, row++, first += (int64_t)cap * columns) {
      const int32_t *listed = list + row->first, *last = listed + row->kept;
      float *place = first;
      for (; listed < last; listed++, place += columns) memcpy(place, points + (int64_t)*listed * columns, point_bytes);
      if (!zeros && row->kept < cap) fill_with_mean(run, row, place);
    }
  }
}

// Common numbers of columns are constants: calling memcpy costs more than copying 16 bytes.
static void write_voxels(const struct cpu_run *run, void *out) {
  switch (run->columns) {
    case 4: write_rows_of_voxels(run, 4, out); break;
    case 5: write_rows_of_voxels(run, 5, out); break;
    default: write_rows_of_voxels(run, run->columns, out);
  }
}

static void write_means(const struct cpu_run *run, void *out) {
  float *means = out;
  for (int32_t i = 0; i < run->num_rows; i++)
    mean_of(run, &run->rows[i], run->columns, means + (int64_t)i * run->columns);
}

static void write_features(const struct cpu_run *run, void *out) {
  enum vx_dtype dtype = run->params->feature_dtype;
  size_t row_bytes = (size_t)run->columns * vx_dtype_size(dtype);
  unsigned char *place = out;
  for (int32_t i = 0; i < run->num_rows; i++, place += row_bytes) {
    float room[VX_MAX_FEATURES];
    float *mean = row_in(dtype, place, room);
    mean_of(run, &run->rows[i], run->columns, mean);
    narrow_row(dtype, place, mean, run->columns);
  }
}

struct pillar {
  float mean[3], centre[3];
};

static struct pillar pillar_of(const struct cpu_run *run, const struct cpu_row *row) {
  struct pillar pillar;
  int32_t cell[3];
  mean_of(run, row, 3, pillar.mean);
  vx_cell_of_key(run->map.key, row->key, cell);
  for (int axis = 0; axis < 3; axis++) pillar.centre[axis] = vx_cell_centre(&run->map, axis, cell[axis]);
  return pillar;
}

static void fill_pillar_point(const struct cpu_run *run, const struct pillar *pillar, int32_t index, float *values) {
  const float *point = point_at(run, index);
  for (int32_t c = 0; c < run->columns; c++) values[c] = point[c];
  float *offsets = values + run->columns;
  for (int axis = 0; axis < 3; axis++) {
    offsets[axis] = vx_canonical(point[axis] - pillar->mean[axis]);
    offsets[3 + axis] = vx_canonical(point[axis] - pillar->centre[axis]);
  }
}

static void write_pillars(const struct cpu_run *run, void *out) {
  enum vx_dtype dtype = run->params->feature_dtype;
  int32_t columns = run->columns + PILLAR_EXTRA;
  size_t point_bytes = (size_t)columns * vx_dtype_size(dtype);
  unsigned char *place = out;
  for (int32_t i = 0; i < run->num_rows; i++) {
    const struct cpu_row *row = &run->rows[i];
    struct pillar pillar = pillar_of(run, row);
    for (int32_t k = 0; k < row->kept; k++, place += point_bytes) {
      float room[MAX_PILLAR_COLUMNS];
      float *values = row_in(dtype, place, room);
      fill_pillar_point(run, &pillar, run->list[row->first + k], values);
      narrow_row(dtype, place, values, columns);
    }
    size_t padding = (size_t)(run->cap - row->kept) * point_bytes;
    vx_fill(run->stop, place, 0, padding);
    place += padding;
  }
}

static void write_encoded(const struct cpu_run *run, void *out) {
  const struct vx_encoder *encoder = &run->params->encoder;
  enum vx_dtype dtype = run->params->feature_dtype;
  int32_t inputs = encoder->layers[0].inputs;
  size_t row_bytes = (size_t)run->encoded_values * vx_dtype_size(dtype);
  unsigned char *place = out;
  for (int32_t i = 0; i < run->num_rows; i++, place += row_bytes) {
    const struct cpu_row *row = &run->rows[i];
    struct pillar pillar = pillar_of(run, row);
    float *values = run->pillar_rows[0], *encoded = row_in(dtype, place, run->encoded);
    for (int32_t k = 0; k < row->kept; k++, values += inputs)
      fill_pillar_point(run, &pillar, run->list[row->first + k], values);
    bool padded = run->cap != INT32_MAX && row->kept < run->cap;
    memset(values, 0, padded ? (size_t)inputs * sizeof *values : 0);
    cpu_encode(encoder, run->stop, run->pillar_rows[0], run->pillar_rows[1], row->kept + padded, encoded);
    narrow_row(dtype, place, encoded, run->encoded_values);
  }
}

static void write_point_ids(const struct cpu_run *run, void *out) {
  vx_copy(run->stop, out, run->point_ids, (size_t)run->num_points * sizeof *run->point_ids);
}

static void write_mask(const struct cpu_run *run, void *out) {
  unsigned char *mask = out;
  for (int32_t i = 0; i < run->num_rows; i++, mask += run->cap) {
    size_t kept = (size_t)run->rows[i].kept;
    memset(mask, 1, kept);
    memset(mask + kept, 0, (size_t)run->cap - kept);
  }
}

static void write_bev_features(const struct cpu_run *run, void *out) {
  const int32_t *size = run->grid.cells;
  int32_t width = run->encoded_values;
  struct cpu_planes planes = {run->features, run->params->feature_dtype, width == 0 ? run->columns : width,
                              (int64_t)size[0] * size[1] * size[2]};
  VX_EACH_ROW(run->stop, i, 0, run->num_rows) {
    int32_t cell[3];
    vx_cell_of_key(run->map.key, run->rows[i].key, cell);
    run->placed[i] =
        (struct cpu_placed){.cell = ((int64_t)cell[2] * size[1] + cell[1]) * size[0] + cell[0], .row = (int32_t)i};
  }
  cpu_write_planes(&planes, run->stop, run->placed, run->num_rows, out);
}

// ---- all of them ----------------------------------------------------------------------------------------------------

const struct cpu_writer cpu_writer_of_means = {write_means, CPU_ROWS, VX_STAGE_FEATURES};

const struct cpu_writer cpu_writers[VX_TENSOR_COUNT] = {
    [VX_VOXEL_COORDS] = {write_coords, CPU_ROWS, VX_STAGE_FEATURES},
    [VX_VOXEL_NUM_POINTS] = {write_num_points, CPU_ROWS, VX_STAGE_FEATURES},
    [VX_VOXELS] = {write_voxels, CPU_ROWS, VX_STAGE_FEATURES},
    [VX_VOXEL_FEATURES] = {write_features, CPU_ROWS, VX_STAGE_FEATURES},
    [VX_PILLAR_FEATURES] = {write_pillars, CPU_ROWS, VX_STAGE_FEATURES},
    [VX_POINT_VOXEL_IDS] = {write_point_ids, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_VOXEL_POINT_MASK] = {write_mask, CPU_ROWS, VX_STAGE_FEATURES},
    [VX_BEV_FEATURES] = {write_bev_features, CPU_CLOUDS, VX_STAGE_SCATTER},
    [VX_OCCUPANCY] = {cpu_write_occupancy, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_OCCUPANCY_COUNTS] = {cpu_write_occupancy_counts, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_OCCUPANCY_PACKED] = {cpu_write_occupancy_packed, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_BEV_MAX_HEIGHT] = {cpu_write_max_height, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_BEV_MIN_HEIGHT] = {cpu_write_min_height, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_BEV_MAX_INTENSITY] = {cpu_write_max_intensity, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_BEV_TOP_INTENSITY] = {cpu_write_top_intensity, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_BEV_DENSITY] = {cpu_write_density, CPU_TENSORS, VX_STAGE_FEATURES},
    [VX_ENCODED_FEATURES] = {write_encoded, CPU_ROWS, VX_STAGE_ENCODER},
};

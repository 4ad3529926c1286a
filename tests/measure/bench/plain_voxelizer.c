// The plain sequential voxelizer; see plain_voxelizer.h.
#include "tests/measure/bench/plain_voxelizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 4 };

int64_t plain_grid_bytes(const struct vx_job *asked) {
  struct vx_grid grid;
  struct error error;
  int64_t bytes;
  if (vx_grid_of(&asked->params.voxelize, 1, &grid, &error) != VX_OK) return INT64_MAX;
  if (__builtin_mul_overflow((int64_t)grid.cells[0] * grid.cells[1], grid.cells[2], &bytes)) return INT64_MAX;
  if (__builtin_mul_overflow(bytes, (int64_t)sizeof(struct plain_list), &bytes)) return INT64_MAX;
  return bytes;
}

bool plain_open(const struct vx_job *asked, struct plain_voxelizer *plain, struct error *error) {
  memset(plain, 0, sizeof *plain);
  if (asked->params.voxelize.block_filter.enabled || asked->inputs[VX_POINTS].dtype != VX_FLOAT32)
    return error_set(error, "the plain voxelizer has no block filter and reads float32 only");
  if (vx_grid_of(&asked->params.voxelize, 1, &plain->grid, error) != VX_OK) return false;
  int64_t bytes = plain_grid_bytes(asked);
  plain->asked = *asked;
  plain->cells = (size_t)bytes / sizeof(struct plain_list);
  if (bytes != INT64_MAX) return true;
  return error_set(error, "a grid of %d x %d x %d lists has too many bytes", plain->grid.cells[0], plain->grid.cells[1],
                   plain->grid.cells[2]);
}

static bool make_grid(struct plain_voxelizer *plain) {
  plain->lists = malloc(plain->cells * sizeof *plain->lists);
  for (size_t i = 0; plain->lists && i < plain->cells; i++) plain->lists[i] = (struct plain_list){.points = NULL};
  return plain->lists;
}

static void free_grid(struct plain_voxelizer *plain) {
  for (size_t i = 0; plain->lists && i < plain->cells; i++) free(plain->lists[i].points);
  free(plain->lists);
  plain->lists = NULL;
}

static void free_rows(struct plain_voxelizer *plain) {
  free(plain->coords);
  free(plain->num_points);
  free(plain->voxel_features);
  free(plain->pillar_features);
  free(plain->padded);
  plain->coords = plain->num_points = NULL;
  plain->voxel_features = plain->pillar_features = plain->padded = NULL;
  plain->room = 0;
}

void plain_close(struct plain_voxelizer *plain) {
  free_rows(plain);
  memset(plain, 0, sizeof *plain);
}

// The cell of a point; -1 if it is outside.
static int64_t cell_of(const struct plain_voxelizer *plain, const float *point) {
  int64_t cell = 0;
  for (int axis = 0; axis < 3; axis++) {
    float c = floorf((point[axis] - plain->asked.params.voxelize.range_min[axis]) /
                     plain->asked.params.voxelize.voxel_size[axis]);
    if (!(c >= 0.0F && c < (float)plain->grid.cells[axis])) return -1;
    cell = cell * plain->grid.cells[axis] + (int64_t)c;
  }
  return cell;
}

static bool push(struct plain_list *list, int32_t point) {
  if (list->count == list->capacity) {
    int32_t capacity = list->capacity ? 2 * list->capacity : FIRST_CAPACITY;
    int32_t *grown = realloc(list->points, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    list->points = grown;
    list->capacity = capacity;
  }
  list->points[list->count++] = point;
  return true;
}

static bool fill_grid(struct plain_voxelizer *plain, const float *points, int64_t num_points) {
  const int32_t columns = (int32_t)plain->asked.inputs[VX_POINTS].dims[1],
                cap = plain->asked.params.voxelize.max_points_per_voxel;
  plain->occupied = 0;
  for (int64_t i = 0; i < num_points; i++) {
    int64_t cell = cell_of(plain, points + i * columns);
    if (cell < 0) continue;
    struct plain_list *list = &plain->lists[cell];
    if (list->count == 0) plain->occupied++;
    if (cap > 0 && list->count == cap) continue;
    if (!push(list, (int32_t)i)) return false;
  }
  return true;
}

static bool wants(const struct plain_voxelizer *plain, enum vx_tensor tensor) {
  return plain->asked.tensors & VX_TENSOR_BIT(tensor);
}

// A zeroed array of `rows` rows of `width` floats or ints (both are 4 bytes); NULL if out of memory.
static void *rows_of(int64_t rows, int64_t width) { return calloc((size_t)rows + 1, (size_t)width * sizeof(float)); }

static bool make_room(struct plain_voxelizer *plain, int64_t rows) {
  const int64_t columns = (int32_t)plain->asked.inputs[VX_POINTS].dims[1],
                cap = plain->asked.params.voxelize.max_points_per_voxel;
  if (rows > plain->room || !plain->coords) {
    free_rows(plain);
    plain->coords = rows_of(rows, 4);
    plain->num_points = rows_of(rows, 1);
    if (wants(plain, VX_VOXEL_FEATURES)) plain->voxel_features = rows_of(rows, columns);
    if (wants(plain, VX_PILLAR_FEATURES)) plain->pillar_features = rows_of(rows, cap * (columns + 6));
    if (wants(plain, VX_VOXELS)) plain->padded = rows_of(rows, cap * columns);
    plain->room = rows;
  } else {  // the padding may hold values of an earlier scan
    if (plain->pillar_features) memset(plain->pillar_features, 0, (size_t)(rows * cap * (columns + 6)) * sizeof(float));
    if (plain->padded) memset(plain->padded, 0, (size_t)(rows * cap * columns) * sizeof(float));
  }
  return plain->coords && plain->num_points && (plain->voxel_features || !wants(plain, VX_VOXEL_FEATURES)) &&
         (plain->pillar_features || !wants(plain, VX_PILLAR_FEATURES)) && (plain->padded || !wants(plain, VX_VOXELS));
}

static void mean_of(const struct plain_list *list, const float *points, int32_t columns, float *mean) {
  memcpy(mean, points + (int64_t)list->points[0] * columns, (size_t)columns * sizeof *mean);
  for (int32_t i = 1; i < list->count; i++) {
    const float *point = points + (int64_t)list->points[i] * columns;
    for (int32_t c = 0; c < columns; c++) mean[c] += point[c];
  }
  for (int32_t c = 0; c < columns; c++) mean[c] /= (float)list->count;
}

static void gather_pillar(const struct plain_voxelizer *plain, const struct plain_list *list, const float *points,
                          const float *mean, const int32_t cell[3], float *row) {
  const int32_t columns = (int32_t)plain->asked.inputs[VX_POINTS].dims[1];
  const float *size = plain->asked.params.voxelize.voxel_size, *min = plain->asked.params.voxelize.range_min;
  for (int32_t i = 0; i < list->count; i++, row += columns + 6) {
    const float *point = points + (int64_t)list->points[i] * columns;
    memcpy(row, point, (size_t)columns * sizeof *row);
    for (int axis = 0; axis < 3; axis++) {
      row[columns + axis] = point[axis] - mean[axis];
      row[columns + 3 + axis] = point[axis] - ((float)cell[axis] * size[axis] + (size[axis] / 2.0F + min[axis]));
    }
  }
}

static void gather(struct plain_voxelizer *plain, const struct plain_list *list, const float *points,
                   const int32_t cell[3], int64_t row) {
  const int32_t columns = (int32_t)plain->asked.inputs[VX_POINTS].dims[1],
                cap = plain->asked.params.voxelize.max_points_per_voxel;
  float mean[VX_MAX_FEATURES];
  memcpy(plain->coords + 4 * row, (int32_t[4]){0, cell[2], cell[1], cell[0]}, 4 * sizeof(int32_t));
  plain->num_points[row] = list->count;
  if (plain->voxel_features || plain->pillar_features) mean_of(list, points, columns, mean);
  if (plain->voxel_features) memcpy(plain->voxel_features + row * columns, mean, (size_t)columns * sizeof *mean);
  if (plain->pillar_features)
    gather_pillar(plain, list, points, mean, cell, plain->pillar_features + row * cap * (columns + 6));
  for (int32_t i = 0; plain->padded && i < list->count; i++) {
    memcpy(plain->padded + (row * cap + i) * columns, points + (int64_t)list->points[i] * columns,
           (size_t)columns * sizeof(float));
  }
}

static void walk_grid(struct plain_voxelizer *plain, const float *points) {
  int64_t row = 0;
  const struct plain_list *list = plain->lists;
  for (int32_t x = 0; x < plain->grid.cells[0]; x++) {
    for (int32_t y = 0; y < plain->grid.cells[1]; y++) {
      for (int32_t z = 0; z < plain->grid.cells[2]; z++, list++)
        if (list->count > 0 && row < plain->voxels) gather(plain, list, points, (int32_t[3]){x, y, z}, row++);
    }
  }
}

bool plain_run(struct plain_voxelizer *plain, const float *points, int64_t num_points) {
  bool good = make_grid(plain) && fill_grid(plain, points, num_points);
  if (good) {
    plain->voxels = plain->occupied < plain->asked.params.voxelize.max_voxels ? plain->occupied
                                                                              : plain->asked.params.voxelize.max_voxels;
    good = make_room(plain, plain->voxels);
  }
  if (good) walk_grid(plain, points);
  free_grid(plain);
  return good;
}

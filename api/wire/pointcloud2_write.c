// See pointcloud2_write.h.
#include "api/wire/pointcloud2_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/base/bytes.h"
#include "kernels/grid.h"
#include "kernels/half.h"

static const char frame_id[] = "lidar";

const struct topic topics[TOPICS] = {
    {"/voxels", VX_VOXEL_FEATURES, VX_VOXEL_NUM_POINTS, "count"},
    {"/samples", VX_SAMPLED_POINTS, VX_SAMPLED_INDICES, "index"},
    {"/points", VX_LEFT_POINTS, VX_POINT_INDICES, "index"},
    {"/serialized", VX_LEFT_POINTS, VX_SERIALIZED_INVERSE, "place"},  // on the first curve
};

#define RULE "================================================================================\n"

const char pointcloud2_definition[] = "std_msgs/Header header\n"
                                      "uint32 height\n"
                                      "uint32 width\n"
                                      "sensor_msgs/PointField[] fields\n"
                                      "bool is_bigendian\n"
                                      "uint32 point_step\n"
                                      "uint32 row_step\n"
                                      "uint8[] data\n"
                                      "bool is_dense\n" RULE "MSG: std_msgs/Header\n"
                                      "builtin_interfaces/Time stamp\n"
                                      "string frame_id\n" RULE "MSG: builtin_interfaces/Time\n"
                                      "int32 sec\n"
                                      "uint32 nanosec\n" RULE "MSG: sensor_msgs/PointField\n"
                                      "uint8 INT8=1\n"
                                      "uint8 UINT8=2\n"
                                      "uint8 INT16=3\n"
                                      "uint8 UINT16=4\n"
                                      "uint8 INT32=5\n"
                                      "uint8 UINT32=6\n"
                                      "uint8 FLOAT32=7\n"
                                      "uint8 FLOAT64=8\n"
                                      "string name\n"
                                      "uint32 offset\n"
                                      "uint8 datatype\n"
                                      "uint32 count\n";
enum { FIELD_INT32 = 5, FIELD_FLOAT32 = 7, FIELD_BYTES = 4 };

// ---- what the clouds are made from ----------------------------------------------------------------------------------

static bool has(vx_tensor_set tensors, enum vx_tensor tensor) { return tensors & VX_TENSOR_BIT(tensor); }

vx_tensor_set pointcloud2_tensors(const struct job_request *request) {
  vx_tensor_set computed = operations[request->job.op]->tensors(request), needed = 0;
  for (int i = 0; i < TOPICS; i++)
    needed |= computed & (VX_TENSOR_BIT(topics[i].points) | VX_TENSOR_BIT(topics[i].number));
  return has(needed, VX_VOXEL_FEATURES) ? needed : needed | (computed & VX_TENSOR_BIT(VX_VOXEL_COORDS));
}

bool pointcloud2_has(const struct vx_layout *layout, const struct topic *topic) {
  return has(layout->tensors, topic->number);
}

// The rows of a topic, of all clouds.
struct rows {
  const char *points, *numbers;
  enum vx_dtype dtype;  // of `points`; VX_INT32: they are voxel_coords
  int columns;          // of float32, in the message
  struct vx_cell_map map;
};

static struct rows rows_of(const struct answer *answer, const struct vx_layout *layout, const struct topic *topic,
                           const char *tensors) {
  bool centres = !has(layout->tensors, topic->points);
  enum vx_tensor points = centres ? VX_VOXEL_COORDS : topic->points;
  const struct vx_shape *shape = &layout->shape[points];
  struct rows rows = {.dtype = shape->dtype, .columns = centres ? 3 : (int)shape->dims[shape->rank - 1]};
  if (tensors) rows.points = tensors + layout->offset[points];
  if (tensors) rows.numbers = tensors + layout->offset[topic->number];
  if (centres) {
    const struct vx_voxelize *params = &answer->job->params.voxelize;
    struct vx_grid grid = {{0, 0, 0}};
    struct error error;
    (void)!vx_grid_of(params, answer->job->num_clouds, &grid, &error);  // the request was checked
    rows.map = vx_cell_map_of(params, &grid);
  }
  return rows;
}

static int64_t count_of(const struct answer *answer, const struct topic *topic, int32_t cloud) {
  const struct vx_job *job = answer->job;
  return topic->number == VX_SAMPLED_INDICES ? job->sample_counts[cloud] : job->row_counts[cloud];
}

// ---- the message's data ---------------------------------------------------------------------------------------------

// The float32 columns of a row.
static void read_row(const struct rows *rows, int64_t row, float values[VX_MAX_FEATURES]) {
  if (rows->dtype == VX_INT32) {
    const int32_t *coords = (const int32_t *)(const void *)rows->points + row * 4;  // cloud, z, y, x
    for (int a = 0; a < 3; a++) values[a] = vx_cell_centre(&rows->map, a, coords[3 - a]);
  } else {
    vx_widen(rows->dtype, rows->points, row * rows->columns, rows->columns, values);
  }
}

// Writes the rows; without tensors, only counts their bytes. Whether all x, y and z are finite.
static bool put_rows(const struct rows *rows, struct vx_stop *stop, int64_t first, int64_t count, struct text *out) {
  char block[16384];
  float values[VX_MAX_FEATURES] = {0};
  size_t filled = 0, bytes = (size_t)rows->columns * FIELD_BYTES, step = bytes + FIELD_BYTES;
  bool finite = true;
  if (!rows->points || !rows->numbers) {
    text_append(out, NULL, (size_t)count * step);
    return true;
  }
  VX_EACH_ROW(stop, row, first, first + count) {
    read_row(rows, row, values);
    finite = finite && isfinite(values[0]) && isfinite(values[1]) && isfinite(values[2]);
    memcpy(block + filled, values, bytes);
    memcpy(block + filled + bytes, rows->numbers + row * FIELD_BYTES, FIELD_BYTES);
    filled += step;
    if (filled + step <= sizeof block && row + 1 < first + count) continue;
    text_append(out, block, filled);
    filled = 0;
  }
  return finite;
}

// ---- the message ----------------------------------------------------------------------------------------------------

// Aligned to its own size from the beginning of the message.
static void put_number(struct text *out, size_t begin, uint64_t value, int bytes) {
  while ((out->length - begin) % (size_t)bytes) bytes_put(out, 0, 1);
  bytes_put(out, value, bytes);
}

static void put_string(struct text *out, size_t begin, const char *string) {
  size_t bytes = strlen(string) + 1;
  put_number(out, begin, bytes, 4);
  text_append(out, string, bytes);
}

static void put_field(struct text *out, size_t begin, const char *name, int number, int datatype) {
  put_string(out, begin, name);
  put_number(out, begin, (uint64_t)number * FIELD_BYTES, 4);
  put_number(out, begin, (uint64_t)datatype, 1);
  put_number(out, begin, 1, 4);
}

// The first three columns are x, y and z, for which viewers look. The others have their names of `fields`; without
// `fields` the fourth is intensity. A column without a name, or named like the last column (`number_name`), is
// column_N.
static void name_column(const struct job_request *request, int column, const char *number_name,
                        char name[REQUEST_NAMES_SIZE]) {
  static const char *const usual[] = {"x", "y", "z", "intensity"};
  const char *given = column > 2 && column < request->num_fields ? request->fields : NULL;
  for (int c = 0; given && c < column; c++) given = strchr(given, ',') + 1;
  if (given) snprintf(name, REQUEST_NAMES_SIZE, "%.*s", (int)strcspn(given, ","), given);
  if (given && strcmp(name, number_name) != 0) return;
  if (!given && column < (int)(sizeof usual / sizeof *usual))
    snprintf(name, REQUEST_NAMES_SIZE, "%s", usual[column]);
  else
    snprintf(name, REQUEST_NAMES_SIZE, "column_%d", column);
}

static void put_fields(const struct job_request *request, struct text *out, size_t begin, int columns,
                       const char *number_name) {
  char name[REQUEST_NAMES_SIZE];
  put_number(out, begin, (uint64_t)columns + 1, 4);
  for (int c = 0; c < columns; c++) {
    name_column(request, c, number_name, name);
    put_field(out, begin, name, c, FIELD_FLOAT32);
  }
  put_field(out, begin, number_name, columns, FIELD_INT32);
}

bool pointcloud2_write(const struct answer *answer, const struct vx_layout *layout, const struct topic *topic,
                       const char *tensors, int32_t cloud, int64_t *first, int64_t stamp_ns, struct text *out) {
  static const char little_endian[] = {0, 1, 0, 0};
  struct rows rows = rows_of(answer, layout, topic, tensors);
  uint64_t count = (uint64_t)count_of(answer, topic, cloud), step = ((uint64_t)rows.columns + 1) * FIELD_BYTES;
  if (count * step > UINT32_MAX) return false;
  text_append(out, little_endian, sizeof little_endian);
  size_t begin = out->length;
  put_number(out, begin, (uint64_t)(stamp_ns / 1000000000), 4);
  put_number(out, begin, (uint64_t)(stamp_ns % 1000000000), 4);
  put_string(out, begin, frame_id);
  put_number(out, begin, 1, 4);  // height
  put_number(out, begin, count, 4);
  put_fields(answer->request, out, begin, rows.columns, topic->number_name);
  put_number(out, begin, 0, 1);  // is_bigendian
  put_number(out, begin, step, 4);
  put_number(out, begin, count * step, 4);  // equal to data's, with one row
  put_number(out, begin, count * step, 4);  // bytes of data
  bool dense = put_rows(&rows, answer->stop, *first, (int64_t)count, out);
  put_number(out, begin, dense, 1);
  *first += (int64_t)count;
  return true;
}

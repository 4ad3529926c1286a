// The parameters of POST /v1/range_image; kernels/range_image.h says what they mean.
#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/deskew.h"
#include "api/ops/stream.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

enum { COLUMN_SIZE = 32 };  // bytes of the name of a column

static const char default_channels[] = "range,x,y,z,intensity";
static const char *const image_rows_words[] = {"elevation", "ring", "ring_down", NULL};    // enum vx_image_rows
static const char *const winner_words[] = {"nearest", "farthest", "first", "last", NULL};  // enum vx_winner
static const char *const outside_words[] = {"clamp", "drop", NULL};                        // enum vx_outside
_Static_assert(sizeof(enum vx_image_rows) == sizeof(int32_t) && sizeof(enum vx_winner) == sizeof(int32_t) &&
                   sizeof(enum vx_outside) == sizeof(int32_t),
               "an enum is written as an int32_t");

// Puts up to `most` names into the pool, separated by commas.
static bool read_columns(const struct param *param, const char *value, const char *end, void *record) {
  const char **names = (void *)((char *)record + param->offset);
  char item[COLUMN_SIZE];
  const char *cursor = value;
  int64_t count = 0;
  while (value_next(&cursor, end, item, sizeof item)) count++;
  if (!value_ended(cursor, end) || count < 1 || count > param->most) return false;
  char *text = pool_take(&((struct job_request *)record)->pool, (size_t)count * COLUMN_SIZE);
  if (!text) return false;
  *names = text;
  struct text all = text_over(text, (size_t)count * COLUMN_SIZE);
  while (value_next(&value, end, item, sizeof item)) text_printf(&all, "%s%s", all.length ? "," : "", item);
  return true;
}

static void write_columns(const struct param *param, const void *record, struct text *out) {
  value_write_names(*(const char *const *)(const void *)((const char *)record + param->offset), out);
}

static void write_column(const struct param *param, const void *record, struct text *out) {
  json_put_string(out, *(const char *const *)(const void *)((const char *)record + param->offset));
}

static const struct value_type value_columns = {"list", false, read_columns, write_columns, NULL, NULL};
static const struct value_type value_column = {"string", false, read_columns, write_column, NULL, NULL};

static bool read_numbers(const struct param *param, const char *value, const char *end, void *record) {
  float *numbers = (void *)((char *)record + param->offset);
  int32_t *count = (void *)((char *)record + param->second);
  for (*count = 0; *count < VX_MAX_IMAGE_CHANNELS; ++*count)
    if (!value_take_floats(&value, end, &numbers[*count], 1)) break;
  return *count > 0 && value_ended(value, end);
}

static void write_numbers(const struct param *param, const void *record, struct text *out) {
  value_write_floats((const void *)((const char *)record + param->offset),
                     *(const int32_t *)(const void *)((const char *)record + param->second), out);
}

static const struct value_type value_numbers = {"floats", false, read_numbers, write_numbers, NULL, NULL};

static const struct param height = {
    .name = "height",
    .type = &value_int,
    .offset = FIELD(job.params.image.height),
    .least = 1,
    .most = VX_MAX_IMAGE_HEIGHT,
    .doc = "rows of the image (H)",
};
static const struct param width = {
    .name = "width",
    .type = &value_int,
    .offset = FIELD(job.params.image.width),
    .least = 1,
    .most = VX_MAX_IMAGE_WIDTH,
    .doc = "columns of the image (W)",
};
static const struct param image_rows = {
    .name = "rows",
    .type = &value_word,
    .offset = FIELD(job.params.image.rows),
    .words = image_rows_words,
    .initial = "elevation",
    .doc = "what gives a point its row: its elevation, or its ring, from the bottom (ring) or from the top (ring_down)",
};
static const struct param fov_up = {
    .name = "fov_up",
    .type = &value_double,
    .offset = FIELD(job.params.image.fov_up),
    .allowed = "a finite number",
    .unit = "degrees",
    .doc = "elevation of the upper edge",
};
static const struct param fov_down = {
    .name = "fov_down",
    .type = &value_double,
    .offset = FIELD(job.params.image.fov_down),
    .allowed = "a finite number",
    .unit = "degrees",
    .doc = "elevation of the lower edge",
};
static const struct param ring = {
    .name = "ring",
    .type = &value_column,
    .offset = FIELD(image.ring),
    .most = 1,
    .allowed = "the name of a column, up to 31 bytes, or kitti",
    .doc = "the column with the number of the ring; kitti: as in the step ring_outlier",
};
static const struct param outside = {
    .name = "outside",
    .type = &value_word,
    .offset = FIELD(job.params.image.outside),
    .words = outside_words,
    .initial = "clamp",
    .doc = "whether a point above or below the field of view moves to the nearest row or is dropped",
};
static const struct param winner = {
    .name = "winner",
    .type = &value_word,
    .offset = FIELD(job.params.image.winner),
    .words = winner_words,
    .initial = "nearest",
    .doc = "which of its points a pixel keeps",
};
static const struct param channels = {
    .name = "channels",
    .type = &value_columns,
    .offset = FIELD(image.channels),
    .most = VX_MAX_IMAGE_CHANNELS,
    .allowed = "1 to 16 names: range, x, y, z, intensity, or other names in fields",
    .doc = "channels of range_image, by default range,x,y,z,intensity; range is the distance",
};
static const struct param means = {
    .name = "means",
    .type = &value_numbers,
    .offset = FIELD(job.params.image.means),
    .second = FIELD(job.params.image.num_means),
    .allowed = "a finite number for each channel",
    .doc = "with stds: a value becomes (value - mean) / std",
};
static const struct param stds = {
    .name = "stds",
    .type = &value_numbers,
    .offset = FIELD(job.params.image.stds),
    .second = FIELD(job.params.image.num_stds),
    .allowed = "a finite number above 0 for each channel",
    .doc = "see means",
};
static const struct param empty = {
    .name = "empty",
    .type = &value_float,
    .offset = FIELD(job.params.image.empty),
    .initial = "-1",
    .allowed = "a finite number",
    .doc = "value of pixels without a point; 0 if means are given",
};
static const struct param outputs =
    PARAM_OUTPUTS(VX_RANGE_IMAGE_TENSORS | VX_CHAIN_TENSORS, "range_image, range_indices, range_mask and point_pixels");

static const struct param *const rows[] = {
    &param_preset, PARAMS_OF_POINTS, &param_steps, &height, &width, &image_rows, &fov_up,  &fov_down,        &ring,
    &outside,      &winner,          &channels,    &means,  &stds,  &empty,      &outputs, PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_RANGE_IMAGE, "the channels of the point that each pixel keeps; the value of empty if it has no point", NULL},
    {VX_RANGE_INDICES, "row of that point in the body, counted over all clouds; -1 if the pixel has no point", NULL},
    {VX_RANGE_MASK, "1 if the pixel has a point", NULL},
    {VX_POINT_PIXELS, "row and column of each point's pixel, whether the pixel keeps the point or not; -1 if dropped",
     NULL},
    {VX_POINT_RANGES, "distance of each point; -1 if dropped", WHEN_NAMED},
    {VX_PIXEL_COORDS, "batch, row and column of each pixel that has a point, ascending", WHEN_NAMED},
    {VX_POINT_PIXEL_ROWS, "row of each point's pixel in pixel_coords; -1 if dropped", WHEN_NAMED},
    CHAIN_RESULTS,
    {.doc = NULL},
};

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_TENSOR_BIT(VX_RANGE_IMAGE) | VX_TENSOR_BIT(VX_RANGE_INDICES) | VX_TENSOR_BIT(VX_RANGE_MASK) |
         VX_TENSOR_BIT(VX_POINT_PIXELS);
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool needs(const struct job_request *request, const char *name, struct error *error) {
  return job_request_is_given(request, name) ||
         error_refuse(error, ERROR_BAD_PARAMETER, name, "%s is missing; give it, or a preset that has it", name);
}

static bool check_view(const struct job_request *request, struct error *error) {
  const struct vx_range_image *params = &request->job.params.image;
  if (params->rows != VX_ROWS_ELEVATION) return needs(request, "ring", error);
  if (!needs(request, "fov_up", error) || !needs(request, "fov_down", error)) return false;
  if (vx_view_of(params).span > 0) return true;
  return error_refuse(error, ERROR_BAD_PARAMETER, "fov_down",
                      "fov_down is %g and fov_up is %g; allowed: fov_down below fov_up", params->fov_down,
                      params->fov_up);
}

static int32_t count_names(const char *names) {
  int32_t count = 1;
  for (; *names; names++) count += *names == ',';
  return count;
}

static bool check_numbers(const char *name, int32_t count, int32_t channels_asked, struct error *error) {
  return count == channels_asked ||
         error_refuse(error, ERROR_BAD_PARAMETER, name, "%s has %d numbers, but the image has %d channels", name,
                      (int)count, (int)channels_asked);
}

// Both or neither of means and stds are given, with one number for each channel.
static bool finish_channels(struct job_request *request, struct error *error) {
  struct vx_range_image *params = &request->job.params.image;
  if (!request->image.channels) request->image.channels = default_channels;
  params->num_channels = count_names(request->image.channels);
  if (params->num_means == 0 && params->num_stds == 0) return true;
  if (!check_numbers("means", params->num_means, params->num_channels, error) ||
      !check_numbers("stds", params->num_stds, params->num_channels, error))
    return false;
  for (int32_t i = 0; i < params->num_stds; i++)
    if (!(params->stds[i] > 0))
      return error_refuse(error, ERROR_BAD_PARAMETER, "stds", "stds has %g; allowed: above 0", (double)params->stds[i]);
  params->empty = 0;
  return true;
}

static bool finish(struct job_request *request, struct error *error) {
  return stream_finish(request, error) && needs(request, "height", error) && needs(request, "width", error) &&
         check_view(request, error) && finish_channels(request, error);
}

// Without names, the first four columns are x, y, z and intensity. -1: no column has the name.
static int32_t find_column(const struct job_request *request, const char *name) {
  const char *fields = request->num_fields ? request->fields : "x,y,z,intensity";
  int32_t column = value_find_name(fields, name, strlen(name));
  return column < request->num_features ? column : -1;
}

static bool refuse_column(const struct job_request *request, const char *parameter, const char *name,
                          struct error *error) {
  const char *given = request->num_fields ? "their columns are " : "name their columns with fields";
  return error_refuse(error, ERROR_BAD_PARAMETER, parameter, "the points have no column named %s; %s%s", name, given,
                      request->num_fields ? request->fields : "");
}

static bool find_channels(struct job_request *request, struct error *error) {
  int32_t *columns = request->job.params.image.channels;
  const char *cursor = request->image.channels, *end = cursor + strlen(cursor);
  char name[COLUMN_SIZE];
  for (; value_next(&cursor, end, name, sizeof name); columns++) {
    *columns = strcmp(name, "range") == 0 ? VX_DISTANCE_CHANNEL : find_column(request, name);
    if (*columns < 0 && strcmp(name, "range") != 0) return refuse_column(request, "channels", name, error);
  }
  return true;
}

static bool find_ring(struct job_request *request, struct error *error) {
  struct vx_range_image *params = &request->job.params.image;
  params->ring = VX_KITTI_RINGS;
  if (params->rows == VX_ROWS_ELEVATION || strcmp(request->image.ring, "kitti") == 0) return true;
  params->ring = find_column(request, request->image.ring);
  return params->ring >= 0 || refuse_column(request, "ring", request->image.ring, error);
}

static bool split(struct job_request *request, struct error *error) {
  if (!find_channels(request, error) || !find_ring(request, error)) return false;
  return vx_check_range_image(&request->job.params.image, job_request_columns(request), request->num_clouds, error) ==
             VX_OK ||
         error_blame(error, "width");
}

const struct operation operation_range_image = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = split,
};

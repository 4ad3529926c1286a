// See ops.h.
#include "api/ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/base/suggest.h"
#include "api/params/params.h"
#include "api/params/values.h"

const struct operation *const operations[VX_OPS] = {
    [VX_VOXELIZE] = &operation_voxelize,
    [VX_FPS] = &operation_fps,
    [VX_POINTS_OP] = &operation_points,
    [VX_TRANSFORM] = &operation_transform,
    [VX_NMS] = &operation_nms,
    [VX_DECODE] = &operation_decode,
    [VX_SCATTER] = &operation_scatter,
    [VX_DECODE_CENTER] = &operation_decode_center,
    [VX_DETECT] = &operation_detect,
    [VX_BACKBONE] = &operation_backbone,
    [VX_SERIALIZE] = &operation_serialize,
    [VX_RANGE_IMAGE_OP] = &operation_range_image,
};

enum vx_op operation_with_head(const char *head, size_t length) {
  enum vx_op op = 0;
  for (; op < VX_OPS; op++) {
    const char *own = operations[op]->head;
    if (own && strlen(own) == length && memcmp(own, head, length) == 0) break;
  }
  return op;
}

static param_rows rows_of(const struct job_request *request) { return operations[request->job.op]->rows; }

static int find(const struct job_request *request, const char *name) {
  return params_find(rows_of(request), name, strlen(name));
}

// ---- making ---------------------------------------------------------------------------------------------------------

void job_request_init(struct job_request *request, enum vx_op op) {
  struct pool pool = request->pool;
  pool_reset(&pool);
  *request = (struct job_request){.pool = pool, .job.op = op};
  request->max_sampling_work = INT64_MAX;
  request->format = operations[op]->body;
  request->chain.pool = &request->pool;
  params_init(rows_of(request), request);
  if (operations[op]->step) chain_init_plain(&request->chain, operations[op]->step->type);
}

// A copy in the pool; NULL without memory. Returns a list without items as it is.
static void *copy_list(struct pool *pool, void *from, int32_t count, size_t item_bytes) {
  if (count == 0) return from;
  void *to = pool_take(pool, (size_t)count * item_bytes);
  if (to) memcpy(to, from, (size_t)count * item_bytes);
  return to;
}

static const char *copy_names(struct pool *pool, const char *names) {
  char *to = names ? pool_take(pool, strlen(names) + 1) : NULL;
  return to ? strcpy(to, names) : NULL;
}

// Requests are copied from presets and models, which have no scales, no lists of sweeps and no motion (settings_read).
bool job_request_copy(struct job_request *to, const struct job_request *from) {
  struct pool pool = to->pool;
  pool_reset(&pool);
  *to = *from;
  to->pool = pool;
  to->chain.pool = &to->pool;
  to->point_counts = copy_list(&to->pool, from->point_counts, from->num_clouds, sizeof *from->point_counts);
  to->sample_counts = copy_list(&to->pool, from->sample_counts, from->num_sample_counts, sizeof *from->sample_counts);
  to->image.channels = copy_names(&to->pool, from->image.channels);
  to->image.ring = copy_names(&to->pool, from->image.ring);
  return !to->pool.failed && (from->chain.count == 0 || chain_copy(&to->chain, &from->chain, &to->pool));
}

struct job_request *job_request_new(enum vx_op op) {
  struct job_request *request = calloc(1, sizeof *request);
  if (request) job_request_init(request, op);
  return request;
}

void job_request_release(struct job_request *request) {
  if (request) pool_release(&request->pool);
  free(request);
}

static bool refuse_unknown(const struct job_request *request, const char *name, size_t length, struct error *error) {
  char unknown[64], full[64], hint[96];
  struct text of_step = text_over(full, sizeof full);
  struct suggestion near = suggest(name, length);
  const struct step_kind *step = operations[request->job.op]->step;
  for (param_rows row = rows_of(request); *row; row++) suggest_try(&near, (*row)->name);
  for (param_rows row = step ? step->rows : NULL; row && *row; row++) suggest_try(&near, (*row)->name);
  if (chain_suggest(&request->chain, name, length, &of_step)) near.name = full;
  snprintf(unknown, sizeof unknown, "%.*s", (int)(length < sizeof unknown ? length : sizeof unknown - 1), name);
  return error_refuse(error, ERROR_BAD_PARAMETER, unknown, "there is no parameter '%s' here%s; see /openapi.yaml",
                      unknown, suggest_text(&near, hint, sizeof hint));
}

bool job_request_set(struct job_request *request, const char *name, size_t name_length, const char *value,
                     size_t value_length, struct error *error) {
  int row = params_find(rows_of(request), name, name_length);
  if (request->pool.failed) return pool_refuse(error);
  if (row < 0 && chain_owns(&request->chain, name, name_length))
    return chain_set(&request->chain, name, name_length, value, value_length, error);
  if (row < 0) return refuse_unknown(request, name, name_length, error);
  const struct param *param = rows_of(request)[row];
  if (!value) return error_refuse(error, ERROR_BAD_PARAMETER, param->name, "%s has no value", param->name);
  if (param_read(param, value, value_length, request)) {
    request->given[row] = true;
    return true;
  }
  if (request->pool.failed) return pool_refuse(error);
  if (param->type == &value_steps && chain_refuse_repeated(&request->chain, value, value_length, error)) return false;
  return job_request_refuse(request, param->name, value, value_length, error);
}

bool job_request_is_given(const struct job_request *request, const char *name) {
  int row = find(request, name);
  return row >= 0 && request->given[row];
}

bool job_request_refuse(const struct job_request *request, const char *name, const char *value, size_t value_length,
                        struct error *error) {
  return param_refuse(rows_of(request)[find(request, name)], name, value, value_length, error);
}

void job_request_unset(struct job_request *request, const char *name) { request->given[find(request, name)] = false; }

void job_request_unset_outputs(struct job_request *request) {
  request->outputs = 0;
  job_request_unset(request, "outputs");
}

// ---- finishing ------------------------------------------------------------------------------------------------------

static bool check_names(struct job_request *request, struct error *error) {
  static const char axes[] = "xyzXYZ";
  if (job_request_is_given(request, "num_features") && request->num_features != request->num_fields)
    return error_refuse(error, ERROR_BAD_PARAMETER, "num_features",
                        "num_features is %d, but fields has %d names; allowed: the same number, or only one of the two",
                        (int)request->num_features, (int)request->num_fields);
  request->num_features = request->num_fields;
  for (int a = 0; a < 6; a++) {
    int place = value_find_name(request->fields, axes + a, 1);
    if (place >= 0 && place != a % 3)
      return error_refuse(error, ERROR_BAD_PARAMETER, "fields",
                          "fields has %c in place %d; allowed: x, y and z in the first three places", axes[a],
                          place + 1);
  }
  return true;
}

static bool check_intensity(const struct job_request *request, struct error *error) {
  if (request->dtype != VX_FLOAT32)
    return error_refuse(error, ERROR_BAD_PARAMETER, "intensity_scale",
                        "intensity_scale is given with dtype=%s; allowed: with every other type",
                        vx_float_words[request->dtype]);
  bool unknown = request->num_fields ? value_find_name(request->fields, "intensity", strlen("intensity")) < 0
                                     : request->format == FORMAT_RAW || request->format == FORMAT_SAFETENSORS;
  if (!unknown) return true;
  return error_refuse(error, ERROR_BAD_PARAMETER, "intensity_scale",
                      "intensity_scale is given, but no column is named intensity; name the columns, for example "
                      "fields=x,y,z,intensity");
}

static bool check_types(struct job_request *request, struct error *error) {
  int32_t types = request->columns.num_types;
  bool counted = request->num_fields || job_request_is_given(request, "num_features");
  if (types > 1 && counted && types != request->num_features)
    return error_refuse(error, ERROR_BAD_PARAMETER, "dtype", "dtype has %d types, but a row has %d columns", (int)types,
                        (int)request->num_features);
  if (types > 1) request->num_features = types;
  if (request->num_features >= VX_MIN_FEATURES) return true;
  return error_refuse(error, ERROR_BAD_PARAMETER, "dtype", "dtype has %d types; allowed: 1, or %d to %d", (int)types,
                      VX_MIN_FEATURES, VX_MAX_FEATURES);
}

// Only raw rows have types and filters; only raw rows and tensors have scales.
static bool check_format(const struct job_request *request, struct error *error) {
  const struct column_terms *terms = &request->columns;
  bool raw = request->format == FORMAT_RAW, scalable = raw || request->format == FORMAT_SAFETENSORS;
  if (!raw && (terms->num_types > 1 || terms->types[0] != VX_FLOAT32))
    return error_refuse(error, ERROR_BAD_PARAMETER, "dtype",
                        "dtype is given, but with this format the body says its types; allowed: float32");
  if (!raw && terms->filters)
    return error_refuse(error, ERROR_BAD_PARAMETER, "filter", "filter is given with a format; allowed: with raw rows");
  return scalable || !terms->num_scales ||
         error_refuse(error, ERROR_BAD_PARAMETER, "scale",
                      "scale is given with a format; allowed: with raw rows, or with format=safetensors");
}

bool job_request_set_format(struct job_request *request, enum body_format format, struct error *error) {
  request->format = format;
  return check_format(request, error);
}

static bool has_floats(const struct job_request *request) {
  for (int c = 0; c < request->num_features; c++)
    if (vx_is_float(column_dtype(&request->columns, c))) return true;
  return false;
}

static bool check_filter(const struct job_request *request, struct error *error) {
  const struct column_terms *terms = &request->columns;
  bool direction = terms->filters & FILTER_BIT(FILTER_DIRECTION);
  if (!direction && !(terms->filters & FILTER_BIT(FILTER_DELTA))) return true;
  if (has_floats(request))
    return error_refuse(error, ERROR_BAD_PARAMETER, "filter",
                        "filter has %s, but a column has a floating type; allowed: with integers alone",
                        direction ? "direction" : "delta");
  for (int c = 0; direction && c < VX_MIN_FEATURES; c++)
    if (column_dtype(terms, c) != VX_INT32)
      return error_refuse(error, ERROR_BAD_PARAMETER, "filter",
                          "filter has direction, but column %d is not int32; allowed: with int32 in the first three",
                          c + 1);
  return true;
}

// The columns of a body of tensors are known only once it is read.
static bool check_scale(const struct job_request *request, struct error *error) {
  const struct column_terms *terms = &request->columns;
  return terms->num_scales <= request->num_features ||
         error_refuse(error, ERROR_BAD_PARAMETER, "scale", "scale has %d numbers, but a row has %d columns",
                      (int)terms->num_scales, (int)request->num_features);
}

bool job_request_widens(const struct job_request *request) {
  const struct column_terms *terms = &request->columns;
  return terms->num_types > 1 || !vx_is_float(column_dtype(terms, 0)) || terms->num_scales || terms->filters;
}

static void find_dtype(struct job_request *request) {
  request->dtype = job_request_widens(request) ? VX_FLOAT32 : column_dtype(&request->columns, 0);
}

void job_request_set_dtype(struct job_request *request, enum vx_dtype dtype) {
  request->columns.num_types = 1;
  request->columns.types[0] = (uint8_t)dtype;
  find_dtype(request);
}

// `fields`, or a `dtype` of several types, sets num_features.
static bool finish_columns(struct job_request *request, struct error *error) {
  if (request->num_fields && !check_names(request, error)) return false;
  if (!check_types(request, error) || !check_format(request, error) || !check_filter(request, error)) return false;
  find_dtype(request);
  return request->intensity_scale == 0 || check_intensity(request, error);
}

static bool check_chain(const struct job_request *request, struct error *error) {
  vx_tensor_set without =
      vx_is_chained(&request->job) || request->chain.count > 0 ? 0 : request->job.tensors & VX_CHAIN_TENSORS;
  return !without || error_refuse(error, ERROR_BAD_PARAMETER, "outputs", "outputs names %s, which needs steps",
                                  vx_tensors[__builtin_ctzll(without)].name);
}

bool job_request_finish(struct job_request *request, struct error *error) {
  const struct operation *operation = operations[request->job.op];
  if (request->pool.failed) return pool_refuse(error);
  if (vx_operations[request->job.op].items == VX_POINT_ITEMS) {
    if (!finish_columns(request, error)) return false;
    request->job.inputs[VX_POINTS] = vx_points_of(request->dtype, 0, request->num_features, NULL);
  }
  request->job.tensors = request->outputs ? request->outputs : operation->tensors(request);
  return (request->chain.count == 0 || chain_finish(&request->chain, error)) && operation->finish(request, error) &&
         check_chain(request, error);
}

// ---- clouds ---------------------------------------------------------------------------------------------------------

const char *job_request_counts(const struct job_request *request) {
  for (param_rows row = rows_of(request); *row; row++)
    if ((*row)->offset == offsetof(struct job_request, point_counts)) return (*row)->name;
  return NULL;
}

size_t job_request_row_bytes(const struct job_request *request) {
  size_t bytes = 0;
  for (int c = 0; c < request->num_features; c++) bytes += vx_dtype_size(column_dtype(&request->columns, c));
  return bytes;
}

int32_t job_request_columns(const struct job_request *request) {
  return request->num_features + (request->stream.name[0] && request->stream.time_column);
}

static bool add_up(const struct job_request *request, const int32_t *counts, int32_t count, int64_t rows,
                   struct error *error) {
  const char *items = vx_item_names[vx_operations[request->job.op].items], *name = job_request_counts(request);
  int64_t sum = 0;
  for (int32_t i = 0; i < count; i++) sum += counts[i];
  if (sum == rows || !name) return true;
  return error_refuse(error, ERROR_BAD_BODY, name, "%s add up to %lld %s but the body has %lld", name, (long long)sum,
                      items, (long long)rows);
}

static bool split_rows(struct job_request *request, int64_t rows, struct error *error) {
  const char *items = vx_item_names[vx_operations[request->job.op].items];
  if (rows > VX_MAX_POINTS)
    return error_refuse(error, ERROR_IMPOSSIBLE, NULL, "the body has %lld %s; allowed: up to %lld", (long long)rows,
                        items, (long long)VX_MAX_POINTS);
  if (vx_operations[request->job.op].rows_carry_cloud_index) return true;
  if (request->num_clouds == 0) {
    request->num_clouds = 1;
    request->point_counts = pool_take(&request->pool, sizeof *request->point_counts);
    if (!request->point_counts) return pool_refuse(error);
    request->point_counts[0] = (int32_t)rows;
    return true;
  }
  return add_up(request, request->point_counts, request->num_clouds, rows, error);
}

// A client that sends the input as a tensor chooses its shape.
static bool check_input(const struct job_request *request, int number, struct error *error) {
  const struct vx_input *input = &request->job.inputs[number];
  const struct vx_input_row *row = &vx_operations[request->job.op].inputs[number];
  struct vx_sizes sizes = vx_sizes_of(&request->job);
  char given[96], expected[96];
  if (vx_input_fits(input, row, &sizes)) return true;
  struct text is = text_over(given, sizeof given), should = text_over(expected, sizeof expected);
  for (int d = 0; d < input->rank; d++) text_printf(&is, "%s%lld", d ? "," : "", (long long)input->dims[d]);
  for (int d = 0; d < VX_MAX_RANK && row->extents[d] != VX_EXTENT_NONE; d++)
    text_printf(&should, "%s%lld", d ? "," : "", (long long)vx_extent_of(row->extents[d], &sizes));
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the input %s has the shape [%s]; allowed: [%s]", row->name, given,
                      expected);
}

static bool split_chain(struct job_request *request, struct error *error) {
  const struct vx_input *matrix = request->job.op == VX_TRANSFORM ? &request->job.inputs[VX_MATRIX] : NULL;
  const struct chain_points points = {.num_points = request->job.inputs[VX_POINTS].dims[0],
                                      .num_columns = job_request_columns(request),
                                      .num_clouds = request->num_clouds,
                                      .fields = request->fields,
                                      .matrix = matrix && matrix->rank ? matrix : NULL,
                                      .max_work = request->max_sampling_work};
  return chain_split(&request->chain, &points, error);
}

static bool split_job(struct job_request *request, struct error *error) {
  const struct operation *operation = operations[request->job.op];
  return (request->chain.count == 0 || split_chain(request, error)) &&
         (!operation->split || operation->split(request, error));
}

bool job_request_split(struct job_request *request, int64_t rows, struct error *error) {
  const struct operation *operation = operations[request->job.op];
  if (operation->count && !operation->count(request, error)) return false;
  if (!check_scale(request, error) || !split_rows(request, rows, error)) return false;
  request->job.num_clouds = request->num_clouds;
  if (vx_operations[request->job.op].items == VX_POINT_ITEMS) request->job.inputs[VX_POINTS].dims[0] = rows;
  for (int i = 0; i < VX_MAX_INPUTS; i++)
    if (request->job.inputs[i].rank > 0 && !check_input(request, i, error)) return false;
  const struct sent_sweeps *sent = &request->sent;
  if (request->stream.name[0]) return sent->count == 0 || add_up(request, sent->points, sent->count, rows, error);
  return split_job(request, error);
}

bool job_request_join(struct job_request *request, int64_t rows, struct error *error) {
  int32_t columns = job_request_columns(request);
  if (columns > VX_MAX_FEATURES)
    return error_refuse(error, ERROR_BAD_PARAMETER, "time_column",
                        "with time_column=yes the points have %d columns; allowed: up to %d", (int)columns,
                        VX_MAX_FEATURES);
  request->num_clouds = 0;
  if (!split_rows(request, rows, error)) return false;
  request->job.num_clouds = request->num_clouds;
  request->job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, rows, columns, NULL);
  return split_job(request, error);
}

struct vx_job job_request_job(const struct job_request *request, const void *points) {
  static const struct vx_chain no_steps;
  struct vx_job job = request->job;
  job.inputs[0].data = points;
  job.point_counts = request->point_counts;
  if (request->num_sample_counts > 0) job.sample_counts = request->sample_counts;
  if (request->chain.count > 0)
    job.chain = request->chain.bound;
  else if (vx_is_chained(&request->job))
    job.chain = &no_steps;
  if (operations[job.op]->bind) operations[job.op]->bind(request, &job);
  return job;
}

// ---- writing --------------------------------------------------------------------------------------------------------

void job_request_write(const struct job_request *request, struct text *out) {
  param_rows rows = rows_of(request);
  bool given[PARAMS_MAX];
  for (int i = 0; rows[i]; i++)
    given[i] = request->given[i] && (request->metadata == METADATA_FULL || rows[i]->type != &value_region);
  json_printf(out, "{");
  params_write_members(rows, given, request, out);
  if (request->chain.plain) chain_write_plain(&request->chain, out);
  json_printf(out, "}");
}

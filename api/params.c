// The parameter table and the code that reads and writes values by its rows; see params.h.
#include "api/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum param_type {
  TYPE_INT,
  TYPE_FLOATS,
  TYPE_WORD,
  TYPE_FEATURES,
  TYPE_TENSORS,
  TYPE_BLOCK_FILTER,
  TYPE_COUNTS,
  TYPE_PRESET
};

struct param {
  const char *name;
  enum param_type type;
  size_t offset;             // of the field in struct voxelize_request
  int64_t least, most;       // TYPE_INT: bounds; TYPE_FLOATS: how many
  const char *const *words;  // TYPE_WORD: the values of the enum in order, then NULL
  const char *initial;       // the default's text; NULL = none
  const char *allowed;       // in words; NULL = follows from type, bounds or words
  const char *doc;
};

static const char *const dtype_words[] = {"float32", "float16", NULL};  // VX_FLOAT32, VX_FLOAT16
static const char *const order_words[] = {"first", "key", NULL};        // enum vx_order
static const char *const fill_words[] = {"zero", "mean", NULL};         // enum vx_fill
static const char *const feature_words[] = {"points", "mean", "pillar", NULL};

#define FIELD(member) offsetof(struct voxelize_request, member)
static const struct param params[] = {
    {"preset", TYPE_PRESET, FIELD(preset), 0, 0, NULL, NULL, "a name of GET /v1/presets",
     "a named parameter set; the query overrides it"},
    {"num_features", TYPE_INT, FIELD(job.num_features), VX_MIN_FEATURES, VX_MAX_FEATURES, NULL, "4", NULL,
     "columns of a row (C): x, y, z first"},
    {"dtype", TYPE_WORD, FIELD(job.input_dtype), 0, 0, dtype_words, "float32", NULL, "type of the body's values"},
    {"point_counts", TYPE_COUNTS, FIELD(point_counts), 0, 0, NULL, NULL,
     "1 to 1024 whole numbers that add up to the rows of the body", "splits the body into a batch of clouds"},
    {"point_cloud_range", TYPE_FLOATS, FIELD(job.range_min), 6, 6, NULL, NULL,
     "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
     "metres; a point is inside where its cell is"},
    {"voxel_size", TYPE_FLOATS, FIELD(job.voxel_size), 3, 3, NULL, NULL, "x,y,z, finite, each above 0", "metres"},
    {"max_points_per_voxel", TYPE_INT, FIELD(job.max_points_per_voxel), 0, VX_MAX_POINTS_PER_VOXEL, NULL, "32", NULL,
     "P: a voxel keeps its first P points; 0 = no cap (dynamic voxelization)"},
    {"max_voxels", TYPE_INT, FIELD(job.max_voxels), 1, VX_MAX_VOXELS, NULL, "40000", NULL,
     "per cloud: the first that appear are kept"},
    {"feature", TYPE_FEATURES, FIELD(features), 0, 0, NULL, "mean", "a list of points, mean, pillar",
     "which tensors are computed"},
    {"feature_dtype", TYPE_WORD, FIELD(job.feature_dtype), 0, 0, dtype_words, "float32", NULL,
     "type of voxel_features and pillar_features"},
    {"order", TYPE_WORD, FIELD(job.order), 0, 0, order_words, "first", NULL,
     "voxels by first appearance (spconv), or by ascending batch, x, y, z (torch.unique of dynamic VFEs)"},
    {"fill", TYPE_WORD, FIELD(job.fill), 0, 0, fill_words, "zero", NULL,
     "what pads voxels: zeros or the voxel's mean (spconv full_mean)"},
    {"block_filter", TYPE_BLOCK_FILTER, FIELD(job.block_filter), 0, 0, NULL, "off",
     "off, or block_factor,block_size,height_threshold,height_high_threshold (factor 1 or more, size 1 to 32)",
     "keep a voxel only where the heights around it span more and less than the thresholds (spconv)"},
    {"outputs", TYPE_TENSORS, FIELD(outputs), 0, 0, NULL, NULL,
     "a list of voxel_coords, voxel_num_points, voxels, voxel_features, pillar_features, point_voxel_ids, "
     "voxel_point_mask",
     "which tensors to return; without it voxel_coords, voxel_num_points and those that feature computes"},
    {"timeout_ms", TYPE_INT, FIELD(timeout_ms), 0, 3600000, NULL, "0", NULL,
     "how long the job may wait for a worker before it is answered 504; 0 = the server's own limit"},
};
_Static_assert(FIELD(job.range_max) == FIELD(job.range_min) + 3 * sizeof(float),
               "point_cloud_range is read as six floats");
enum { PARAM_COUNT = sizeof params / sizeof *params };
_Static_assert(PARAM_COUNT <= 32, "struct voxelize_request.given has a bit a row");

// ---- reading a value --------------------------------------------------------------------------------------------------

static void allowed_text(const struct param *param, char *out, size_t size) {
  if (param->allowed) {
    snprintf(out, size, "%s", param->allowed);
  } else if (param->type == TYPE_INT) {
    snprintf(out, size, "a whole number from %lld to %lld", (long long)param->least, (long long)param->most);
  } else {
    size_t length = 0;
    out[0] = '\0';
    for (const char *const *word = param->words; *word && length < size; word++)
      length += (size_t)snprintf(out + length, size - length, "%s%s", length ? " or " : "", *word);
  }
}

// The next item of a comma list, as a NUL-terminated copy in `item`; false at the end or where an item is empty or too long.
static bool next_item(const char **cursor, const char *end, char *item, size_t size) {
  if (!*cursor || *cursor > end) return false;
  const char *comma = memchr(*cursor, ',', (size_t)(end - *cursor));
  size_t length = (size_t)((comma ? comma : end) - *cursor);
  if (length == 0 || length >= size || memchr(*cursor, '\0', length)) return false;
  memcpy(item, *cursor, length);
  item[length] = '\0';
  *cursor = comma ? comma + 1 : end + 1;
  return true;
}

// True if the cursor went over the whole list, so that no item was refused.
static bool list_ended(const char *cursor, const char *end) { return cursor == end + 1; }

static bool parse_int(const char *item, int64_t least, int64_t most, int64_t *out) {
  if (strspn(item, "0123456789") != strlen(item) || strlen(item) > 10) return false;
  *out = strtoll(item, NULL, 10);
  return *out >= least && *out <= most;
}

// Decimal text to float64 to float32, so that a query and a preset file give the same bits.
static bool parse_float(const char *item, float *out) {
  char *rest;
  if (strspn(item, "0123456789+-.eE") != strlen(item)) return false;
  *out = (float)strtod(item, &rest);
  return *rest == '\0' && isfinite(*out);
}

static int word_index(const char *const *words, const char *item) {
  for (int i = 0; words[i]; i++)
    if (strcmp(words[i], item) == 0) return i;
  return -1;
}

static int tensor_index(const char *item) {
  for (int i = 0; i < VX_TENSOR_COUNT; i++)
    if (strcmp(vx_tensor_name((enum vx_tensor)i), item) == 0) return i;
  return -1;
}

static bool read_floats(const struct param *param, const char *cursor, const char *end, float *out) {
  char item[64];
  for (int64_t i = 0; i < param->least; i++)
    if (!next_item(&cursor, end, item, sizeof item) || !parse_float(item, &out[i])) return false;
  return list_ended(cursor, end);
}

// A list of words, each once, as a set of bits.
static bool read_set(const struct param *param, const char *cursor, const char *end, uint32_t *out) {
  char item[64];
  *out = 0;
  while (next_item(&cursor, end, item, sizeof item)) {
    int index = param->type == TYPE_TENSORS ? tensor_index(item) : word_index(feature_words, item);
    if (index < 0 || *out & 1u << index) return false;
    *out |= 1u << index;
  }
  return list_ended(cursor, end);
}

static bool read_counts(const char *cursor, const char *end, struct voxelize_request *request) {
  char item[16];
  int64_t count;
  request->num_clouds = 0;
  while (request->num_clouds < VX_MAX_CLOUDS && next_item(&cursor, end, item, sizeof item)) {
    if (!parse_int(item, 0, VX_MAX_POINTS, &count)) return false;
    request->point_counts[request->num_clouds++] = (int32_t)count;
  }
  return list_ended(cursor, end);
}

static bool read_block_filter(const char *cursor, const char *end, struct vx_block_filter *out) {
  char item[64];
  int64_t factor, size;
  *out = (struct vx_block_filter){.enabled = false};
  if (end - cursor == 3 && memcmp(cursor, "off", 3) == 0) return true;
  if (!next_item(&cursor, end, item, sizeof item) || !parse_int(item, 1, INT32_MAX, &factor)) return false;
  if (!next_item(&cursor, end, item, sizeof item) || !parse_int(item, 1, VX_MAX_BLOCK_SIZE, &size)) return false;
  if (!next_item(&cursor, end, item, sizeof item) || !parse_float(item, &out->low)) return false;
  if (!next_item(&cursor, end, item, sizeof item) || !parse_float(item, &out->high)) return false;
  out->enabled = true;
  out->factor = (int32_t)factor;
  out->size = (int32_t)size;
  return list_ended(cursor, end);
}

static bool read_text(const char *cursor, const char *end, char out[64]) {
  char item[64];
  if (!next_item(&cursor, end, item, sizeof item) || !list_ended(cursor, end)) return false;
  memcpy(out, item, sizeof item);
  return true;
}

static bool read_scalar(const struct param *param, const char *cursor, const char *end, void *field) {
  char item[64];
  int64_t number = -1;
  if (!next_item(&cursor, end, item, sizeof item) || !list_ended(cursor, end)) return false;
  if (param->type == TYPE_INT) {
    if (!parse_int(item, param->least, param->most, &number)) return false;
  } else {
    number = word_index(param->words, item);
    if (number < 0) return false;
  }
  *(int32_t *)field = (int32_t)number;
  return true;
}
_Static_assert(sizeof(enum vx_dtype) == sizeof(int32_t) && sizeof(enum vx_order) == sizeof(int32_t) &&
                   sizeof(enum vx_fill) == sizeof(int32_t),
               "read_scalar writes words and integers alike");

static bool read_value(const struct param *param, const char *value, size_t length, struct voxelize_request *request) {
  const char *end = value + length;
  void *field = (char *)request + param->offset;
  switch (param->type) {
    case TYPE_INT:
    case TYPE_WORD: return read_scalar(param, value, end, field);
    case TYPE_FLOATS: return read_floats(param, value, end, field);
    case TYPE_FEATURES:
    case TYPE_TENSORS: return read_set(param, value, end, field);
    case TYPE_BLOCK_FILTER: return read_block_filter(value, end, field);
    case TYPE_COUNTS: return read_counts(value, end, request);
    case TYPE_PRESET: return read_text(value, end, field);
  }
  return false;
}

// ---- the request ------------------------------------------------------------------------------------------------------

static const struct param *find_param(const char *name, size_t length) {
  for (size_t i = 0; i < PARAM_COUNT; i++)
    if (strlen(params[i].name) == length && memcmp(params[i].name, name, length) == 0) return &params[i];
  return NULL;
}

static uint32_t bit_of(const struct param *param) { return 1u << (param - params); }

static bool is_given(const struct voxelize_request *request, const char *name) {
  return request->given & bit_of(find_param(name, strlen(name)));
}

void voxelize_request_init(struct voxelize_request *request) {
  memset(request, 0, sizeof *request);
  for (size_t i = 0; i < PARAM_COUNT; i++)
    if (params[i].initial) (void)!read_value(&params[i], params[i].initial, strlen(params[i].initial), request);
}

bool voxelize_request_set(struct voxelize_request *request, const char *name, size_t name_length, const char *value,
                          size_t value_length, struct problem *problem) {
  const struct param *param = find_param(name, name_length);
  if (!param) {
    char unknown[64];
    snprintf(unknown, sizeof unknown, "%.*s", (int)(name_length < sizeof unknown ? name_length : sizeof unknown - 1),
             name);
    return problem_set(problem, PROBLEM_BAD_PARAMETER, unknown, "there is no parameter '%s'; see /openapi.yaml",
                       unknown);
  }
  if (!value) return problem_set(problem, PROBLEM_BAD_PARAMETER, param->name, "%s has no value", param->name);
  if (!read_value(param, value, value_length, request))
    return voxelize_request_refuse(param->name, value, value_length, problem);
  request->given |= bit_of(param);
  return true;
}

bool voxelize_request_refuse(const char *name, const char *value, size_t value_length, struct problem *problem) {
  char allowed[256];
  allowed_text(find_param(name, strlen(name)), allowed, sizeof allowed);
  int shown = value_length > 80 ? 80 : (int)value_length;
  return problem_set(problem, PROBLEM_BAD_PARAMETER, name, "%s is '%.*s'%s; allowed: %s", name, shown, value,
                     value_length > 80 ? "..." : "", allowed);
}

void voxelize_request_unset_outputs(struct voxelize_request *request) {
  request->outputs = 0;
  request->given &= ~bit_of(find_param("outputs", 7));
}

static uint32_t default_tensors(uint32_t features) {
  static const enum vx_tensor tensor_of[FEATURE_COUNT] = {VX_VOXELS, VX_VOXEL_FEATURES, VX_PILLAR_FEATURES};
  uint32_t tensors = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_NUM_POINTS);
  for (int feature = 0; feature < FEATURE_COUNT; feature++)
    if (features & 1u << feature) tensors |= VX_TENSOR_BIT(tensor_of[feature]);
  return tensors;
}

static bool check_tensors(struct voxelize_request *request, struct problem *problem) {
  uint32_t computed = default_tensors(request->features);
  uint32_t available = computed | VX_TENSOR_BIT(VX_POINT_VOXEL_IDS) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  uint32_t tensors = request->outputs ? request->outputs : computed;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (tensors & ~available & VX_TENSOR_BIT(tensor))
      return problem_set(problem, PROBLEM_BAD_PARAMETER, "outputs", "outputs names %s, which feature does not compute",
                         vx_tensor_name((enum vx_tensor)tensor));
  uint32_t padded = VX_TENSOR_BIT(VX_VOXELS) | VX_TENSOR_BIT(VX_PILLAR_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_POINT_MASK);
  for (int tensor = 0; request->job.max_points_per_voxel == 0 && tensor < VX_TENSOR_COUNT; tensor++)
    if (tensors & padded & VX_TENSOR_BIT(tensor))
      return problem_set(problem, PROBLEM_IMPOSSIBLE, "max_points_per_voxel",
                         "%s is padded to max_points_per_voxel points, so it needs a cap of 1 or more; "
                         "with 0 (no cap) ask for feature=mean and point_voxel_ids",
                         vx_tensor_name((enum vx_tensor)tensor));
  request->job.tensors = tensors;
  return true;
}

bool voxelize_request_finish(struct voxelize_request *request, struct problem *problem) {
  static const char *const needed[] = {"point_cloud_range", "voxel_size"};
  static const char axes[] = "xyz";
  struct vx_voxelize_params *job = &request->job;
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
  if (!check_tensors(request, problem)) return false;
  struct vx_grid grid;
  struct vx_error error;
  if (vx_grid_of(job, request->num_clouds ? request->num_clouds : 1, &grid, &error) != VX_OK)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, "voxel_size", "%s", error.text);
  return true;
}

size_t voxelize_request_row_bytes(const struct voxelize_request *request) {
  return (size_t)request->job.num_features * vx_dtype_size(request->job.input_dtype);
}

bool voxelize_request_split(struct voxelize_request *request, int64_t rows, struct problem *problem) {
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

// ---- writing ----------------------------------------------------------------------------------------------------------

static void write_floats(struct text *out, const float *values, int64_t count) {
  text_put(out, "[");
  for (int64_t i = 0; i < count; i++) {
    if (i) text_put(out, ",");
    text_float(out, values[i]);
  }
  text_put(out, "]");
}

static void write_set(struct text *out, const struct param *param, uint32_t set) {
  const char *comma = "";
  text_put(out, "[");
  for (int i = 0; i < 32; i++) {
    if (!(set & 1u << i)) continue;
    text_printf(out, "%s\"%s\"", comma,
                param->type == TYPE_TENSORS ? vx_tensor_name((enum vx_tensor)i) : feature_words[i]);
    comma = ",";
  }
  text_put(out, "]");
}

static void write_block_filter(struct text *out, const struct vx_block_filter *filter) {
  if (!filter->enabled) {
    text_put(out, "\"off\"");
    return;
  }
  text_printf(out, "[%d,%d,", filter->factor, filter->size);
  text_float(out, filter->low);
  text_put(out, ",");
  text_float(out, filter->high);
  text_put(out, "]");
}

static void write_value(const struct param *param, const struct voxelize_request *request, struct text *out) {
  const void *field = (const char *)request + param->offset;
  switch (param->type) {
    case TYPE_INT: text_printf(out, "%d", *(const int32_t *)field); break;
    case TYPE_WORD: text_printf(out, "\"%s\"", param->words[*(const int32_t *)field]); break;
    case TYPE_FLOATS: write_floats(out, field, param->least); break;
    case TYPE_FEATURES: write_set(out, param, request->features); break;
    case TYPE_TENSORS: write_set(out, param, request->job.tensors); break;
    case TYPE_BLOCK_FILTER: write_block_filter(out, field); break;
    case TYPE_PRESET: text_json_string(out, field, strlen(field)); break;
    case TYPE_COUNTS:
      text_put(out, "[");
      for (int32_t i = 0; i < request->num_clouds; i++)
        text_printf(out, "%s%d", i ? "," : "", request->point_counts[i]);
      text_put(out, "]");
      break;
  }
}

void voxelize_request_write(const struct voxelize_request *request, struct text *out) {
  const char *comma = "";
  text_put(out, "{");
  for (size_t i = 0; i < PARAM_COUNT; i++) {
    bool given = request->given & bit_of(&params[i]);
    // Without a default there is no value to show; outputs always has one, the tensors in effect.
    if (!given && !params[i].initial && params[i].type != TYPE_TENSORS) continue;
    text_printf(out, "%s\"%s\":", comma, params[i].name);
    write_value(&params[i], request, out);
    comma = ",";
  }
  text_put(out, "}");
}

void params_describe(struct text *out) {
  static const char *const types[] = {"int", "floats", "string", "list", "list", "list", "ints", "string"};
  text_put(out, "[");
  for (size_t i = 0; i < PARAM_COUNT; i++) {
    char allowed[256];
    allowed_text(&params[i], allowed, sizeof allowed);
    text_printf(out, "%s\n    {\"name\":\"%s\",\"type\":\"%s\",\"default\":", i ? "," : "", params[i].name,
                types[params[i].type]);
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

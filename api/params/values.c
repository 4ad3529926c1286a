// Values by the rows of the parameter table; see values.h.
#include "api/params/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const feature_words[] = {"points", "mean", "pillar", NULL};

// ---- reading a value --------------------------------------------------------------------------------------------------

static void list_tensors(uint32_t tensors, char *out, size_t size) {
  size_t length = (size_t)snprintf(out, size, "a list of ");
  const char *comma = "";
  for (int tensor = 0; tensor < VX_TENSOR_COUNT && length < size; tensor++) {
    if (!(tensors & VX_TENSOR_BIT(tensor))) continue;
    length += (size_t)snprintf(out + length, size - length, "%s%s", comma, vx_tensor_name((enum vx_tensor)tensor));
    comma = ", ";
  }
}

void param_allowed(const struct param *param, char *out, size_t size) {
  if (param->allowed) {
    snprintf(out, size, "%s", param->allowed);
  } else if (param->type == TYPE_INT) {
    snprintf(out, size, "a whole number from %lld to %lld", (long long)param->least, (long long)param->most);
  } else if (param->type == TYPE_TENSORS) {
    list_tensors((uint32_t)param->most, out, size);
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
    if (param->type == TYPE_TENSORS && !(param->most & VX_TENSOR_BIT(index))) return false;
    *out |= 1u << index;
  }
  return list_ended(cursor, end);
}

// Up to VX_MAX_CLOUDS whole numbers from 0 to VX_MAX_POINTS.
static bool read_numbers(const char *cursor, const char *end, int32_t *out, int32_t *length) {
  char item[16];
  int64_t number;
  *length = 0;
  while (*length < VX_MAX_CLOUDS && next_item(&cursor, end, item, sizeof item)) {
    if (!parse_int(item, 0, VX_MAX_POINTS, &number)) return false;
    out[(*length)++] = (int32_t)number;
  }
  return list_ended(cursor, end);
}

static bool is_off(const char *value, const char *end) { return end - value == 3 && memcmp(value, "off", 3) == 0; }

// Where nothing need be sampled, "off" says so.
static bool read_samples(const struct param *param, const char *cursor, const char *end, struct job_request *request) {
  request->num_sample_counts = 0;
  if (param->initial && is_off(cursor, end)) return true;
  return read_numbers(cursor, end, request->sample_counts, &request->num_sample_counts);
}

static bool read_block_filter(const char *cursor, const char *end, struct vx_block_filter *out) {
  char item[64];
  int64_t factor, size;
  *out = (struct vx_block_filter){.enabled = false};
  if (is_off(cursor, end)) return true;
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

bool param_read(const struct param *param, const char *value, size_t length, struct job_request *request) {
  const char *end = value + length;
  void *field = (char *)request + param->offset;
  switch (param->type) {
    case TYPE_INT:
    case TYPE_WORD: return read_scalar(param, value, end, field);
    case TYPE_FLOATS: return read_floats(param, value, end, field);
    case TYPE_FEATURES:
    case TYPE_TENSORS: return read_set(param, value, end, field);
    case TYPE_BLOCK_FILTER: return read_block_filter(value, end, field);
    case TYPE_COUNTS: return read_numbers(value, end, request->point_counts, &request->num_clouds);
    case TYPE_SAMPLES: return read_samples(param, value, end, request);
    case TYPE_PRESET: return read_text(value, end, field);
    case PARAM_TYPES: break;
  }
  return false;
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

static void write_numbers(struct text *out, const int32_t *values, int32_t count) {
  text_put(out, "[");
  for (int32_t i = 0; i < count; i++) text_printf(out, "%s%d", i ? "," : "", values[i]);
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

void param_write(const struct param *param, const struct job_request *request, struct text *out) {
  const void *field = (const char *)request + param->offset;
  switch (param->type) {
    case TYPE_INT: text_printf(out, "%d", *(const int32_t *)field); break;
    case TYPE_WORD: text_printf(out, "\"%s\"", param->words[*(const int32_t *)field]); break;
    case TYPE_FLOATS: write_floats(out, field, param->least); break;
    case TYPE_FEATURES: write_set(out, param, request->features); break;
    case TYPE_TENSORS: write_set(out, param, request->job.tensors); break;
    case TYPE_BLOCK_FILTER: write_block_filter(out, field); break;
    case TYPE_PRESET: text_json_string(out, field, strlen(field)); break;
    case TYPE_COUNTS: write_numbers(out, request->point_counts, request->num_clouds); break;
    case TYPE_SAMPLES:
      if (request->num_sample_counts == 0)
        text_put(out, "\"off\"");
      else if (request->job.sampling.stacked)
        write_numbers(out, request->sample_counts, request->num_sample_counts);
      else
        text_printf(out, "%d", request->sample_counts[0]);
      break;
    case PARAM_TYPES: break;
  }
}

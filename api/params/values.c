// See values.h.
#include "api/params/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/base/pool.h"
#include "api/base/suggest.h"
#include "kernels/tensor.h"

#define FIELD(record, offset) ((void *)((char *)(record) + (offset)))
#define CONST_FIELD(record, offset) ((const void *)((const char *)(record) + (offset)))

// ---- items ----------------------------------------------------------------------------------------------------------

bool value_next(const char **cursor, const char *end, char *item, size_t size) {
  if (!*cursor || *cursor > end) return false;
  const char *comma = memchr(*cursor, ',', (size_t)(end - *cursor));
  size_t length = (size_t)((comma ? comma : end) - *cursor);
  if (length == 0 || length >= size || memchr(*cursor, '\0', length)) return false;
  memcpy(item, *cursor, length);
  item[length] = '\0';
  *cursor = comma ? value_after(comma, end) : end + 1;
  return true;
}

const char *value_after(const char *separator, const char *end) {
  const char *next = separator + 1;
  while (next < end && *next == ' ') next++;
  return next;
}

bool value_ended(const char *cursor, const char *end) { return cursor == end + 1; }

bool value_is_off(const char *value, const char *end) { return end - value == 3 && memcmp(value, "off", 3) == 0; }

bool value_parse_int(const char *item, int64_t least, int64_t most, int64_t *out) {
  if (strspn(item, "0123456789") != strlen(item) || strlen(item) > 10) return false;
  *out = strtoll(item, NULL, 10);
  return *out >= least && *out <= most;
}

bool value_take_double(const char **cursor, const char *end, double *out) {
  char item[64], *rest;
  if (!value_next(cursor, end, item, sizeof item) || strspn(item, "0123456789+-.eE") != strlen(item)) return false;
  *out = strtod(item, &rest);
  return *rest == '\0' && isfinite(*out);
}

// Reads doubles and rounds them to float. The numbers of presets go the same way, so the bits are the same.
bool value_take_floats(const char **cursor, const char *end, float *out, int64_t count) {
  double number;
  for (int64_t i = 0; i < count; i++) {
    if (!value_take_double(cursor, end, &number)) return false;
    out[i] = (float)number;
    if (!isfinite(out[i])) return false;
  }
  return true;
}

static bool read_numbers(const char *cursor, const char *end, int64_t most, int32_t *out, int32_t *length) {
  char item[16];
  int64_t number;
  *length = 0;
  while (*length < most && value_next(&cursor, end, item, sizeof item)) {
    if (!value_parse_int(item, 0, INT32_MAX, &number)) return false;
    out[(*length)++] = (int32_t)number;
  }
  return value_ended(cursor, end);
}

void *value_take_list(void *record, const char *value, const char *end, char separator, int64_t most,
                      size_t item_bytes) {
  int64_t items = 1;
  for (; value < end && items < most; value++) items += *value == separator;
  return pool_take(record, (size_t)items * item_bytes);
}

bool value_read_clouds(const char *cursor, const char *end, int64_t most, void *record, int32_t **out,
                       int32_t *length) {
  *length = 0;
  *out = value_take_list(record, cursor, end, ',', most, sizeof **out);
  return *out && read_numbers(cursor, end, most, *out, length);
}

static bool read_item(const char *cursor, const char *end, char *item, size_t size) {
  return value_next(&cursor, end, item, size) && value_ended(cursor, end);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

static bool read_int(const struct param *param, const char *value, const char *end, void *record) {
  char item[64];
  int64_t number;
  if (!read_item(value, end, item, sizeof item) || !value_parse_int(item, param->least, param->most, &number))
    return false;
  *(int32_t *)FIELD(record, param->offset) = (int32_t)number;
  return true;
}

static void write_int(const struct param *param, const void *record, struct text *out) {
  json_put_integer(out, *(const int32_t *)CONST_FIELD(record, param->offset));
}

static void allow_int(const struct param *param, struct text *out) {
  text_printf(out, "a whole number from %ld to %ld", param->least, param->most);
}

bool value_read_size(const char *value, const char *end, float size[3]) {
  if (!value_take_floats(&value, end, size, 1)) return false;
  size[1] = size[2] = size[0];
  if (!value_ended(value, end) && !value_take_floats(&value, end, size + 1, 2)) return false;
  return value_ended(value, end) && size[0] > 0 && size[1] > 0 && size[2] > 0;
}

static bool read_floats(const struct param *param, const char *value, const char *end, void *record) {
  return value_take_floats(&value, end, FIELD(record, param->offset), param->least) && value_ended(value, end);
}

void value_write_floats(const float *values, int64_t count, struct text *out) {
  json_printf(out, "[");
  for (int64_t i = 0; i < count; i++) json_put_float(out, values[i]);
  json_printf(out, "]");
}

static bool read_float(const struct param *param, const char *value, const char *end, void *record) {
  float *out = FIELD(record, param->offset);
  bool bounded = param->from < param->to;
  return value_take_floats(&value, end, out, 1) && value_ended(value, end) &&
         (!bounded || ((double)*out >= param->from && (double)*out <= param->to));
}

static void allow_float(const struct param *param, struct text *out) {
  if (isinf(param->to))
    text_printf(out, "a number, %g or more", param->from);
  else
    text_printf(out, "a number from %g to %g", param->from, param->to);
}

static bool read_factor(const struct param *param, const char *value, const char *end, void *record) {
  return read_float(param, value, end, record) && *(float *)FIELD(record, param->offset) != 0;
}

static bool read_length(const struct param *param, const char *value, const char *end, void *record) {
  return read_float(param, value, end, record) && *(float *)FIELD(record, param->offset) > 0;
}

static bool read_double(const struct param *param, const char *value, const char *end, void *record) {
  return value_take_double(&value, end, FIELD(record, param->offset)) && value_ended(value, end);
}

static bool read_doubles(const struct param *param, const char *value, const char *end, void *record) {
  int32_t *count = FIELD(record, param->second);
  double **out = FIELD(record, param->offset);
  *out = value_take_list(record, value, end, ',', param->most, sizeof **out);
  for (*count = 0; *out && *count < param->most && !value_ended(value, end); ++*count)
    if (!value_take_double(&value, end, *out + *count)) return false;
  return value_ended(value, end);
}

static void write_double(const struct param *param, const void *record, struct text *out) {
  json_put_double(out, *(const double *)CONST_FIELD(record, param->offset));
}

void value_write_doubles(const double *values, int32_t count, struct text *out) {
  json_printf(out, "[");
  for (int32_t i = 0; i < count; i++) json_put_double(out, values[i]);
  json_printf(out, "]");
}

static void write_doubles(const struct param *param, const void *record, struct text *out) {
  const int32_t *count = CONST_FIELD(record, param->second);
  value_write_doubles(*(double *const *)CONST_FIELD(record, param->offset), *count, out);
}

static bool read_rows(const struct param *param, const char *value, const char *end, void *record) {
  int32_t *count = FIELD(record, param->second);
  float *out = FIELD(record, param->offset);
  for (*count = 0; *count < param->most && !value_ended(value, end); ++*count)
    if (!value_take_floats(&value, end, out + *count * param->least, param->least)) return false;
  return value_ended(value, end);
}

static void write_rows(const struct param *param, const void *record, struct text *out) {
  const int32_t *count = CONST_FIELD(record, param->second);
  value_write_floats(CONST_FIELD(record, param->offset), *count * param->least, out);
}

static void write_float(const struct param *param, const void *record, struct text *out) {
  json_put_float(out, *(const float *)CONST_FIELD(record, param->offset));
}

static void write_floats(const struct param *param, const void *record, struct text *out) {
  value_write_floats(CONST_FIELD(record, param->offset), param->least, out);
}

static bool read_counts(const struct param *param, const char *value, const char *end, void *record) {
  return read_numbers(value, end, param->most, FIELD(record, param->offset), FIELD(record, param->second));
}

void value_write_counts(const int32_t *values, int32_t count, struct text *out) {
  json_printf(out, "[");
  for (int32_t i = 0; i < count; i++) json_put_integer(out, values[i]);
  json_printf(out, "]");
}

static void write_counts(const struct param *param, const void *record, struct text *out) {
  const int32_t *length = CONST_FIELD(record, param->second);
  value_write_counts(CONST_FIELD(record, param->offset), *length, out);
}

static bool read_clouds(const struct param *param, const char *value, const char *end, void *record) {
  return value_read_clouds(value, end, param->most, record, FIELD(record, param->offset), FIELD(record, param->second));
}

static void write_clouds(const struct param *param, const void *record, struct text *out) {
  const int32_t *length = CONST_FIELD(record, param->second);
  value_write_counts(*(int32_t *const *)CONST_FIELD(record, param->offset), *length, out);
}

// ---- words ----------------------------------------------------------------------------------------------------------

static const char *word_of(const struct param *param, int index) { return param->words[index]; }

static const char *tensor_of(const struct param *param, int index) {
  (void)param;
  return index < VX_TENSOR_COUNT ? vx_tensors[index].name : NULL;
}

typedef const char *(*name_of)(const struct param *param, int index);

static int find_name(const struct param *param, name_of name, const char *item) {
  for (int i = 0; name(param, i); i++)
    if (strcmp(name(param, i), item) == 0) return i;
  return -1;
}

static bool read_word(const struct param *param, const char *value, const char *end, void *record) {
  char item[64];
  if (!read_item(value, end, item, sizeof item)) return false;
  int index = find_name(param, word_of, item);
  if (index >= 0) *(int32_t *)FIELD(record, param->offset) = index;
  return index >= 0;
}
_Static_assert(sizeof(enum vx_dtype) == sizeof(int32_t), "an enum is written as an int32_t");

static void write_word(const struct param *param, const void *record, struct text *out) {
  json_put_string(out, param->words[*(const int32_t *)CONST_FIELD(record, param->offset)]);
}

// A set is a mask: bit i stands for name i.
#define BIT(index) (UINT64_C(1) << (index))

static void list_names(const struct param *param, name_of name, uint64_t allowed, const char *separator,
                       struct text *out) {
  const char *before = "";
  for (int i = 0; name(param, i); i++) {
    if (!(allowed & BIT(i))) continue;
    text_put(out, before);
    text_put(out, name(param, i));
    before = separator;
  }
}

static void suggest_names(const struct param *param, name_of name, uint64_t allowed, struct suggestion *near) {
  for (int i = 0; name(param, i); i++)
    if (allowed & BIT(i)) suggest_try(near, name(param, i));
}

static void suggest_word(const struct param *param, struct suggestion *near) {
  suggest_names(param, word_of, UINT64_MAX, near);
}

static void suggest_tensor(const struct param *param, struct suggestion *near) {
  suggest_names(param, tensor_of, (uint64_t)param->most, near);
}

static void allow_word(const struct param *param, struct text *out) {
  list_names(param, word_of, UINT64_MAX, " or ", out);
}

static bool read_set(const struct param *param, name_of name, uint64_t allowed, const char *cursor, const char *end,
                     uint64_t *out) {
  char item[64];
  *out = 0;
  while (value_next(&cursor, end, item, sizeof item)) {
    int index = find_name(param, name, item);
    if (index < 0 || *out & BIT(index) || !(allowed & BIT(index))) return false;
    *out |= BIT(index);
  }
  return value_ended(cursor, end);
}

static void write_set(const struct param *param, name_of name, uint64_t set, struct text *out) {
  json_printf(out, "[");
  for (int i = 0; name(param, i); i++)
    if (set & BIT(i)) json_put_string(out, name(param, i));
  json_printf(out, "]");
}

static bool read_words(const struct param *param, const char *value, const char *end, void *record) {
  uint64_t set;
  if (!read_set(param, word_of, UINT32_MAX, value, end, &set)) return false;
  *(uint32_t *)FIELD(record, param->offset) = (uint32_t)set;
  return true;
}

static void write_words(const struct param *param, const void *record, struct text *out) {
  write_set(param, word_of, *(const uint32_t *)CONST_FIELD(record, param->offset), out);
}

static void allow_words(const struct param *param, struct text *out) {
  text_put(out, "a list of ");
  list_names(param, word_of, UINT64_MAX, ", ", out);
}

static bool read_tensors(const struct param *param, const char *value, const char *end, void *record) {
  return read_set(param, tensor_of, (uint64_t)param->most, value, end, FIELD(record, param->offset));
}

static void write_tensors(const struct param *param, const void *record, struct text *out) {
  write_set(param, tensor_of, *(const uint64_t *)CONST_FIELD(record, param->second), out);
}

static void allow_tensors(const struct param *param, struct text *out) {
  text_put(out, "a list of ");
  list_names(param, tensor_of, (uint64_t)param->most, ", ", out);
}

void value_write_words(const struct param *param, struct text *out) {
  if (param->words)
    write_set(param, word_of, UINT64_MAX, out);
  else if (param->type == &value_tensors)
    write_set(param, tensor_of, (uint64_t)param->most, out);
  else
    json_put_string(out, NULL);
}

// ---- text -----------------------------------------------------------------------------------------------------------

static bool read_text(const struct param *param, const char *value, const char *end, void *record) {
  char item[64];
  if (!read_item(value, end, item, sizeof item)) return false;
  memcpy(FIELD(record, param->offset), item, sizeof item);
  return true;
}

static void write_text(const struct param *param, const void *record, struct text *out) {
  json_put_string(out, CONST_FIELD(record, param->offset));
}

// ---- names ----------------------------------------------------------------------------------------------------------

int value_find_name(const char *names, const char *name, size_t length) {
  const char *cursor = names, *end = names + strlen(names);
  char item[VALUE_NAMES_SIZE];
  for (int place = 0; value_next(&cursor, end, item, sizeof item); place++)
    if (strlen(item) == length && memcmp(item, name, length) == 0) return place;
  return -1;
}

static bool is_printable(const char *value, const char *end) {
  for (; value < end; value++)
    if ((unsigned char)*value < ' ' || *value == '\x7f') return false;
  return true;
}

static bool read_names(const struct param *param, const char *value, const char *end, void *record) {
  char *names = FIELD(record, param->offset), item[VALUE_NAMES_SIZE];
  int32_t *count = FIELD(record, param->second);
  size_t length = 0;
  names[0] = '\0';
  *count = 0;
  if (end - value >= VALUE_NAMES_SIZE || !is_printable(value, end)) return false;
  while (value_next(&value, end, item, sizeof item)) {
    if (value_find_name(names, item, strlen(item)) >= 0) return false;
    length += (size_t)snprintf(names + length, VALUE_NAMES_SIZE - length, "%s%s", length ? "," : "", item);
    ++*count;
  }
  return value_ended(value, end) && *count >= param->least && *count <= param->most;
}

void value_write_names(const char *names, struct text *out) {
  const char *end = names + strlen(names);
  char item[VALUE_NAMES_SIZE];
  json_printf(out, "[");
  while (value_next(&names, end, item, sizeof item)) json_put_string(out, item);
  json_printf(out, "]");
}

static void write_names(const struct param *param, const void *record, struct text *out) {
  value_write_names(CONST_FIELD(record, param->offset), out);
}

// ---- the types ------------------------------------------------------------------------------------------------------

const struct value_type value_int = {"int", false, read_int, write_int, allow_int, NULL};
const struct value_type value_word = {"string", false, read_word, write_word, allow_word, suggest_word};
const struct value_type value_words = {"list", false, read_words, write_words, allow_words, suggest_word};
const struct value_type value_float = {"float", false, read_float, write_float, allow_float, NULL};
const struct value_type value_floats = {"floats", false, read_floats, write_floats, NULL, NULL};
const struct value_type value_clouds = {"ints", false, read_clouds, write_clouds, NULL, NULL};
const struct value_type value_counts = {"ints", false, read_counts, write_counts, NULL, NULL};
const struct value_type value_text = {"string", false, read_text, write_text, NULL, NULL};
const struct value_type value_rows = {"floats", false, read_rows, write_rows, NULL, NULL};
const struct value_type value_factor = {"float", false, read_factor, write_float, NULL, NULL};
const struct value_type value_length = {"float", false, read_length, write_float, NULL, NULL};
const struct value_type value_double = {"float", false, read_double, write_double, NULL, NULL};
const struct value_type value_doubles = {"floats", false, read_doubles, write_doubles, NULL, NULL};
const struct value_type value_names = {"list", false, read_names, write_names, NULL, NULL};
const struct value_type value_tensors = {"list", true, read_tensors, write_tensors, allow_tensors, suggest_tensor};

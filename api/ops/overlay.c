// See overlay.h.
#include "api/ops/overlay.h"

#include <stdio.h>
#include <string.h>

#include "api/params/values.h"

// ---- a query --------------------------------------------------------------------------------------------------------

static bool is_named(const struct query_item *item, const char *name) {
  return item->name_length == strlen(name) && memcmp(item->name, name, item->name_length) == 0;
}

const struct query_item *query_find(const struct query *query, const char *name) {
  for (size_t i = 0; i < query->count; i++)
    if (is_named(&query->items[i], name)) return &query->items[i];
  return NULL;
}

bool query_set(struct job_request *request, const struct query_item *item, struct error *error) {
  return job_request_set(request, item->name, item->name_length, item->value, item->value_length, error);
}

// Whether a parameter of the query, other than `outputs`, decides which tensors are returned.
static bool names_tensors(const struct job_request *request, const struct query *query) {
  param_rows rows = operations[request->job.op]->rows;
  for (int i = 0; rows[i]; i++)
    if (rows[i]->names_tensors && query_find(query, rows[i]->name)) return true;
  return false;
}

static bool is_repeated(const struct query *query, const char *name) {
  size_t times = 0;
  for (size_t i = 0; i < query->count; i++) times += is_named(&query->items[i], name);
  return times > 1;
}

bool job_request_overlay(struct job_request *request, const struct query *query, struct error *error) {
  const struct operation *operation = operations[request->job.op];
  vx_tensor_set tensors = operation->tensors(request);
  // The list of steps decides which parameters of steps there are.
  const struct query_item *steps = query_find(query, "steps");
  if (steps && !query_set(request, steps, error)) return false;
  for (size_t i = 0; i < query->count; i++) {
    const struct query_item *item = &query->items[i];
    if (item != steps && !query_set(request, item, error)) return false;
    char name[64];  // query_set has found the parameter, and no parameter has a longer name
    snprintf(name, sizeof name, "%.*s", (int)item->name_length, item->name);
    if (is_repeated(query, name))
      return error_refuse(error, ERROR_BAD_PARAMETER, name, "%s is given more than once", name);
  }
  // If the query asks for other features, or turns sampling on or off, the preset's list of outputs does not count.
  bool other = names_tensors(request, query) || tensors != operation->tensors(request);
  if (other && !query_find(query, "outputs")) job_request_unset_outputs(request);
  if (query_find(query, "fields") && !query_find(query, "num_features")) job_request_unset(request, "num_features");
  return job_request_finish(request, error);
}

// ---- parameters of a file -------------------------------------------------------------------------------------------

enum {
  LONGEST_NUMBER = sizeof "-1.7976931348623157e+308,",
  // Bytes of a value's text: the longest is a list of matrices.
  MAX_VALUE = STEP_MATRICES * VX_MATRIX_VALUES * LONGEST_NUMBER
};

// Writes numbers and strings unchanged, and the items of an array separated by commas.
static bool write_text(const json_t *value, struct text *out) {
  size_t index;
  const json_t *item;
  switch (json_typeof(value)) {
    case JSON_INTEGER: text_printf(out, "%lld", (long long)json_integer_value(value)); return true;
    case JSON_REAL: text_printf(out, "%.17g", json_real_value(value)); return true;
    case JSON_STRING: text_append(out, json_string_value(value), json_string_length(value)); return true;
    case JSON_ARRAY:
      json_array_foreach(value, index, item) {
        if (json_is_array(item)) return false;
        if (index) text_put(out, ",");
        if (!write_text(item, out)) return false;
      }
      return true;
    default: return false;
  }
}

// No file may set a parameter that describes a single request.
static bool is_of_a_request(const char *name) {
  static const char *const names[] = {
      "preset",        "model",        "points_region", "output_region", "stream",        "streams",
      "sweeps",        "pose",         "poses",         "mount",         "time",          "times",
      "time_column",   "remove_close", "deskew",        "deskew_poses",  "deskew_twists", "deskew_reference",
      "interpolation", "scale",        "filter",        "latest",        "max_age_ms"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

// Only for files, since a request may override num_features.
static bool check_columns(const struct job_request *request, struct error *error) {
  const struct points_expected *expected = &request->expected;
  int32_t columns = request->num_fields ? request->num_fields : request->num_features;
  if (expected->num_columns == 0) return true;
  if (expected->num_columns != columns)
    return error_refuse(error, ERROR_BAD_PARAMETER, "columns", "columns has %d names; num_features is %d",
                        (int)expected->num_columns, (int)columns);
  return !job_request_is_given(request, "intensity_range") ||
         value_find_name(expected->columns, "intensity", strlen("intensity")) >= 0 ||
         error_refuse(error, ERROR_BAD_PARAMETER, "columns",
                      "intensity_range is given, but columns does not name intensity");
}

// Sets a parameter. `name`: with the tag of its step, if it has one.
static bool set(struct job_request *request, const char *name, const json_t *value, const char *place,
                struct error *error) {
  char memory[MAX_VALUE];
  struct text text = text_over(memory, sizeof memory);
  if (is_of_a_request(name) || !write_text(value, &text) || !text_complete(&text))
    return error_refuse(error, ERROR_BAD_PARAMETER, NULL, "%.80s is not allowed in %s, or not in this form", name,
                        place);
  return job_request_set(request, name, strlen(name), text.data, text.length, error);
}

static const char *tag_of(const json_t *step) {
  const char *tag = json_string_value(json_object_get(step, "tag"));
  return tag ? tag : json_string_value(json_object_get(step, "op"));
}

static bool set_step(struct job_request *request, json_t *step, const char *place, struct error *error) {
  const char *name;
  json_t *value;
  json_object_foreach(step, name, value) {
    char full[2 * STEP_TAG_SIZE + 64];
    if (strcmp(name, "op") == 0 || strcmp(name, "tag") == 0) continue;
    snprintf(full, sizeof full, "%s.%.63s", tag_of(step), name);
    if (!set(request, full, value, place, error)) return false;
  }
  return true;
}

// Each entry is a string, or an object that names its step and may have a tag.
static bool check_steps(json_t *steps, struct error *error) {
  size_t i;
  json_t *step;
  json_array_foreach(steps, i, step) {
    const json_t *tag = json_object_get(step, "tag");
    if (json_is_string(step) || (json_is_string(json_object_get(step, "op")) && (!tag || json_is_string(tag))))
      continue;
    return error_refuse(error, ERROR_BAD_PARAMETER, NULL,
                        "entry %zu of steps is neither a string nor an object with strings as op and, if given, tag",
                        i + 1);
  }
  return true;
}

// Whether an object of the list has the parameter, which is named TAG.name.
static bool is_in_a_step(json_t *steps, const char *name) {
  size_t i;
  json_t *step;
  json_array_foreach(steps, i, step) {
    size_t length = json_is_object(step) ? strlen(tag_of(step)) : 0;
    if (length && strncmp(name, tag_of(step), length) == 0 && name[length] == '.' &&
        json_object_get(step, name + length + 1))
      return true;
  }
  return false;
}

static bool set_steps(struct job_request *request, json_t *steps, const char *place, struct error *error) {
  size_t i;
  json_t *step, *names;
  if (!check_steps(steps, error)) return false;
  names = json_array();
  bool good = names != NULL;
  json_array_foreach(steps, i, step) {
    const char *op = json_string_value(json_object_get(step, "op"));
    good = good && json_array_append_new(names, op ? json_sprintf("%s:%s", tag_of(step), op) : json_incref(step)) == 0;
  }
  good = good ? set(request, "steps", names, place, error) : error_set(error, "out of memory");
  json_decref(names);
  json_array_foreach(steps, i, step) good = good && (!json_is_object(step) || set_step(request, step, place, error));
  return good;
}

bool settings_read(struct job_request *request, json_t *parameters, const char *place, struct error *error) {
  const char *name;
  json_t *value, *steps = json_object_get(parameters, "steps");
  if (steps &&
      !(json_is_array(steps) ? set_steps(request, steps, place, error) : set(request, "steps", steps, place, error)))
    return false;
  json_object_foreach(parameters, name, value) {
    if (value == steps) continue;
    if (is_in_a_step(steps, name))
      return error_refuse(error, ERROR_BAD_PARAMETER, NULL, "%.80s is given twice, also in its step", name);
    if (!set(request, name, value, place, error)) return false;
  }
  return check_columns(request, error);
}

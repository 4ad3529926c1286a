// See settings.h.
#include "api/settings.h"

#include <string.h>

enum {
  LONGEST_NUMBER = sizeof "-1.7976931348623157e+308,",
  MAX_VALUE = REQUEST_MATRICES * VX_MATRIX_VALUES * LONGEST_NUMBER  // bytes of a value's text: the longest is a matrix
};

// A JSON value as it would stand in a query: numbers and strings as they are, arrays with commas between.
static bool value_text(const json_t *value, struct text *out) {
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
        if (!value_text(item, out)) return false;
      }
      return true;
    default: return false;
  }
}

// What one request alone has.
static bool is_of_a_request(const char *name) {
  static const char *const names[] = {"preset",  "model",  "points_region", "output_region", "stream",
                                      "streams", "sweeps", "pose",          "poses",         "mount",
                                      "time",    "times",  "time_column",   "remove_close"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

bool settings_read(struct job_request *request, json_t *parameters, const char *place, struct error *error) {
  char memory[MAX_VALUE];
  const char *name;
  json_t *value;
  json_object_foreach(parameters, name, value) {
    struct text text = text_over(memory, sizeof memory);
    if (is_of_a_request(name) || !value_text(value, &text) || !text_complete(&text))
      return error_refuse(error, ERROR_BAD_PARAMETER, NULL, "%.80s is not allowed in %s, or not in this form", name,
                          place);
    if (!job_request_set(request, name, strlen(name), text.data, text.length, error)) return false;
  }
  return true;
}

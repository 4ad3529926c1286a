// See infer_json.h.
#include "api/wire/infer_json.h"

// ---- the cost -------------------------------------------------------------------------------------------------------

// What jansson 2.14 allocates for the value behind a comma, a member and a list or object, rounded up; and texts. Those
// bytes inside of texts are counted as well.
size_t infer_json_cost(const struct infer *infer, const char *bytes, size_t size) {
  enum { FIXED = 4096, VALUE = 64, MEMBER = 192, LIST = 288 };
  size_t head = infer_json_bytes(infer, size), cost = FIXED + 2 * head;
  if (head > INFER_JSON_MAX) return 0;  // it is refused without being read
  for (size_t i = 0; i < head; i++) {
    char byte = bytes[i];
    cost += byte == ',' ? VALUE : byte == ':' ? MEMBER : byte == '[' || byte == '{' ? LIST : 0;
  }
  return cost;
}

// ---- points as JSON -------------------------------------------------------------------------------------------------

enum { NESTED_MOST = 2 };

// Writes the numbers of a list, which may be nested as the shape is. Returns how many, or -1.
static int64_t write_list(const json_t *list, int depth, float *out, int64_t room) {
  int64_t written = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = json_array_get(list, i);
    int64_t more = 1;
    if (json_is_array(value) && depth < NESTED_MOST)
      more = write_list(value, depth + 1, out + written, room - written);
    else if (json_is_number(value) && written < room)
      out[written] = (float)json_number_value(value);
    else
      return -1;
    if (more < 0) return -1;
    written += more;
  }
  return written;
}

bool infer_write_rows(const struct infer_body *body, float *rows, struct problem *problem) {
  int64_t values = body->rows * body->columns;
  if (json_is_array(body->data) && write_list(body->data, 1, rows, values) == values) return true;
  return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                     "the data of points is no list of %lld numbers, as its shape says", (long long)values);
}

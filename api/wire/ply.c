// PLY 1.0, the Stanford polygon format: a header of lines, then elements, as text or as bytes. The element `vertex` is
// the points; elements before it are skipped, elements after it are not read.
#include <string.h>

#include "api/wire/formats.h"
#include "api/wire/lines.h"
#include "api/wire/wire.h"

enum { ELEMENTS_MOST = 32, PROPERTIES_MOST = 256, NO_LIST = -1 };

struct property {
  int count_type;  // of a list: the type of its length; else NO_LIST
  enum number_type type;
};

// An element before `vertex`.
struct element {
  int64_t count;
  int first, properties;
};

enum where { BEFORE_VERTEX, IN_VERTEX, AFTER_VERTEX };  // of a line of the header

struct ply {
  const char *bytes;
  struct cloud_file *file;
  struct lines lines;
  enum where where;
  bool has_format;
  int num_elements, num_properties;
  struct element elements[ELEMENTS_MOST];
  struct property properties[PROPERTIES_MOST];
};

static bool refuse(const struct ply *ply, struct error *error, const char *why, struct span word) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld: %s '%.*s'", (long long)ply->lines.number, why,
                      SPAN_ARGS(word));
}

// ---- lines of the header --------------------------------------------------------------------------------------------

static bool find_type(const struct span *word, enum number_type *out) {
  static const struct {
    const char *name;
    enum number_type type;
  } types[] = {
      {"char", NUMBER_INT8},       {"int8", NUMBER_INT8},      {"uchar", NUMBER_UINT8},    {"uint8", NUMBER_UINT8},
      {"bool", NUMBER_UINT8},      {"short", NUMBER_INT16},    {"int16", NUMBER_INT16},    {"ushort", NUMBER_UINT16},
      {"uint16", NUMBER_UINT16},   {"int", NUMBER_INT32},      {"int32", NUMBER_INT32},    {"uint", NUMBER_UINT32},
      {"uint32", NUMBER_UINT32},   {"int64", NUMBER_INT64},    {"uint64", NUMBER_UINT64},  {"float", NUMBER_FLOAT32},
      {"float32", NUMBER_FLOAT32}, {"double", NUMBER_FLOAT64}, {"float64", NUMBER_FLOAT64}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (!span_is(word, types[i].name)) continue;
    *out = types[i].type;
    return true;
  }
  return false;
}

static bool read_format(struct ply *ply, struct span rest, struct error *error) {
  struct span word = rest;
  (void)!span_word(&rest, &word);
  ply->has_format = true;
  ply->file->layout = span_is(&word, "ascii") ? CLOUD_TEXT : CLOUD_BINARY;
  ply->file->big_endian = span_is(&word, "binary_big_endian");
  if (ply->file->layout == CLOUD_TEXT || ply->file->big_endian || span_is(&word, "binary_little_endian")) return true;
  return refuse(ply, error, "format must be ascii, binary_little_endian or binary_big_endian, not", word);
}

static bool read_element(struct ply *ply, struct span rest, struct error *error) {
  struct span name = rest, count = rest;
  int64_t number;
  if (!span_word(&rest, &name) || !span_word(&rest, &count) || !span_number(&count, INT64_MAX, &number))
    return refuse(ply, error, "an element needs a name and a whole number, not", count);
  if (ply->where != BEFORE_VERTEX) {
    ply->where = AFTER_VERTEX;
  } else if (span_is(&name, "vertex")) {
    ply->where = IN_VERTEX;
    ply->file->points = number;
  } else {
    if (ply->num_elements == ELEMENTS_MOST) return refuse(ply, error, "too many elements before vertex, at", name);
    ply->elements[ply->num_elements++] = (struct element){.count = number, .first = ply->num_properties};
  }
  return true;
}

static bool add_property(struct ply *ply, struct property property, struct span name, struct error *error) {
  if (ply->where == BEFORE_VERTEX) {
    if (ply->num_elements == 0) return refuse(ply, error, "there is no element for the property", name);
    if (ply->num_properties == PROPERTIES_MOST)
      return refuse(ply, error, "too many properties before vertex, at", name);
    ply->properties[ply->num_properties++] = property;
    ply->elements[ply->num_elements - 1].properties++;
    return true;
  }
  bool list = property.count_type != NO_LIST;
  enum number_type first = list ? (enum number_type)property.count_type : property.type;
  struct cloud_field field = {.name = name.at,
                              .name_length = name.length,
                              .type = property.type,
                              .count = !list,
                              .offset = ply->file->point_bytes,
                              .is_list = list,
                              .length_type = first};
  ply->file->point_bytes += ply->file->layout == CLOUD_TEXT ? 1 : number_bytes(first);
  ply->file->lists = ply->file->lists || list;
  return cloud_add(ply->file, field, error);
}

static bool read_property(struct ply *ply, struct span rest, struct error *error) {
  struct property property = {.count_type = NO_LIST};
  struct span word = rest, name = rest;
  enum number_type type;
  if (ply->where == AFTER_VERTEX) return true;
  bool good = span_word(&rest, &word);
  if (good && span_is(&word, "list")) {
    if (!span_word(&rest, &word) || !find_type(&word, &type) || type >= NUMBER_FLOAT32)
      return refuse(ply, error, "the length of a list must have a type of whole numbers, not", word);
    property.count_type = (int)type;
    good = span_word(&rest, &word);
  }
  if (!good || !find_type(&word, &property.type)) return refuse(ply, error, "a property cannot have the type", word);
  if (!span_word(&rest, &name)) return refuse(ply, error, "a property has no name after", word);
  return add_property(ply, property, name, error);
}

static bool read_header(struct ply *ply, struct error *error) {
  struct span line = {"", 0}, key = line, more;
  bool begins = lines_next(&ply->lines, &line);
  const struct span first = line;
  if (!begins || !span_word(&line, &key) || !span_is(&key, "ply") || span_word(&line, &more))
    return refuse(ply, error, "a PLY file begins with the line 'ply', not with", first);
  while (lines_next(&ply->lines, &line)) {
    bool good = true;
    if (!span_word(&line, &key) || span_is(&key, "comment") || span_is(&key, "obj_info")) continue;
    if (span_is(&key, "end_header")) return true;
    // Strides depend on the format, so it must come first.
    if (!ply->has_format && !span_is(&key, "format"))
      good = refuse(ply, error, "the format must come first, not", key);
    else if (span_is(&key, "format"))
      good = ply->has_format ? refuse(ply, error, "there is a second", key) : read_format(ply, line, error);
    else if (span_is(&key, "element"))
      good = read_element(ply, line, error);
    else if (span_is(&key, "property"))
      good = read_property(ply, line, error);
    else
      good = refuse(ply, error, "a PLY header cannot have the entry", key);
    if (!good) return false;
  }
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the PLY header ends without end_header, after line %lld",
                      (long long)ply->lines.number);
}

// ---- elements before the points -------------------------------------------------------------------------------------

static bool refuse_end(const struct ply *ply, struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends at byte %zu, within the elements before vertex",
                      (size_t)(ply->lines.end - ply->bytes));
}

static bool skip_values(struct ply *ply, uint64_t count, size_t each, struct error *error) {
  size_t left = (size_t)(ply->lines.end - ply->lines.at);
  if (count > left / each) return refuse_end(ply, error);
  ply->lines.at += count * each;
  return true;
}

static bool skip_list(struct ply *ply, const struct property *property, struct error *error) {
  const unsigned char *at = (const unsigned char *)ply->lines.at;
  size_t bytes = number_bytes((enum number_type)property->count_type);
  uint64_t count = 0;
  if (!skip_values(ply, 1, bytes, error)) return false;
  for (size_t i = 0; i < bytes; i++) count = count << 8 | at[ply->file->big_endian ? i : bytes - 1 - i];
  return skip_values(ply, count, number_bytes(property->type), error);
}

// A row has at least one byte, so the body's size bounds the loop.
static bool skip_binary(struct ply *ply, const struct element *element, struct error *error) {
  const struct property *properties = ply->properties + element->first;
  for (int64_t row = 0; element->properties && row < element->count && !vx_stopped(ply->file->stop, 1); row++)
    for (int i = 0; i < element->properties; i++)
      if (properties[i].count_type == NO_LIST ? !skip_values(ply, 1, number_bytes(properties[i].type), error)
                                              : !skip_list(ply, &properties[i], error))
        return false;
  return true;
}

static bool skip_lines(struct ply *ply, const struct element *element, struct error *error) {
  struct span line, word;
  for (int64_t row = 0; element->properties && row < element->count;) {
    if (!lines_next(&ply->lines, &line)) return refuse_end(ply, error);
    if (span_word(&line, &word)) row++;
  }
  return true;
}

bool ply_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error) {
  struct ply ply = {.bytes = bytes, .file = file, .lines = lines_over(bytes, size, 0, file->stop)};
  if (!read_header(&ply, error)) return false;
  if (ply.where == BEFORE_VERTEX)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the PLY header has no element vertex, which has the points");
  if (file->layout == CLOUD_TEXT)  // these lines may end otherwise than the header's
    ply.lines = lines_over(ply.lines.at, (size_t)(ply.lines.end - ply.lines.at), ply.lines.number, file->stop);
  for (int i = 0; i < ply.num_elements; i++)
    if (file->layout == CLOUD_TEXT ? !skip_lines(&ply, &ply.elements[i], error)
                                   : !skip_binary(&ply, &ply.elements[i], error))
      return false;
  file->data = ply.lines.at;
  file->size = (size_t)(ply.lines.end - ply.lines.at);
  file->line = ply.lines.number + 1;
  return cloud_fit(file, ply.where == IN_VERTEX, error);
}

// PCD, version 0.7 and before, of the Point Cloud Library: lines of a header, then points as text, as bytes, or
// compressed by column.
#include <string.h>

#include "api/wire/formats.h"
#include "api/wire/lines.h"

static const char hint[] = "the body looks like a PCD file: add format=pcd";

enum { COUNT_MOST = 1 << 20, PACKED_HEAD = 8 };

// What a header has said so far.
struct pcd {
  struct cloud_file *file;
  struct lines lines;
  bool sized, typed;
  int64_t width, height, points;  // -1 = not said
  int64_t sizes[CLOUD_FIELDS_MAX];
  char types[CLOUD_FIELDS_MAX];
  struct span data;  // how the points are written; empty before that line
};

static bool refuse(const struct pcd *pcd, const char *key, const struct span *word, const char *allowed,
                   struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld: %s has '%.*s'; allowed: %s",
                      (long long)pcd->lines.number, key, SPAN_ARGS(*word), allowed);
}

// ---- lines of the header --------------------------------------------------------------------------------------------

// Of a line like SIZE, which has a word for each field.
typedef bool (*take_word)(struct pcd *pcd, int field, const struct span *word);

static bool take_size(struct pcd *pcd, int field, const struct span *word) {
  return span_number(word, 8, &pcd->sizes[field]);
}

static bool take_type(struct pcd *pcd, int field, const struct span *word) {
  pcd->types[field] = word->at[0];
  return span_is(word, "I") || span_is(word, "U") || span_is(word, "F");
}

static bool take_count(struct pcd *pcd, int field, const struct span *word) {
  return span_number(word, COUNT_MOST, &pcd->file->fields[field].count) && pcd->file->fields[field].count > 0;
}

static bool read_words(struct pcd *pcd, const char *key, struct span rest, take_word take, const char *allowed,
                       struct error *error) {
  struct span word;
  int fields = 0;
  for (; span_word(&rest, &word); fields++)
    if (fields < pcd->file->num_fields && !take(pcd, fields, &word)) return refuse(pcd, key, &word, allowed, error);
  if (fields == pcd->file->num_fields) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL,
                      "line %lld: %s has %d values; allowed: %d, one for each name of FIELDS, which stands before it",
                      (long long)pcd->lines.number, key, fields, pcd->file->num_fields);
}

static bool read_fields(struct pcd *pcd, struct span rest, struct error *error) {
  struct span word;
  pcd->file->num_fields = 0;
  pcd->sized = pcd->typed = false;
  while (span_word(&rest, &word)) {
    struct cloud_field field = {.name = word.at, .name_length = word.length, .count = 1};
    if (!cloud_add(pcd->file, field, error)) return false;
  }
  return true;
}

static bool read_number(const struct pcd *pcd, const char *key, struct span rest, int64_t *out, struct error *error) {
  struct span word = {rest.at, 0}, more;
  if (span_word(&rest, &word) && span_number(&word, INT64_MAX, out) && !span_word(&rest, &more)) return true;
  return refuse(pcd, key, &word, "one whole number", error);
}

static bool read_line(struct pcd *pcd, struct span line, struct error *error) {
  struct span key;
  if (!span_word(&line, &key) || key.at[0] == '#' || span_is(&key, "VERSION") || span_is(&key, "VIEWPOINT"))
    return true;
  if (span_is(&key, "FIELDS") || span_is(&key, "COLUMNS")) return read_fields(pcd, line, error);
  if (span_is(&key, "SIZE")) {
    pcd->sized = true;
    return read_words(pcd, "SIZE", line, take_size, "1, 2, 4 or 8", error);
  }
  if (span_is(&key, "TYPE")) {
    pcd->typed = true;
    return read_words(pcd, "TYPE", line, take_type, "I, U or F", error);
  }
  if (span_is(&key, "COUNT")) return read_words(pcd, "COUNT", line, take_count, "a whole number from 1 on", error);
  if (span_is(&key, "WIDTH")) return read_number(pcd, "WIDTH", line, &pcd->width, error);
  if (span_is(&key, "HEIGHT")) return read_number(pcd, "HEIGHT", line, &pcd->height, error);
  if (span_is(&key, "POINTS")) return read_number(pcd, "POINTS", line, &pcd->points, error);
  if (span_is(&key, "DATA"))
    return span_word(&line, &pcd->data) || refuse(pcd, "DATA", &line, "ascii, binary or binary_compressed", error);
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld: '%.*s' is no entry of a PCD header",
                      (long long)pcd->lines.number, SPAN_ARGS(key));
}

static bool read_header(struct pcd *pcd, struct error *error) {
  struct span line;
  while (!pcd->data.length) {
    if (!lines_next(&pcd->lines, &line))
      return error_refuse(error, ERROR_BAD_BODY, NULL, "the PCD header ends without DATA, after line %lld",
                          (long long)pcd->lines.number);
    if (!read_line(pcd, line, error)) return false;
  }
  return true;
}

// ---- what it says ---------------------------------------------------------------------------------------------------

static bool set_type(const struct pcd *pcd, int field, struct error *error) {
  static const struct {
    char type;
    int64_t size;
    enum number_type number;
  } types[] = {{'I', 1, NUMBER_INT8},    {'U', 1, NUMBER_UINT8},  {'I', 2, NUMBER_INT16}, {'U', 2, NUMBER_UINT16},
               {'I', 4, NUMBER_INT32},   {'U', 4, NUMBER_UINT32}, {'I', 8, NUMBER_INT64}, {'U', 8, NUMBER_UINT64},
               {'F', 4, NUMBER_FLOAT32}, {'F', 8, NUMBER_FLOAT64}};
  struct cloud_field *out = &pcd->file->fields[field];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (types[i].type != pcd->types[field] || types[i].size != pcd->sizes[field]) continue;
    out->type = types[i].number;
    return true;
  }
  return error_refuse(error, ERROR_BAD_BODY, NULL, "field %.*s has TYPE %c and SIZE %lld, which no number has",
                      (int)(out->name_length < SPAN_SHOWN ? out->name_length : SPAN_SHOWN), out->name,
                      pcd->types[field], (long long)pcd->sizes[field]);
}

static bool set_points(const struct pcd *pcd, struct error *error) {
  bool shaped = pcd->width >= 0 && pcd->height >= 0;
  int64_t product = 0;
  if (!shaped && pcd->points < 0)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the PCD header has neither POINTS nor WIDTH and HEIGHT");
  bool good = !shaped || !__builtin_mul_overflow(pcd->width, pcd->height, &product);
  pcd->file->points = pcd->points < 0 ? product : pcd->points;
  if (good && (!shaped || product == pcd->file->points)) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "WIDTH %lld times HEIGHT %lld is not POINTS, %lld",
                      (long long)pcd->width, (long long)pcd->height, (long long)pcd->file->points);
}

// Places the fields one after the other, and drops those named _, which are padding. A compressed body has no padding.
static bool set_fields(struct pcd *pcd, struct error *error) {
  struct cloud_file *file = pcd->file;
  int kept = 0;
  for (int i = 0; i < file->num_fields; i++) {
    struct cloud_field field = file->fields[i];
    bool padding = field.name_length == 1 && field.name[0] == '_';
    if (!padding && file->layout != CLOUD_TEXT && !set_type(pcd, i, error)) return false;
    field = file->fields[i];
    field.offset = file->point_bytes;
    if (!padding) file->fields[kept++] = field;
    if (!padding || file->layout != CLOUD_PACKED)
      file->point_bytes += (size_t)(file->layout == CLOUD_TEXT ? field.count : field.count * pcd->sizes[i]);
  }
  file->num_fields = kept;
  return true;
}

static bool set_layout(const struct pcd *pcd, struct error *error) {
  static const char *const names[] = {
      [CLOUD_TEXT] = "ascii", [CLOUD_BINARY] = "binary", [CLOUD_PACKED] = "binary_compressed"};
  for (enum cloud_layout layout = CLOUD_BINARY; layout <= CLOUD_PACKED; layout++) {
    if (!span_is(&pcd->data, names[layout])) continue;
    pcd->file->layout = layout;
    return true;
  }
  return refuse(pcd, "DATA", &pcd->data, "ascii, binary or binary_compressed", error);
}

static uint32_t load(const char *bytes) {
  uint32_t value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

// Two sizes stand before what is compressed. The columns follow from the number of points.
static bool fit_packed(struct cloud_file *file, struct error *error) {
  if (file->size < PACKED_HEAD)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends before the sizes of its compressed points");
  size_t packed = load(file->data), unpacked = load(file->data + sizeof(uint32_t)), size = file->size - PACKED_HEAD;
  if (packed > size)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "%zu bytes of compressed points are promised, but %zu follow",
                        packed, size);
  file->size = unpacked;
  if (!cloud_fit(file, false, error)) return false;
  if (unpacked != file->run_bytes)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "the compressed points are to have %zu bytes, but %lld points of %zu bytes need %zu", unpacked,
                        (long long)file->points, file->point_bytes, file->run_bytes);
  file->unpacked_bytes = unpacked;
  file->data += PACKED_HEAD;
  file->size = packed;
  for (int i = 0; i < file->num_fields; i++) {
    struct cloud_field *field = &file->fields[i];
    field->offset *= (size_t)file->points;
    field->stride = number_bytes(field->type) * (size_t)field->count;
  }
  return true;
}

static bool open(const char *bytes, size_t size, struct cloud_file *file, struct error *error) {
  struct pcd pcd = {
      .file = file, .lines = {bytes, bytes + size, 0, file->stop}, .width = -1, .height = -1, .points = -1};
  if (!read_header(&pcd, error) || !set_layout(&pcd, error) || !set_points(&pcd, error)) return false;
  if (!pcd.sized || !pcd.typed)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the PCD header has no %s behind FIELDS",
                        pcd.sized ? "TYPE" : "SIZE");
  if (!set_fields(&pcd, error)) return false;
  file->data = pcd.lines.at;
  file->size = (size_t)(pcd.lines.end - pcd.lines.at);
  file->line = pcd.lines.number + 1;
  return file->layout == CLOUD_PACKED ? fit_packed(file, error) : cloud_fit(file, true, error);
}

static bool looks(const char *bytes, size_t size) {
  static const char *const beginnings[] = {"# .PCD", "VERSION ", "FIELDS ", "# .pcd"};
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
    if (size >= strlen(beginnings[i]) && memcmp(bytes, beginnings[i], strlen(beginnings[i])) == 0) return true;
  return false;
}

const struct format format_pcd = {hint, looks, open};

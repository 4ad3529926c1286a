// PCD up to version 0.7, of the Point Cloud Library: a header of lines, then points as text, as bytes, or compressed by
// column.
#include <string.h>

#include "api/wire/formats.h"
#include "api/wire/lines.h"
#include "api/wire/lzf.h"
#include "api/wire/wire.h"

enum { COUNT_MOST = 1 << 20, PACKED_HEAD = 8 };

// A header that is being read.
struct pcd {
  struct cloud_file *file;
  struct lines lines;
  int64_t width, height, points;  // -1 = not given
  int64_t sizes[CLOUD_FIELDS_MAX];
  char types[CLOUD_FIELDS_MAX];
  struct span data;  // the word after DATA; empty before that line
};

static bool refuse(const struct pcd *pcd, const char *key, const struct span *word, const char *allowed,
                   struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld: %s has '%.*s'; allowed: %s",
                      (long long)pcd->lines.number, key, SPAN_ARGS(*word), allowed);
}

// ---- lines of the header --------------------------------------------------------------------------------------------

// Reads a field's word from a line that has one for each field, such as SIZE.
typedef bool (*take_word)(struct pcd *pcd, int field, const struct span *word);

static bool take_size(struct pcd *pcd, int field, const struct span *word) {
  return span_number(word, 8, &pcd->sizes[field]);
}

static bool take_type(struct pcd *pcd, int field, const struct span *word) {
  pcd->types[field] = (char)(word->at[0] & ~('a' ^ 'A'));
  return span_is_in_any_case(word, "I") || span_is_in_any_case(word, "U") || span_is_in_any_case(word, "F");
}

// Old writers give padding a COUNT of 0: it takes no bytes.
static bool take_count(struct pcd *pcd, int field, const struct span *word) {
  return span_number(word, COUNT_MOST, &pcd->file->fields[field].count);
}

static bool read_words(struct pcd *pcd, const char *key, struct span rest, take_word take, const char *allowed,
                       struct error *error) {
  struct span word;
  int fields = 0;
  for (; span_word(&rest, &word); fields++)
    if (fields < pcd->file->num_fields && !take(pcd, fields, &word)) return refuse(pcd, key, &word, allowed, error);
  if (fields == pcd->file->num_fields) return true;
  return error_refuse(
      error, ERROR_BAD_BODY, NULL,
      "line %lld: %s has %d values; allowed: %d, one for each name in the line FIELDS, which comes first",
      (long long)pcd->lines.number, key, fields, pcd->file->num_fields);
}

// Without SIZE, TYPE and COUNT, a field is one float32.
static bool read_fields(struct pcd *pcd, struct span rest, struct error *error) {
  struct span word;
  pcd->file->num_fields = 0;
  while (span_word(&rest, &word)) {
    struct cloud_field field = {.name = word.at, .name_length = word.length, .count = 1};
    if (!cloud_add(pcd->file, field, error)) return false;
    pcd->sizes[pcd->file->num_fields - 1] = sizeof(float);
    pcd->types[pcd->file->num_fields - 1] = 'F';
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
  if (!span_word(&line, &key) || key.at[0] == '#' || span_is_in_any_case(&key, "VERSION") ||
      span_is_in_any_case(&key, "VIEWPOINT"))
    return true;
  if (span_is_in_any_case(&key, "FIELDS") || span_is_in_any_case(&key, "COLUMNS")) return read_fields(pcd, line, error);
  if (span_is_in_any_case(&key, "SIZE")) return read_words(pcd, "SIZE", line, take_size, "1, 2, 4 or 8", error);
  if (span_is_in_any_case(&key, "TYPE")) return read_words(pcd, "TYPE", line, take_type, "I, U or F", error);
  if (span_is_in_any_case(&key, "COUNT")) return read_words(pcd, "COUNT", line, take_count, "a whole number", error);
  if (span_is_in_any_case(&key, "WIDTH")) return read_number(pcd, "WIDTH", line, &pcd->width, error);
  if (span_is_in_any_case(&key, "HEIGHT")) return read_number(pcd, "HEIGHT", line, &pcd->height, error);
  if (span_is_in_any_case(&key, "POINTS")) return read_number(pcd, "POINTS", line, &pcd->points, error);
  if (span_is_in_any_case(&key, "DATA"))
    return span_word(&line, &pcd->data) || refuse(pcd, "DATA", &line, "ascii, binary or binary_compressed", error);
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld: '%.*s' is not an entry of a PCD header",
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

// ---- checks of the header -------------------------------------------------------------------------------------------

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
  out->type = NUMBER_FLOAT64;  // text may have any number
  return pcd->file->layout == CLOUD_TEXT ||
         error_refuse(error, ERROR_BAD_BODY, NULL, "field %.*s has TYPE %c and SIZE %lld; no type of number has both",
                      (int)(out->name_length < SPAN_SHOWN ? out->name_length : SPAN_SHOWN), out->name,
                      pcd->types[field], (long long)pcd->sizes[field]);
}

static bool set_points(const struct pcd *pcd, struct error *error) {
  bool shaped = pcd->width >= 0;
  int64_t product = 0;
  if (!shaped && pcd->points < 0)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the PCD header has neither POINTS nor WIDTH");
  bool good = !shaped || !__builtin_mul_overflow(pcd->width, pcd->height, &product);
  pcd->file->points = pcd->points < 0 ? product : pcd->points;
  if (good && (!shaped || product == pcd->file->points)) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "WIDTH %lld times HEIGHT %lld is not POINTS, %lld",
                      (long long)pcd->width, (long long)pcd->height, (long long)pcd->file->points);
}

static uint32_t load(const char *bytes) {
  uint32_t value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

// Two sizes precede the compressed bytes: of these bytes, and of the unpacked bytes.
static size_t packed_bytes(const struct cloud_file *file) { return file->size < PACKED_HEAD ? 0 : load(file->data); }
static size_t unpacked_bytes(const struct cloud_file *file) {
  return file->size < PACKED_HEAD ? 0 : load(file->data + sizeof(uint32_t));
}

// The Point Cloud Library leaves padding out of compressed points, other writers keep it: the unpacked size tells.
static bool has_padding(const struct pcd *pcd) {
  uint64_t point = 0, all = unpacked_bytes(pcd->file);
  for (int i = 0; i < pcd->file->num_fields; i++) point += (uint64_t)(pcd->file->fields[i].count * pcd->sizes[i]);
  return pcd->file->layout != CLOUD_PACKED || (point && all % point == 0 && all / point == (uint64_t)pcd->file->points);
}

// Places the fields one after another. Drops padding, the fields named _.
static bool set_fields(struct pcd *pcd, struct error *error) {
  struct cloud_file *file = pcd->file;
  bool padded = has_padding(pcd);
  int kept = 0;
  for (int i = 0; i < file->num_fields; i++) {
    struct cloud_field field = file->fields[i];
    bool padding = field.name_length == 1 && field.name[0] == '_';
    if (!padding && !set_type(pcd, i, error)) return false;
    field = file->fields[i];
    field.offset = file->point_bytes;
    if (!padding) file->fields[kept++] = field;
    if (!padding || padded)
      file->point_bytes += (size_t)(file->layout == CLOUD_TEXT ? field.count : field.count * pcd->sizes[i]);
  }
  file->num_fields = kept;
  return true;
}

static bool set_layout(const struct pcd *pcd, struct error *error) {
  static const char *const names[] = {
      [CLOUD_TEXT] = "ascii", [CLOUD_BINARY] = "binary", [CLOUD_PACKED] = "binary_compressed"};
  for (enum cloud_layout layout = CLOUD_BINARY; layout <= CLOUD_PACKED; layout++) {
    if (!span_is_in_any_case(&pcd->data, names[layout])) continue;
    pcd->file->layout = layout;
    return true;
  }
  return refuse(pcd, "DATA", &pcd->data, "ascii, binary or binary_compressed", error);
}

static bool unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error) {
  size_t bytes = file->packing.bytes;
  bool stored = file->size == bytes;  // some writers store what LZF cannot shrink
  (void)decoder;
  bool unpacked = lzf_unpack(file->data, file->size, out, bytes, file->stop);
  if (!unpacked && stored) vx_copy(file->stop, out, file->data, file->size);
  if (!unpacked && !stored)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the compressed points do not unpack to the %zu bytes promised",
                        bytes);
  file->layout = CLOUD_COLUMNS;
  file->data = out;
  file->size = bytes;
  return true;
}

// Places the columns. A body without points may lack the two sizes.
static bool fit_packed(struct cloud_file *file, struct error *error) {
  if (file->size < PACKED_HEAD && file->points)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends before the sizes of its compressed points");
  size_t packed = packed_bytes(file), unpacked = unpacked_bytes(file),
         head = file->size < PACKED_HEAD ? 0 : PACKED_HEAD;
  if (packed > file->size - head)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the body promises %zu bytes of compressed points, but %zu follow",
                        packed, file->size - head);
  file->size = unpacked;
  if (!cloud_fit(file, false, error)) return false;
  if (unpacked != file->run_bytes)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "the compressed points unpack to %zu bytes, but %lld points of %zu bytes need %zu", unpacked,
                        (long long)file->points, file->point_bytes, file->run_bytes);
  file->packing = (struct cloud_packing){.unpack = unpack, .bytes = unpacked};
  file->data += head;
  file->size = packed;
  for (int i = 0; i < file->num_fields; i++) {
    struct cloud_field *field = &file->fields[i];
    field->offset *= (size_t)file->points;
    field->stride = number_bytes(field->type) * (size_t)field->count;
  }
  return true;
}

bool pcd_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error) {
  struct pcd pcd = {
      .file = file, .lines = lines_over(bytes, size, 0, file->stop), .width = -1, .height = 1, .points = -1};
  if (!read_header(&pcd, error) || !set_layout(&pcd, error) || !set_points(&pcd, error)) return false;
  file->data = pcd.lines.at;
  file->size = (size_t)(pcd.lines.end - pcd.lines.at);
  file->line = pcd.lines.number + 1;
  if (!set_fields(&pcd, error)) return false;
  return file->layout == CLOUD_PACKED ? fit_packed(file, error) : cloud_fit(file, true, error);
}

// See gather.h.
#include "api/wire/gather.h"

#include <string.h>

#include "api/params/values.h"
#include "api/wire/decimal.h"
#include "api/wire/lzf.h"
#include "kernels/half.h"

// ---- columns --------------------------------------------------------------------------------------------------------

static const char intensity[] = "intensity";

static bool is_named(const struct cloud_field *field, const char *name) {
  return field->name_length == strlen(name) && memcmp(field->name, name, field->name_length) == 0;
}

static const struct cloud_field *find_field(const struct cloud_file *file, const char *name) {
  for (int i = 0; i < file->num_fields; i++)
    if (is_named(&file->fields[i], name)) return &file->fields[i];
  return NULL;
}

static void list_fields(const struct cloud_file *file, char *out, size_t size) {
  struct text text = text_over(out, size);
  for (int i = 0; i < file->num_fields; i++) {
    const struct cloud_field *field = &file->fields[i];
    text_put(&text, i ? ", " : "");
    text_append(&text, field->name, field->name_length < SPAN_SHOWN ? field->name_length : SPAN_SHOWN);
    if (field->count > 1) text_printf(&text, " (%lld values)", (long long)field->count);
  }
}

// Adds the field of this name as the next column. False with an error if there is none.
static bool add_column(const struct cloud_file *file, struct cloud_columns *columns, const char *name,
                       struct error *error) {
  const struct cloud_field *field = find_field(file, name);
  char there[256];
  if (field && field->count == 1) {
    columns->fields[columns->count++] = field;
    return true;
  }
  list_fields(file, there, sizeof there);
  return error_refuse(error, ERROR_BAD_BODY, "fields", "the body has no field %.60s of one value; it has %s", name,
                      there);
}

static bool is_axis(const struct cloud_field *field) {
  return field->name_length == 1 && field->name[0] >= 'x' && field->name[0] <= 'z';
}

static bool choose_first(const struct cloud_file *file, int wanted, struct cloud_columns *columns,
                         struct error *error) {
  static const char *const axes[] = {"x", "y", "z"};
  char there[256];
  for (int a = 0; a < 3; a++)
    if (!add_column(file, columns, axes[a], error)) return false;
  for (int i = 0; i < file->num_fields && columns->count < wanted; i++)
    if (file->fields[i].count == 1 && !is_axis(&file->fields[i])) columns->fields[columns->count++] = &file->fields[i];
  if (columns->count == wanted) return true;
  list_fields(file, there, sizeof there);
  return error_refuse(error, ERROR_BAD_BODY, "num_features",
                      "num_features is %d, but the body has only %d fields of one value; it has %s", wanted,
                      columns->count, there);
}

static bool choose_named(const struct cloud_file *file, const char *names, struct cloud_columns *columns,
                         struct error *error) {
  const char *cursor = names, *end = names + strlen(names);
  char name[VALUE_NAMES_SIZE];
  while (value_next(&cursor, end, name, sizeof name))
    if (!add_column(file, columns, name, error)) return false;
  return true;
}

bool cloud_choose(const struct cloud_file *file, const struct job_request *request, struct cloud_columns *columns,
                  struct error *error) {
  columns->count = 0;
  if (request->num_fields ? !choose_named(file, request->fields, columns, error)
                          : !choose_first(file, request->num_features, columns, error))
    return false;
  columns->intensity = -1;
  for (int c = 0; c < columns->count; c++)
    if (is_named(columns->fields[c], intensity)) columns->intensity = c;
  if (request->intensity_scale == 0 || columns->intensity >= 0) return true;
  return error_refuse(error, ERROR_BAD_BODY, "intensity_scale",
                      "intensity_scale is given, but none of the first %d columns is named intensity", columns->count);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

static uint64_t load(const char *at, size_t bytes, bool big_endian) {
  uint16_t two;
  uint32_t four;
  uint64_t eight;
  switch (bytes) {
    case 1: return (unsigned char)*at;
    case 2: memcpy(&two, at, sizeof two); return big_endian ? __builtin_bswap16(two) : two;
    case 4: memcpy(&four, at, sizeof four); return big_endian ? __builtin_bswap32(four) : four;
    default: memcpy(&eight, at, sizeof eight); return big_endian ? __builtin_bswap64(eight) : eight;
  }
}

static float narrow(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

// The bits of the value as a float32. A float32 keeps its bits, so that a NaN stays the same.
static uint32_t value_at(const char *at, enum number_type type, bool big_endian) {
  uint64_t bits = load(at, number_bytes(type), big_endian);
  switch (type) {
    case NUMBER_INT8: return vx_float_bits((int8_t)bits);
    case NUMBER_INT16: return vx_float_bits((int16_t)bits);
    case NUMBER_INT32: return vx_float_bits((float)(int32_t)bits);
    case NUMBER_INT64: return vx_float_bits((float)(int64_t)bits);
    case NUMBER_UINT8:
    case NUMBER_UINT16:
    case NUMBER_UINT32:
    case NUMBER_UINT64: return vx_float_bits((float)bits);
    case NUMBER_FLOAT64: return vx_float_bits(narrow(bits));
    default: return (uint32_t)bits;
  }
}

// ---- points as bytes ------------------------------------------------------------------------------------------------

// Whether the columns of a point are contiguous, as in a row.
static bool are_row(const struct cloud_file *file, const struct cloud_columns *columns) {
  if (file->layout != CLOUD_BINARY || file->big_endian) return false;
  for (int c = 0; c < columns->count; c++)
    if (columns->fields[c]->type != NUMBER_FLOAT32 ||
        columns->fields[c]->offset != columns->fields[0]->offset + (size_t)c * sizeof(float))
      return false;
  return true;
}

static size_t row_bytes(const struct cloud_columns *columns) { return (size_t)columns->count * sizeof(float); }

const char *cloud_rows(const struct cloud_file *file, const struct cloud_columns *columns) {
  bool rows = are_row(file, columns) && file->point_bytes == row_bytes(columns) &&
              file->run_bytes == (size_t)file->run * file->point_bytes;
  return rows ? file->data + columns->fields[0]->offset : NULL;
}

// Safe if each row lies at or before its own point, and so never over a point that is still to be read.
bool cloud_shrinks(const struct cloud_file *file, const struct cloud_columns *columns) {
  return file->layout == CLOUD_BINARY && file->point_bytes >= row_bytes(columns);
}

// A point is read whole before its row is written, since both may overlap.
static void gather_run(const struct cloud_file *file, const struct cloud_columns *columns, const char *run,
                       char *rows) {
  size_t bytes = row_bytes(columns);
  bool side_by_side = are_row(file, columns);
  VX_EACH_ROW(file->stop, i, 0, file->run) {
    char *at = rows + (size_t)i * bytes;
    uint32_t row[VX_MAX_FEATURES];
    if (side_by_side) {
      memmove(at, run + (size_t)i * file->point_bytes + columns->fields[0]->offset, bytes);
      continue;
    }
    for (int c = 0; c < columns->count; c++) {
      const struct cloud_field *field = columns->fields[c];
      row[c] = value_at(run + (size_t)i * field->stride + field->offset, field->type, file->big_endian);
    }
    memcpy(at, row, bytes);
  }
}

// ---- points as text -------------------------------------------------------------------------------------------------

static bool refuse_number(const struct cloud_field *field, int64_t line, const struct span *word, struct error *error) {
  const struct span name = {field->name, field->name_length};
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld, field %.*s: '%.*s' is not a number", (long long)line,
                      SPAN_ARGS(name), SPAN_ARGS(*word));
}

static bool gather_line(const struct cloud_file *file, const struct cloud_columns *columns, const int8_t *column_of,
                        const struct lines *lines, struct span line, char *row, struct error *error) {
  struct span word;
  size_t values = 0;
  for (; span_word(&line, &word); values++) {
    int column = values < file->point_bytes ? column_of[values] : -1;
    float value;
    if (column < 0) continue;
    if (!decimal_read(&word, &value)) return refuse_number(columns->fields[column], lines->number, &word, error);
    memcpy(row + (size_t)column * sizeof value, &value, sizeof value);
  }
  if (values == 0 || values == file->point_bytes) return true;  // empty lines are skipped
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld has %zu values; a point has %zu",
                      (long long)lines->number, values, file->point_bytes);
}

static bool gather_text(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                        struct error *error) {
  int8_t column_of[CLOUD_VALUES_MAX];
  struct lines lines = {file->data, file->data + file->size, file->line - 1, file->stop};
  struct span line, word;
  int64_t points = 0;
  memset(column_of, -1, sizeof column_of);
  for (int c = 0; c < columns->count; c++) column_of[columns->fields[c]->offset] = (int8_t)c;
  while ((points < file->points || file->ends) && lines_next(&lines, &line)) {
    struct span first = line;
    if (!span_word(&first, &word)) continue;
    if (points == file->points)
      return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld comes after the %lld points that were promised",
                          (long long)lines.number, (long long)points);
    if (!gather_line(file, columns, column_of, &lines, line, rows, error)) return false;
    rows += row_bytes(columns);
    points++;
  }
  if (points == file->points) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends after line %lld with %lld points; %lld were promised",
                      (long long)lines.number, (long long)points, (long long)file->points);
}

// ---- all points -----------------------------------------------------------------------------------------------------

bool cloud_unpack(struct cloud_file *file, char *out, struct error *error) {
  if (!lzf_unpack(file->data, file->size, out, file->unpacked_bytes, file->stop))
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the compressed points do not unpack to the %zu bytes promised",
                        file->unpacked_bytes);
  file->layout = CLOUD_COLUMNS;
  file->data = out;
  file->size = file->unpacked_bytes;
  return true;
}

bool cloud_gather(const struct cloud_file *file, const struct cloud_columns *columns, char *rows, struct error *error) {
  if (file->layout == CLOUD_TEXT) return gather_text(file, columns, rows, error);
  for (int64_t done = 0; done < file->points; done += file->run)
    gather_run(file, columns, file->data + (size_t)(done / file->run) * file->run_bytes,
               rows + (size_t)done * row_bytes(columns));
  return true;
}

// ---- intensity ------------------------------------------------------------------------------------------------------

int cloud_intensity(const struct job_request *request) {
  return value_find_name(request->fields, intensity, strlen(intensity));
}

void cloud_scale(const struct job_request *request, int column, struct vx_stop *stop, char *rows) {
  size_t bytes = (size_t)request->num_features * sizeof(float);
  char *at = rows + (size_t)column * sizeof(float);
  VX_EACH_ROW(stop, i, 0, request->job.inputs[VX_POINTS].dims[0]) {
    float value;
    memcpy(&value, at, sizeof value);
    value *= request->intensity_scale;
    memcpy(at, &value, sizeof value);
    at += bytes;
  }
}

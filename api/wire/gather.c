// See gather.h.
#include "api/wire/gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/params/values.h"
#include "api/wire/decimal.h"
#include "kernels/half.h"

// ---- columns --------------------------------------------------------------------------------------------------------

static const char intensity[] = "intensity";

typedef int (*compare)(const char *a, const char *b, size_t length);

static bool is_named(const struct cloud_field *field, struct span name, compare differ) {
  return field->name_length == name.length && differ(field->name, name.at, name.length) == 0;
}

// The number of fields with this name or, if there are none, with the name in another letter case.
static int find_fields(const struct cloud_file *file, struct span name, const struct cloud_field **first) {
  static const compare compares[] = {strncmp, strncasecmp};
  int found = 0;
  for (size_t c = 0; c < sizeof compares / sizeof *compares && !found; c++)
    for (int i = file->num_fields - 1; i >= 0; i--) {
      if (!is_named(&file->fields[i], name, compares[c])) continue;
      *first = &file->fields[i];
      found++;
    }
  return found;
}

static void list_fields(const struct cloud_file *file, char *out, size_t size) {
  struct text text = text_over(out, size);
  if (file->num_fields == 0) text_put(&text, "no fields");
  for (int i = 0; i < file->num_fields; i++) {
    const struct cloud_field *field = &file->fields[i];
    text_put(&text, i ? ", " : "");
    text_append(&text, field->name, field->name_length < SPAN_SHOWN ? field->name_length : SPAN_SHOWN);
    if (field->is_list)
      text_put(&text, " (a list)");
    else if (field->count != 1)
      text_printf(&text, " (%lld values)", (long long)field->count);
  }
}

// `parameter`: the request's parameter that gives the name. NULL with an error if the file has no such field, or
// several.
static const struct cloud_field *find_field(const struct cloud_file *file, struct span name, const char *parameter,
                                            struct error *error) {
  const struct cloud_field *field = NULL;
  int found = find_fields(file, name, &field);
  char there[256];
  if (found == 1 && field->count == 1) return field;
  list_fields(file, there, sizeof there);
  if (found > 1)
    error_refuse(error, ERROR_BAD_BODY, parameter,
                 "the file has %d fields named %.*s, so the name is ambiguous; it has %s", found, SPAN_ARGS(name),
                 there);
  else
    error_refuse(error, ERROR_BAD_BODY, parameter, "the file has no field %.*s of one value; it has %s",
                 SPAN_ARGS(name), there);
  return NULL;
}

static bool add_column(const struct cloud_file *file, struct cloud_columns *columns, struct span name,
                       struct error *error) {
  const struct cloud_field *field = find_field(file, name, "fields", error);
  if (field) columns->fields[columns->count++] = field;
  return field;
}

static bool is_column(const struct cloud_columns *columns, const struct cloud_field *field) {
  for (int c = 0; c < columns->count; c++)
    if (columns->fields[c] == field) return true;
  return false;
}

static bool choose_first(const struct cloud_file *file, int wanted, struct cloud_columns *columns,
                         struct error *error) {
  char there[256];
  for (int a = 0; a < 3; a++)
    if (!add_column(file, columns, (struct span){&"xyz"[a], 1}, error)) return false;
  for (int i = 0; i < file->num_fields && columns->count < wanted; i++) {
    const struct cloud_field *field = &file->fields[i];
    if (field->count != 1 || field == columns->time || is_column(columns, field)) continue;
    if (!add_column(file, columns, (struct span){field->name, field->name_length}, error)) return false;
  }
  if (columns->count == wanted) return true;
  list_fields(file, there, sizeof there);
  return error_refuse(error, ERROR_BAD_BODY, "num_features",
                      "num_features is %d, but the points of the file have only %d columns; its fields are %s", wanted,
                      columns->count, there);
}

static bool choose_named(const struct cloud_file *file, const char *names, struct cloud_columns *columns,
                         struct error *error) {
  const char *cursor = names, *end = names + strlen(names);
  char name[VALUE_NAMES_SIZE];
  while (value_next(&cursor, end, name, sizeof name))
    if (!add_column(file, columns, (struct span){name, strlen(name)}, error)) return false;
  return true;
}

static enum time_kind kind_of(enum number_type type) {
  switch (type) {
    case NUMBER_INT8:
    case NUMBER_INT16:
    case NUMBER_INT32:
    case NUMBER_INT64: return TIME_SIGNED;
    case NUMBER_FLOAT32:
    case NUMBER_FLOAT64: return TIME_DOUBLE;
    default: return TIME_UNSIGNED;
  }
}

bool cloud_choose(const struct cloud_file *file, const struct job_request *request, struct cloud_columns *columns,
                  struct error *error) {
  const char *time = request->time.field;
  columns->count = 0;
  columns->time = NULL;
  columns->times = (struct times){.column = -1, .stamp_s = file->stamp_s, .stamp_ns = file->stamp_ns};
  if (time[0] && !(columns->time = find_field(file, (struct span){time, strlen(time)}, "time_field", error)))
    return false;
  if (request->num_fields ? !choose_named(file, request->fields, columns, error)
                          : !choose_first(file, request->num_features, columns, error))
    return false;
  columns->intensity = -1;
  for (int c = 0; c < columns->count; c++)
    if (columns->fields[c] == columns->time) columns->times.column = c;
  columns->times.kind = time[0] ? kind_of(columns->time->type) : TIME_DOUBLE;
  for (int c = 0; c < columns->count; c++)
    if (is_named(columns->fields[c], (struct span){intensity, strlen(intensity)}, strncasecmp)) columns->intensity = c;
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

// As float32. A float32 keeps its bits, so that a NaN stays the same.
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

// False, without a value, if float32 can hold every value of the type.
static bool wide_at(const char *at, enum number_type type, bool big_endian, double *out) {
  uint64_t bits = load(at, number_bytes(type), big_endian);
  switch (type) {
    case NUMBER_INT32: *out = (int32_t)bits; return true;
    case NUMBER_INT64: *out = (double)(int64_t)bits; return true;
    case NUMBER_UINT32:
    case NUMBER_UINT64: *out = (double)bits; return true;
    case NUMBER_FLOAT64: memcpy(out, &bits, sizeof bits); return true;
    default: return false;
  }
}

// A number of this many bytes in two's complement.
static int64_t signed_of(uint64_t bits, size_t bytes) {
  uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
  return (int64_t)(bits ^ sign) - (int64_t)sign;
}

// The exact value.
static union time_value time_at(const char *at, enum number_type type, bool big_endian) {
  uint64_t bits = load(at, number_bytes(type), big_endian);
  union time_value value = {.natural = bits};
  switch (type) {
    case NUMBER_INT8:
    case NUMBER_INT16:
    case NUMBER_INT32: value.whole = signed_of(bits, number_bytes(type)); break;
    case NUMBER_FLOAT32: value.number = (double)vx_bits_float((uint32_t)bits); break;
    default: break;  // the bits are the value
  }
  return value;
}

// The range of a column of 64-bit numbers, and the farthest that rounding moved a value.
struct column_range {
  double least, most, moved;
};

// What rounding does while rows are written.
struct losses {
  struct cloud_loss *loss;
  struct column_range columns[VX_MAX_FEATURES];
};

static struct losses losses_of(struct cloud_loss *loss) {
  struct losses losses = {.loss = loss};
  *loss = (struct cloud_loss){0};
  for (int c = 0; c < VX_MAX_FEATURES; c++) losses.columns[c] = (struct column_range){INFINITY, -INFINITY, 0};
  return losses;
}

// A number that is not finite as float32 is no loss.
static void note_range(struct column_range *column, double wide, float value) {
  if (!vx_is_finite(value)) return;
  double moved = fabs(wide - (double)value);
  column->least = wide < column->least ? wide : column->least;
  column->most = wide > column->most ? wide : column->most;
  column->moved = moved > column->moved ? moved : column->moved;
}

static void end_losses(const struct losses *losses) {
  struct cloud_loss *loss = losses->loss;
  for (int c = 3; c < VX_MAX_FEATURES; c++) {
    const struct column_range *column = &losses->columns[c];
    double range = column->most - column->least;
    if (!(range > 0) || !(column->moved * loss->range > loss->moved * range || (!loss->column && column->moved > 0)))
      continue;
    loss->column = c;
    loss->moved = column->moved;
    loss->range = range;
  }
}

static void note_loss(struct losses *losses, const struct cloud_columns *columns, int column, double wide,
                      float value) {
  bool timed = columns->times.values && column == columns->times.column;  // times_convert replaces it
  if (column < 3)
    cloud_note_loss(losses->loss, wide, value);
  else if (!timed && number_bytes(columns->fields[column]->type) == sizeof wide)
    note_range(&losses->columns[column], wide, value);
}

static uint32_t column_at(const struct cloud_file *file, const struct cloud_columns *columns, int column,
                          const char *at, struct losses *losses) {
  enum number_type type = columns->fields[column]->type;
  uint32_t bits = value_at(at, type, file->big_endian);
  double wide;
  float value;
  memcpy(&value, &bits, sizeof value);
  if (wide_at(at, type, file->big_endian, &wide)) note_loss(losses, columns, column, wide, value);
  return bits;
}

// ---- points as bytes ------------------------------------------------------------------------------------------------

// The columns of a point are contiguous, as in a row.
static bool are_row(const struct cloud_file *file, const struct cloud_columns *columns) {
  if (file->layout != CLOUD_BINARY || file->big_endian || file->lists) return false;
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

// A row must not overwrite a point that is not read yet. None does if each row begins at or before its own point.
bool cloud_shrinks(const struct cloud_file *file, const struct cloud_columns *columns) {
  return file->layout == CLOUD_BINARY && file->point_bytes >= row_bytes(columns);
}

// Reads a whole point before its row is written: they may overlap.
static void gather_run(const struct cloud_file *file, const struct cloud_columns *columns, int64_t done,
                       const char *run, char *rows, struct losses *losses) {
  size_t bytes = row_bytes(columns);
  bool side_by_side = are_row(file, columns);
  const struct cloud_field *time = columns->times.values ? columns->time : NULL;
  union time_value *times = time ? columns->times.values + done : NULL;
  VX_EACH_ROW(file->stop, i, 0, file->run) {
    char *at = rows + (size_t)i * bytes;
    uint32_t row[VX_MAX_FEATURES];
    if (time) times[i] = time_at(run + (size_t)i * time->stride + time->offset, time->type, file->big_endian);
    if (side_by_side) {
      memmove(at, run + (size_t)i * file->point_bytes + columns->fields[0]->offset, bytes);
      continue;
    }
    for (int c = 0; c < columns->count; c++) {
      const struct cloud_field *field = columns->fields[c];
      row[c] = column_at(file, columns, c, run + (size_t)i * field->stride + field->offset, losses);
    }
    memcpy(at, row, bytes);
  }
}

enum { BLOCK = 256 };  // points whose rows fit into the first-level cache

static void gather_column(const struct cloud_file *file, const struct cloud_columns *columns, int column, int64_t begin,
                          int64_t end, char *rows, struct losses *losses) {
  const struct cloud_field *field = columns->fields[column];
  const char *from = file->data + field->offset + (size_t)begin * field->stride;
  size_t bytes = row_bytes(columns);
  char *to = rows + (size_t)begin * bytes + (size_t)column * sizeof(float);
  for (int64_t i = begin; i < end; i++, from += field->stride, to += bytes) {
    uint32_t bits;
    if (field->type == NUMBER_FLOAT32)
      memcpy(&bits, from, sizeof bits);
    else
      bits = column_at(file, columns, column, from, losses);
    memcpy(to, &bits, sizeof bits);
  }
}

// The rows never overlap points of CLOUD_COLUMNS.
static void gather_columns(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                           struct losses *losses) {
  const struct cloud_field *time = columns->times.values ? columns->time : NULL;
  for (int64_t begin = 0, end; begin < file->points && !vx_stopped(file->stop, BLOCK); begin = end) {
    end = file->points - begin < BLOCK ? file->points : begin + BLOCK;
    for (int c = 0; c < columns->count; c++) gather_column(file, columns, c, begin, end, rows, losses);
    for (int64_t i = begin; time && i < end; i++)
      columns->times.values[i] =
          time_at(file->data + time->offset + (size_t)i * time->stride, time->type, file->big_endian);
  }
}

// False if the body ends within the value.
static bool pass_field(const struct cloud_file *file, const struct cloud_field *field, const char **at) {
  size_t left = (size_t)(file->data + file->size - *at), bytes = number_bytes(field->type);
  size_t head = field->is_list ? number_bytes(field->length_type) : 0;
  if (left < head) return false;
  uint64_t count = field->is_list ? load(*at, head, file->big_endian) : (uint64_t)field->count;
  if (count > (left - head) / bytes) return false;
  *at += head + count * bytes;
  return true;
}

// Lists of any length may precede a value, so points are checked while they are read. The rows may have overwritten the
// names of the fields, so errors do not name them.
static bool gather_lists(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                         struct losses *losses, struct error *error) {
  const char *at = file->data, *places[CLOUD_FIELDS_MAX];
  size_t bytes = row_bytes(columns);
  VX_EACH_ROW(file->stop, i, 0, file->points) {
    uint32_t row[VX_MAX_FEATURES];
    for (int f = 0; f < file->num_fields; f++) {
      places[f] = at;
      if (pass_field(file, &file->fields[f], &at)) continue;
      return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends within point %lld of %lld", (long long)i + 1,
                          (long long)file->points);
    }
    for (int c = 0; c < columns->count; c++)
      row[c] = column_at(file, columns, c, places[columns->fields[c] - file->fields], losses);
    if (columns->times.values)
      columns->times.values[i] = time_at(places[columns->time - file->fields], columns->time->type, file->big_endian);
    memcpy(rows + (size_t)i * bytes, row, bytes);
  }
  return !file->ends || cloud_check_tail(file, at, error);
}

// ---- points as text -------------------------------------------------------------------------------------------------

static bool refuse_number(const struct cloud_field *field, int64_t line, const struct span *word, struct error *error) {
  const struct span name = {field->name, field->name_length};
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld, field %.*s: '%.*s' is not a number", (long long)line,
                      SPAN_ARGS(name), SPAN_ARGS(*word));
}

enum { NO_COLUMN = -1, LIST = -2 };

// `word`: the number of values to take from the line.
static bool skip_list(struct span *line, const struct span *word) {
  int64_t count;
  struct span value;
  if (!span_number(word, INT64_MAX, &count)) return false;
  while (count-- > 0)
    if (!span_word(line, &value)) return false;
  return true;
}

// Whole numbers are exact. False if `kind` is whole and the number is not finite or reaches 2^64. Does not check the
// sign or the range of the kind.
static bool read_time(const struct span *word, enum time_kind kind, double wide, union time_value *out) {
  char text[32];
  bool negative = word->at[0] == '-';
  out->number = wide;
  if (kind == TIME_DOUBLE) return true;
  if (!(fabs(wide) < 0x1p64)) return false;
  uint64_t size = (uint64_t)fabs(wide);
  if (word->length < sizeof text) {
    memcpy(text, word->at, word->length);
    text[word->length] = '\0';
    if (strspn(text + negative, "0123456789") == word->length - negative) size = strtoull(text + negative, NULL, 10);
  }
  out->natural = negative ? -size : size;
  return true;
}

static bool gather_line(const struct cloud_file *file, const struct cloud_columns *columns, const int8_t *column_of,
                        const struct lines *lines, struct span line, char *row, union time_value *time,
                        struct losses *losses, struct error *error) {
  struct span word;
  size_t values = 0, of_time = time ? columns->time->offset : SIZE_MAX;
  for (; span_word(&line, &word); values++) {
    bool timed = values == of_time;
    int column = values < file->point_bytes ? column_of[values] : NO_COLUMN;
    struct decimal number;
    if (column == LIST && !skip_list(&line, &word))
      return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld does not have a list of '%.*s' values",
                          (long long)lines->number, SPAN_ARGS(word));
    if (column < 0 && !timed) continue;
    const struct cloud_field *field = timed ? columns->time : columns->fields[column];
    if (!decimal_read(&word, &number) || (timed && !read_time(&word, columns->times.kind, number.wide, time)))
      return refuse_number(field, lines->number, &word, error);
    if (column < 0) continue;
    memcpy(row + (size_t)column * sizeof number.value, &number.value, sizeof number.value);
    note_loss(losses, columns, column, number.wide, number.value);
  }
  if (values == file->point_bytes) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld has %zu values; a point has %zu",
                      (long long)lines->number, values, file->point_bytes);
}

static bool gather_text(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                        struct losses *losses, struct error *error) {
  int8_t column_of[CLOUD_VALUES_MAX];
  struct lines lines = lines_over(file->data, file->size, file->line - 1, file->stop);
  struct span line, word;
  int64_t points = 0;
  memset(column_of, NO_COLUMN, sizeof column_of);
  for (int i = 0; i < file->num_fields; i++)
    if (file->fields[i].is_list) column_of[file->fields[i].offset] = LIST;
  for (int c = 0; c < columns->count; c++) column_of[columns->fields[c]->offset] = (int8_t)c;
  while ((points < file->points || file->ends) && lines_next(&lines, &line)) {
    struct span first = line;
    if (!span_word(&first, &word)) continue;
    if (points == file->points)
      return error_refuse(error, ERROR_BAD_BODY, NULL, "line %lld comes after the %lld points that were promised",
                          (long long)lines.number, (long long)points);
    union time_value *time = columns->times.values ? columns->times.values + points : NULL;
    if (!gather_line(file, columns, column_of, &lines, line, rows, time, losses, error)) return false;
    rows += row_bytes(columns);
    points++;
  }
  if (points == file->points) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the body ends after line %lld with %lld points; %lld were promised",
                      (long long)lines.number, (long long)points, (long long)file->points);
}

// ---- all points -----------------------------------------------------------------------------------------------------

bool cloud_unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error) {
  return file->packing.unpack(file, decoder, out, error);
}

static bool gather_points(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                          struct losses *losses, struct error *error) {
  if (file->layout == CLOUD_TEXT) return gather_text(file, columns, rows, losses, error);
  if (file->lists) return gather_lists(file, columns, rows, losses, error);
  if (file->layout == CLOUD_COLUMNS) gather_columns(file, columns, rows, losses);
  if (file->layout == CLOUD_COLUMNS) return true;
  for (int64_t done = 0; done < file->points; done += file->run)
    gather_run(file, columns, done, file->data + (size_t)(done / file->run) * file->run_bytes,
               rows + (size_t)done * row_bytes(columns), losses);
  return true;
}

bool cloud_gather(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                  struct cloud_loss *loss, struct error *error) {
  struct losses losses = losses_of(loss);
  bool good = gather_points(file, columns, rows, &losses, error);
  end_losses(&losses);
  return good;
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

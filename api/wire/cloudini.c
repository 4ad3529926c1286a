// See cloudini.h. A header is either text that ends in a NUL, or binary.
#include "api/wire/cloudini.h"

#include <math.h>
#include <string.h>

#include "api/wire/cloudini_unpack.h"
#include "api/wire/decimal.h"
#include "api/wire/lines.h"
#include "api/wire/wire.h"

static const char magic[] = "CLOUDINI_V";

enum { MAGIC = sizeof magic - 1, VERSION_DIGITS = 2, FIRST_VERSION = 2, LAST_VERSION = 5 };
enum { TEXT_MOST = 8192, FIELDS_MOST = VX_MAX_FEATURES, LENGTH_BYTES = 4, LEAST_CHUNK = LENGTH_BYTES + 1 };
enum { COLUMN_MOST = 8 };  // room for the head, up to 5 bytes, of a column that follows the points

static const char *const encodings[] = {
    [CLOUDINI_NONE] = "NONE", [CLOUDINI_LOSSY] = "LOSSY", [CLOUDINI_LOSSLESS] = "LOSSLESS", NULL};
static const char *const compressors[] = {
    [CLOUDINI_PLAIN] = "NONE", [CLOUDINI_LZ4] = "LZ4", [CLOUDINI_ZSTD] = "ZSTD", NULL};
static const char *const type_words[] = {"INT8",    "UINT8",   "INT16", "UINT16", "INT32", "UINT32",
                                         "FLOAT32", "FLOAT64", "INT64", "UINT64", NULL};
static const enum number_type types[] = {NUMBER_INT8,   NUMBER_UINT8,   NUMBER_INT16,   NUMBER_UINT16, NUMBER_INT32,
                                         NUMBER_UINT32, NUMBER_FLOAT32, NUMBER_FLOAT64, NUMBER_INT64,  NUMBER_UINT64};
enum { TYPES = sizeof types / sizeof *types };

// A header that is being read.
struct head {
  struct cloud_file *file;
  const char *at, *end;  // the rest of the blob
  int64_t width, height;
  int encoding, compressor;  // -1 = not given
  struct error *error;
};

bool cloudini_looks(const char *bytes, size_t size) { return size > MAGIC && memcmp(bytes, magic, MAGIC) == 0; }

// ---- fields ---------------------------------------------------------------------------------------------------------

static bool add_field(const struct head *head, struct span name, enum number_type type) {
  struct cloud_file *file = head->file;
  const struct cloud_field field = {.name = name.at, .name_length = name.length, .type = type, .count = 1};
  if (file->num_fields == FIELDS_MOST)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob has more than %d fields", FIELDS_MOST);
  for (int i = 0; i < file->num_fields; i++)
    if (file->fields[i].name_length == name.length && memcmp(file->fields[i].name, name.at, name.length) == 0)
      return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob has two fields %.*s", SPAN_ARGS(name));
  return cloud_add(file, field, head->error);
}

// ---- the header as text ---------------------------------------------------------------------------------------------

static struct span trimmed(struct span span) {
  while (span.length && span.at[0] == ' ') span = (struct span){span.at + 1, span.length - 1};
  while (span.length && strchr(" \r", span.at[span.length - 1])) span.length--;
  return span;
}

static int word_of(const char *const *words, struct span word) {
  int index = 0;
  while (words[index] && !span_is(&word, words[index])) index++;
  return words[index] ? index : -1;
}

static bool refuse_entry(const struct head *head, struct span key, struct span value, const char *allowed) {
  return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob's header has '%.*s' for %.*s; allowed: %s",
                      SPAN_ARGS(value), SPAN_ARGS(key), allowed);
}

static bool take_resolution(const struct head *head, struct span key, struct span value) {
  struct decimal number;
  if (span_is(&value, "null")) return true;
  bool good = decimal_read(&value, &number) && number.value > 0 && number.value < INFINITY;
  if (good) head->file->fields[head->file->num_fields - 1].resolution = number.value;
  return good || refuse_entry(head, key, value, "null, or a number above 0");
}

static bool take_type(const struct head *head, struct span key, struct span value) {
  int index = word_of(type_words, value);
  if (index >= 0) head->file->fields[head->file->num_fields - 1].type = types[index];
  return index >= 0 || refuse_entry(head, key, value, "INT8 to UINT64, FLOAT32 or FLOAT64");
}

// Other entries of a field, such as its offset, are ignored.
static bool take_field_entry(const struct head *head, struct span key, struct span value) {
  if (span_is(&key, "type")) return take_type(head, key, value);
  return !span_is(&key, "resolution") || take_resolution(head, key, value);
}

static bool take_word(const struct head *head, struct span key, struct span value, const char *const *words,
                      const char *allowed, int *out) {
  *out = word_of(words, value);
  return *out >= 0 || refuse_entry(head, key, value, allowed);
}

static bool take_size(const struct head *head, struct span key, struct span value, int64_t *out) {
  return span_number(&value, UINT32_MAX, out) || refuse_entry(head, key, value, "a number from 0 to 4294967295");
}

static bool take_entry(struct head *head, struct span key, struct span value) {
  if (span_is(&key, "width")) return take_size(head, key, value, &head->width);
  if (span_is(&key, "height")) return take_size(head, key, value, &head->height);
  if (span_is(&key, "encoding_opt"))
    return take_word(head, key, value, encodings, "NONE, LOSSY or LOSSLESS", &head->encoding);
  if (span_is(&key, "compression_opt"))
    return take_word(head, key, value, compressors, "NONE, LZ4 or ZSTD", &head->compressor);
  return true;  // ignored: version (known from the first line), point_step, encoding_config, fields
}

static bool take_line(struct head *head, struct span line) {
  bool inside = line.length && line.at[0] == ' ';
  line = trimmed(line);
  bool begins = line.length && line.at[0] == '-';
  if (begins) line = trimmed((struct span){line.at + 1, line.length - 1});
  const char *colon = line.length ? memchr(line.at, ':', line.length) : NULL;
  if (!line.length) return true;
  if (!colon)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob's header has '%.*s', which is not an entry",
                        SPAN_ARGS(line));
  struct span key = {line.at, (size_t)(colon - line.at)};
  struct span value = trimmed((struct span){colon + 1, line.length - key.length - 1});
  if (begins && span_is(&key, "name")) return add_field(head, value, NUMBER_TYPES);  // the type follows
  return inside && head->file->num_fields ? take_field_entry(head, key, value) : take_entry(head, key, value);
}

static bool take_text(struct head *head) {
  size_t left = (size_t)(head->end - head->at), most = left < TEXT_MOST ? left : TEXT_MOST;
  const char *end = memchr(head->at, '\0', most);
  if (!end)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob's header does not end within %d bytes", TEXT_MOST);
  struct lines lines = lines_over(head->at, (size_t)(end - head->at), 0, NULL);
  struct span line;
  while (lines_next(&lines, &line))
    if (!take_line(head, line)) return false;
  head->at = end + 1;
  return true;
}

// ---- the header as bytes --------------------------------------------------------------------------------------------

// Little-endian.
static bool take_number(struct head *head, size_t bytes, uint32_t *out) {
  *out = 0;
  if ((size_t)(head->end - head->at) < bytes)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the body ends within the blob's header");
  for (size_t i = 0; i < bytes; i++) *out |= (uint32_t)(unsigned char)*head->at++ << 8 * i;
  return true;
}

static bool take_binary_field(struct head *head) {
  uint32_t length, offset, type, bits;
  if (!take_number(head, 2, &length)) return false;
  const struct span name = {head->at, length};
  if ((size_t)(head->end - head->at) < length)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the body ends within the blob's header");
  head->at += length;
  if (!take_number(head, 4, &offset) || !take_number(head, 1, &type) || !take_number(head, 4, &bits)) return false;
  float resolution = vx_bits_float(bits);
  if (type < 1 || type > TYPES)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "field %.*s has the type %u; allowed: 1 to %d",
                        SPAN_ARGS(name), type, TYPES);
  if (!vx_is_finite(resolution))
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the resolution of field %.*s is not finite",
                        SPAN_ARGS(name));
  if (!add_field(head, name, types[type - 1])) return false;
  head->file->fields[head->file->num_fields - 1].resolution = resolution > 0 ? resolution : 0;
  return true;
}

static bool take_binary(struct head *head) {
  uint32_t width, height, step, encoding, compressor, fields;
  if (!take_number(head, 4, &width) || !take_number(head, 4, &height) || !take_number(head, 4, &step) ||
      !take_number(head, 1, &encoding) || !take_number(head, 1, &compressor) || !take_number(head, 2, &fields))
    return false;
  if (encoding > CLOUDINI_LOSSLESS || compressor > CLOUDINI_ZSTD)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL,
                        "the blob has the encoding %u and the compression %u; allowed: 0, 1 and 2", encoding,
                        compressor);
  head->width = width;
  head->height = height;
  head->encoding = (int)encoding;
  head->compressor = (int)compressor;
  for (uint32_t i = 0; i < fields; i++)
    if (!take_binary_field(head)) return false;
  return true;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool take_version(struct head *head, const char *bytes, size_t size) {
  struct span digits = {bytes + MAGIC, VERSION_DIGITS};
  int64_t version;
  if (!cloudini_looks(bytes, size) || size < MAGIC + VERSION_DIGITS)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the body does not begin with %s and a version", magic);
  head->at = bytes + MAGIC + VERSION_DIGITS;
  if (!span_number(&digits, 99, &version) || version < FIRST_VERSION || version > LAST_VERSION)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob has the version %.*s; allowed: %02d to %02d",
                        SPAN_ARGS(digits), FIRST_VERSION, LAST_VERSION);
  head->file->packing.version = (int)version;
  return true;
}

static bool check_head(const struct head *head) {
  if (head->width < 0 || head->height < 0 || head->encoding < 0 || head->compressor < 0)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL,
                        "the blob's header lacks width, height, encoding_opt or compression_opt");
  const struct cloud_file *file = head->file;
  for (int i = 0; i < file->num_fields; i++)
    if (file->fields[i].type == NUMBER_TYPES)
      return error_refuse(head->error, ERROR_BAD_BODY, NULL, "field %d of the blob has no type", i + 1);
  return file->num_fields || error_refuse(head->error, ERROR_BAD_BODY, NULL, "the points of the blob have no fields");
}

// From version 3 on, each chunk is preceded by its length. Refuses missing chunks, and bytes after the last chunk.
static bool check_chunks(const struct head *head) {
  const struct cloud_file *file = head->file;
  int64_t chunks = file->points / CLOUDINI_CHUNK + (file->points % CLOUDINI_CHUNK != 0);
  size_t left = file->size;
  const char *at = file->data;
  if (file->packing.version == FIRST_VERSION)
    return (left > 0) == (file->points > 0) ||
           error_refuse(head->error, ERROR_BAD_BODY, NULL, "%zu bytes follow the header of a blob of %lld points", left,
                        (long long)file->points);
  if ((uint64_t)chunks > left / LEAST_CHUNK)
    return error_refuse(head->error, ERROR_BAD_BODY, NULL,
                        "%zu bytes follow the blob's header, too few for %lld points", left, (long long)file->points);
  for (; chunks > 0 && !vx_stopped(file->stop, 1); chunks--) {
    uint32_t bytes;
    struct head chunk = {.at = at, .end = at + left, .error = head->error};
    if (!take_number(&chunk, LENGTH_BYTES, &bytes)) return false;
    left -= LENGTH_BYTES;
    if (bytes > left)
      return error_refuse(head->error, ERROR_BAD_BODY, NULL, "a chunk of the blob has %u bytes, but %zu are left",
                          bytes, left);
    at += LENGTH_BYTES + bytes;
    left -= bytes;
  }
  return left == 0 ||
         error_refuse(head->error, ERROR_BAD_BODY, NULL, "%zu bytes follow the last chunk of the blob", left);
}

// Places the columns of the unpacked points. Every size is checked before memory is taken.
static bool set_packing(const struct head *head) {
  struct cloud_file *file = head->file;
  struct cloud_packing *packing = &file->packing;
  size_t point = 0, packed = 0, most;
  packing->encoding = head->encoding;
  packing->compressor = head->compressor;
  for (int i = 0; i < file->num_fields; i++) {
    point += number_bytes(file->fields[i].type);
    packed += cloudini_value_bytes(packing, &file->fields[i]);
  }
  bool chunked = packing->version > FIRST_VERSION && file->points > CLOUDINI_CHUNK;
  size_t chunk = chunked ? CLOUDINI_CHUNK : (size_t)file->points, fields = (size_t)file->num_fields;
  if (__builtin_mul_overflow((size_t)file->points, point, &packing->bytes) ||
      __builtin_mul_overflow(chunk, packed, &most) ||
      __builtin_add_overflow(most, COLUMN_MOST * fields + packing->bytes, &most))
    return error_refuse(head->error, ERROR_BAD_BODY, NULL, "the blob has %lld points, which no memory holds",
                        (long long)file->points);
  packing->unpack = cloudini_unpack;
  packing->coding = head->compressor == CLOUDINI_ZSTD ? CODING_ZSTD : CODING_NONE;
  packing->spare_bytes = head->compressor == CLOUDINI_PLAIN ? 0 : most - packing->bytes;
  file->layout = CLOUD_PACKED;
  file->run = file->points;
  file->point_bytes = point;
  size_t offset = 0;
  for (int i = 0; i < file->num_fields; i++) {
    file->fields[i].offset = offset;
    file->fields[i].stride = number_bytes(file->fields[i].type);
    offset += file->fields[i].stride * (size_t)file->points;
  }
  return true;
}

bool cloudini_open(const char *bytes, size_t size, struct cloud_file *file, int64_t *width, int64_t *height,
                   struct error *error) {
  struct head head = {.file = file,
                      .at = bytes,
                      .end = bytes + size,
                      .width = -1,
                      .height = -1,
                      .encoding = -1,
                      .compressor = -1,
                      .error = error};
  file->num_fields = 0;
  if (!take_version(&head, bytes, size)) return false;
  bool text = head.at < head.end && *head.at == '\n';
  if (text ? !take_text(&head) : !take_binary(&head)) return false;
  if (!check_head(&head)) return false;
  if (__builtin_mul_overflow(head.width, head.height, &file->points))
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the blob has %lld times %lld points, which no memory holds",
                        (long long)head.width, (long long)head.height);
  file->data = head.at;
  file->size = (size_t)(head.end - head.at);
  if (width) *width = head.width;
  if (height) *height = head.height;
  return check_chunks(&head) && set_packing(&head);
}

bool cloudini_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error) {
  return cloudini_open(bytes, size, file, NULL, NULL, error);
}

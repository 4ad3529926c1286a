// sensor_msgs/msg/PointCloud2 of ROS 2 in CDR: an encapsulation of four bytes, then the members. Each number is aligned
// to its own size, counted from the end of the encapsulation. In XCDR2 the list of fields is preceded by its size in
// bytes. ROS 1 has the same members without alignment, strings without NUL, and the message's number in place of the
// encapsulation.
//
// point_cloud_interfaces/msg/CompressedPointCloud2 has the same members, with compressed bytes as data, and at the end
// a string that names the compression.
#include <string.h>

#include "api/wire/cloudini.h"
#include "api/wire/formats.h"
#include "api/wire/lines.h"
#include "api/wire/wire.h"

static const char hint_ros1[] =
    "the body looks like a PointCloud2 of ROS 1, which is not read: send it as ROS 2 serializes it (CDR)";
static const char hint[] = "the body looks like a serialized PointCloud2: add format=pointcloud2";
static const char hint_compressed[] =
    "the body looks like a serialized CompressedPointCloud2: add format=compressedpointcloud2";

enum { ENCAPSULATION = 4, PADDING_MOST = 7 };

struct cdr {
  const char *bytes;
  size_t size, at;
  bool big_endian;  // byte order of the members; is_bigendian is that of the points
  bool xcdr2, ros1;
  struct error *error;
};

// `count` bytes from the next multiple of `align`. NULL with an error if the body is too short.
static const char *take(struct cdr *cdr, size_t align, size_t count, const char *what) {
  size_t at = cdr->at + (cdr->ros1 ? 0 : (align - (cdr->at - ENCAPSULATION) % align) % align);
  if (at > cdr->size || count > cdr->size - at) {
    error_refuse(cdr->error, ERROR_BAD_BODY, NULL, "the body ends at byte %zu, within %s of the PointCloud2", cdr->size,
                 what);
    return NULL;
  }
  cdr->at = at + count;
  return cdr->bytes + at;
}

static bool take_number(struct cdr *cdr, const char *what, uint32_t *out) {
  const unsigned char *at = (const unsigned char *)take(cdr, sizeof *out, sizeof *out, what);
  if (!at) return false;
  *out = 0;
  for (int i = 0; i < 4; i++) *out |= (uint32_t)at[i] << 8 * (cdr->big_endian ? 3 - i : i);
  return true;
}

static bool take_byte(struct cdr *cdr, const char *what, uint8_t *out) {
  const char *at = take(cdr, 1, 1, what);
  if (at) *out = (uint8_t)*at;
  return at;
}

// The length includes the NUL. Some writers give an empty string the length 0.
static bool take_string(struct cdr *cdr, const char *what, struct span *out) {
  uint32_t length;
  size_t begin = cdr->at;
  if (!take_number(cdr, what, &length)) return false;
  const char *at = take(cdr, 1, length, what);
  if (!at) return false;
  bool ends = !cdr->ros1 && length;
  if (ends && at[length - 1] != '\0')
    return error_refuse(cdr->error, ERROR_BAD_BODY, NULL, "%s at byte %zu is not a string that ends in a NUL", what,
                        begin);
  *out = (struct span){at, length - ends};
  return true;
}

// ---- members --------------------------------------------------------------------------------------------------------

static bool take_encapsulation(struct cdr *cdr) {
  static const char *const kinds[] = {"CDR",   "CDR of a mutable type",       "unknown",
                                      "XCDR2", "XCDR2 of an appendable type", "XCDR2 of a mutable type"};
  const unsigned char *at = (const unsigned char *)cdr->bytes;
  if (cdr->size < ENCAPSULATION)
    return error_refuse(cdr->error, ERROR_BAD_BODY, NULL,
                        "the body ends at byte %zu, within the encapsulation of the PointCloud2", cdr->size);
  cdr->at = ENCAPSULATION;  // its last two bytes are options, ignored here
  if (cdr->ros1) return true;
  size_t kind = at[0] || at[1] / 2u >= sizeof kinds / sizeof *kinds ? 2 : at[1] / 2u;
  cdr->big_endian = at[1] % 2 == 0;
  cdr->xcdr2 = kind == 3;
  if (kind == 0 || cdr->xcdr2) return true;
  return error_refuse(cdr->error, ERROR_BAD_BODY, NULL,
                      "a serialized PointCloud2 begins with the bytes 00 00 or 00 01 (CDR), or 00 06 or 00 07 (XCDR2), "
                      "not with %02x %02x (%s)",
                      at[0], at[1], kinds[kind]);
}

static bool take_field(struct cdr *cdr, struct cloud_file *file) {
  static const enum number_type types[] = {NUMBER_INT8,  NUMBER_UINT8,  NUMBER_INT16,   NUMBER_UINT16,
                                           NUMBER_INT32, NUMBER_UINT32, NUMBER_FLOAT32, NUMBER_FLOAT64};
  struct span name = {"", 0};
  uint32_t offset, count;
  uint8_t type;
  if (!take_string(cdr, "the name of a field", &name) || !take_number(cdr, "a field", &offset) ||
      !take_byte(cdr, "a field", &type) || !take_number(cdr, "a field", &count))
    return false;
  if (type == 0 || type > sizeof types / sizeof *types)
    return error_refuse(cdr->error, ERROR_BAD_BODY, NULL, "field %.*s has the datatype %d; allowed: 1 to 8",
                        SPAN_ARGS(name), type);
  struct cloud_field field = {.name = name.at,
                              .name_length = name.length,
                              .type = types[type - 1],
                              .count = count ? count : 1,  // the Point Cloud Library too reads 0 as 1
                              .offset = offset};
  return cloud_add(file, field, cdr->error);
}

static bool take_fields(struct cdr *cdr, struct cloud_file *file) {
  uint32_t fields;
  if (!take_number(cdr, "the number of fields", &fields)) return false;
  for (uint32_t i = 0; i < fields; i++)
    if (!take_field(cdr, file)) return false;
  return true;
}

// Some writers of XCDR2 leave out the size of the list: a number is the size only if the list that follows has this
// size.
static bool take_list(struct cdr *cdr, struct cloud_file *file) {
  struct error error;
  struct cdr listed = *cdr;
  uint32_t bytes;
  listed.error = &error;
  if (cdr->xcdr2 && take_number(&listed, "the fields", &bytes)) {
    size_t begin = listed.at;
    bool right = take_fields(&listed, file) && listed.at - begin == bytes;
    if (right) cdr->at = listed.at;
    if (right) return true;
    file->num_fields = 0;
  }
  return take_fields(cdr, file);
}

// The members before the points.
struct head {
  uint32_t stamp_s, stamp_ns, height, width, point_step, row_step, data_bytes;
  uint8_t big_endian;
};

static bool take_head(struct cdr *cdr, struct head *head, struct cloud_file *file) {
  struct span frame;
  if (!take_encapsulation(cdr) || !take_number(cdr, "the stamp", &head->stamp_s) ||
      !take_number(cdr, "the stamp", &head->stamp_ns) || !take_string(cdr, "frame_id", &frame) ||
      !take_number(cdr, "height", &head->height) || !take_number(cdr, "width", &head->width) || !take_list(cdr, file))
    return false;
  return take_byte(cdr, "is_bigendian", &head->big_endian) && take_number(cdr, "point_step", &head->point_step) &&
         take_number(cdr, "row_step", &head->row_step) && take_number(cdr, "the length of data", &head->data_bytes);
}

// ---- checks ---------------------------------------------------------------------------------------------------------

// Without points, some writers leave point_step 0.
static bool check_fields(const struct cloud_file *file, struct error *error) {
  for (int i = 0; file->points && i < file->num_fields; i++) {
    const struct cloud_field *field = &file->fields[i];
    uint64_t end = field->offset + (uint64_t)field->count * number_bytes(field->type);
    if (end > file->point_bytes)
      return error_refuse(error, ERROR_BAD_BODY, NULL, "field %.*s ends at byte %llu of a point, but point_step is %zu",
                          (int)(field->name_length < SPAN_SHOWN ? field->name_length : SPAN_SHOWN), field->name,
                          (unsigned long long)end, file->point_bytes);
  }
  return true;
}

// `data` has rows without padding. Then row_step is not checked: some writers do not set it.
static bool is_packed(const struct head *head) {
  uint64_t points = (uint64_t)head->height * head->width, bytes;
  return !__builtin_mul_overflow(points, head->point_step, &bytes) && bytes == head->data_bytes;
}

static bool check_head(const struct head *head, struct error *error) {
  if (head->big_endian)
    return error_refuse(error, ERROR_BAD_BODY, NULL,
                        "is_bigendian is true; allowed: false, since no sensor of ROS 2 writes big-endian points");
  if (head->point_step == 0 && head->width > 0 && head->height > 0)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "point_step is 0");
  if (is_packed(head)) return true;
  if ((uint64_t)head->width * head->point_step > head->row_step && head->height > 0)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "row_step is %u, less than width %u times point_step %u",
                        head->row_step, head->width, head->point_step);
  if ((uint64_t)head->height * head->row_step != head->data_bytes)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "data has %u bytes, not height %u times row_step %u",
                        head->data_bytes, head->height, head->row_step);
  return true;
}

static bool check_end(const struct cdr *cdr) {
  return cdr->size - cdr->at <= PADDING_MOST ||
         error_refuse(cdr->error, ERROR_BAD_BODY, NULL, "the PointCloud2 ends at byte %zu, but the body has %zu",
                      cdr->at, cdr->size);
}

static void take_stamp(const struct head *head, struct cloud_file *file) {
  file->stamp_s = (int32_t)head->stamp_s;
  file->stamp_ns = head->stamp_ns;
}

// Places the points within `data`.
static bool place_points(const struct head *head, struct cloud_file *file, struct error *error) {
  if (!check_head(head, error)) return false;
  take_stamp(head, file);
  file->points = (int64_t)head->height * head->width;
  file->point_bytes = head->point_step ? head->point_step : 1;
  file->size = head->data_bytes;
  if (!check_fields(file, error) || !cloud_fit(file, false, error)) return false;
  file->run = head->width;
  file->run_bytes = is_packed(head) ? (size_t)head->width * head->point_step : head->row_step;
  return true;
}

bool pointcloud2_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error) {
  struct cdr cdr = {.bytes = bytes, .size = size, .error = error};
  struct head head;
  uint8_t is_dense;
  if (!take_head(&cdr, &head, file) || !check_head(&head, error)) return false;
  file->data = take(&cdr, 1, head.data_bytes, "data");
  return file->data && take_byte(&cdr, "is_dense", &is_dense) && check_end(&cdr) && place_points(&head, file, error);
}

// ---- compressed -----------------------------------------------------------------------------------------------------

static const char gzip[] = {'\x1f', '\x8b'}, zstd[] = {'\x28', '\xb5', '\x2f', '\xfd'};  // how streams begin

// The members after the head of a CompressedPointCloud2.
struct compressed {
  struct span data, format;
};

static bool take_compressed(struct cdr *cdr, const struct head *head, struct compressed *out) {
  uint8_t is_dense;
  *out = (struct compressed){.data = {take(cdr, 1, head->data_bytes, "compressed_data"), head->data_bytes}};
  return out->data.at && take_byte(cdr, "is_dense", &is_dense) && take_string(cdr, "format", &out->format);
}

static bool unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error) {
  size_t length, bytes = file->packing.bytes;
  if (!decoder_whole(decoder, file->data, file->size, out, bytes, &length, file->stop, error)) return false;
  if (length != bytes)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "compressed_data has %zu bytes when decoded, not the %zu promised",
                        length, bytes);
  file->layout = CLOUD_BINARY;
  file->data = out;
  file->size = bytes;
  return true;
}

// compressed_data is one stream of zstd, zlib or gzip.
static bool open_stream(struct head *head, const struct compressed *compressed, struct cloud_file *file,
                        struct error *error) {
  const struct span *data = &compressed->data;
  bool is_gzip = data->length >= sizeof gzip && memcmp(data->at, gzip, sizeof gzip) == 0;
  enum coding coding = span_is(&compressed->format, "zstd") ? CODING_ZSTD : is_gzip ? CODING_GZIP : CODING_DEFLATE;
  if (__builtin_mul_overflow(head->row_step, head->height, &head->data_bytes))
    return error_refuse(error, ERROR_BAD_BODY, NULL, "row_step %u times height %u is more than a PointCloud2 can have",
                        head->row_step, head->height);
  if (!place_points(head, file, error)) return false;
  file->packing = (struct cloud_packing){.unpack = unpack, .coding = coding, .bytes = head->data_bytes};
  file->layout = CLOUD_PACKED;
  file->data = data->at;
  file->size = data->length;
  return true;
}

// A blob has its own fields. A message without points may have no blob.
static bool open_blob(const struct head *head, const struct span *data, struct cloud_file *file, struct error *error) {
  int64_t width, height;
  take_stamp(head, file);
  if (data->length == 0 && (head->width == 0 || head->height == 0)) return true;
  if (!cloudini_open(data->at, data->length, file, &width, &height, error)) return false;
  return (width == head->width && height == head->height) ||
         error_refuse(error, ERROR_BAD_BODY, NULL, "the blob has %lld times %lld points, the message %u times %u",
                      (long long)width, (long long)height, head->width, head->height);
}

bool compressedpointcloud2_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error) {
  struct cdr cdr = {.bytes = bytes, .size = size, .error = error};
  struct head head;
  struct compressed compressed;
  const struct span *format = &compressed.format;
  if (!take_head(&cdr, &head, file) || !take_compressed(&cdr, &head, &compressed) || !check_end(&cdr)) return false;
  // Some publishers of cloudini leave the format empty.
  if (format->length == 0 || span_is(format, "cloudini") || cloudini_looks(compressed.data.at, compressed.data.length))
    return open_blob(&head, &compressed.data, file, error);
  if (span_is(format, "zstd") || span_is(format, "zlib")) return open_stream(&head, &compressed, file, error);
  return error_refuse(error, ERROR_BAD_BODY, NULL,
                      "the CompressedPointCloud2 has the format '%.*s'; allowed: cloudini, zstd and zlib",
                      SPAN_ARGS(*format));
}

static bool begins(const struct cdr *cdr, const char *bytes, size_t count) {
  return cdr->size - cdr->at >= count && memcmp(cdr->bytes + cdr->at, bytes, count) == 0;
}

// ---- what a body looks like -----------------------------------------------------------------------------------------

const char *pointcloud2_hint(enum body_format sent_as, const char *bytes, size_t size) {
  struct error error;
  struct head head;
  struct cloud_file file;  // large, so it is not initialized
  for (int ros1 = 0; ros1 < 2; ros1++) {
    struct cdr cdr = {.bytes = bytes, .size = size, .ros1 = ros1, .error = &error};
    file.num_fields = 0;
    if (!take_head(&cdr, &head, &file) || file.num_fields == 0) continue;
    bool packed = begins(&cdr, gzip, sizeof gzip) || begins(&cdr, zstd, sizeof zstd) ||
                  cloudini_looks(bytes + cdr.at, size - cdr.at);
    bool whole = check_head(&head, &error);
    if (ros1 && whole) return hint_ros1;
    if (!ros1 && sent_as != FORMAT_POINTCLOUD2 && whole) return hint;
    if (!ros1 && sent_as != FORMAT_COMPRESSEDPOINTCLOUD2 && packed) return hint_compressed;
  }
  return NULL;
}

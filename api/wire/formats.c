// See formats.h.
#include "api/wire/formats.h"

#include <stdio.h>
#include <string.h>

// tensors.c reads these.
static bool looks_like_safetensors(const char *bytes, size_t size) {
  return size > 8 && bytes[8] == '{' && memcmp(bytes + 4, "\0\0\0\0", 4) == 0;
}
static const struct format format_safetensors = {
    .hint = "the body looks like a safetensors file: add format=safetensors", .looks = looks_like_safetensors};

static const struct format *const formats[FORMATS] = {
    [FORMAT_PCD] = &format_pcd,
    [FORMAT_PLY] = &format_ply,
    [FORMAT_POINTCLOUD2] = &format_pointcloud2,
    [FORMAT_SAFETENSORS] = &format_safetensors,
};

size_t number_bytes(enum number_type type) {
  static const size_t bytes[NUMBER_TYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return bytes[type];
}

// ---- hints ----------------------------------------------------------------------------------------------------------

// Hints for bodies in formats that the service does not read, but whose points can be sent in another way.
static const struct {
  const char *magic, *hint;
} others[] = {
    {"\x89MCAP0\r\n", "the body looks like an MCAP file, which is not read: send one of its PointCloud2 messages, with "
                      "format=pointcloud2"},
    {"\x1f\x8b\x08", "the body looks compressed by gzip: add the header Content-Encoding: gzip"},
    {"\x28\xb5\x2f\xfd", "the body looks compressed by zstd: add the header Content-Encoding: zstd"},
    {"\x93NUMPY", "the body looks like a numpy .npy file: send the array's bytes (points.astype('<f4').tobytes())"},
    {"LASF", "the body looks like a LAS or LAZ file, which is not read: send rows of float32, or a PLY file"},
};

const char *format_hint(enum body_format sent_as, const char *bytes, size_t size) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    size_t length = strlen(others[i].magic);
    if (size >= length && memcmp(bytes, others[i].magic, length) == 0) return others[i].hint;
  }
  for (enum body_format format = FORMAT_PCD; format < FORMATS; format++)
    if (format != sent_as && formats[format]->looks(bytes, size)) return formats[format]->hint;
  return format_ros1.looks(bytes, size) ? format_ros1.hint : NULL;
}

void format_suggest(enum body_format sent_as, const char *bytes, size_t size, struct error *error) {
  const char *hint = format_hint(sent_as, bytes, size);
  size_t length = strlen(error->text);
  if (hint) snprintf(error->text + length, sizeof error->text - length, "; %s", hint);
}

// ---- files ----------------------------------------------------------------------------------------------------------

bool format_open(enum body_format format, const char *bytes, size_t size, struct vx_stop *stop, struct cloud_file *file,
                 struct error *error) {
  *file = (struct cloud_file){.stop = stop, .layout = CLOUD_BINARY};
  if (formats[format]->open(bytes, size, file, error)) return true;
  format_suggest(format, bytes, size, error);
  return false;
}

bool cloud_add(struct cloud_file *file, struct cloud_field field, struct error *error) {
  if (file->num_fields == CLOUD_FIELDS_MAX)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "a point has more than %d fields", CLOUD_FIELDS_MAX);
  file->fields[file->num_fields++] = field;
  return true;
}

static bool refuse_size(const struct cloud_file *file, const char *much, struct error *error) {
  return error_refuse(error, ERROR_BAD_BODY, NULL,
                      "the header promises %lld points of %zu %s each; it is followed by %zu bytes, too %s for them",
                      (long long)file->points, file->point_bytes, file->layout == CLOUD_TEXT ? "values" : "bytes",
                      file->size, much);
}

bool cloud_check_tail(const struct cloud_file *file, const char *at, struct error *error) {
  size_t left = (size_t)(file->data + file->size - at);
  bool zeros = left && at[0] == '\0' && memcmp(at, at + 1, left - 1) == 0;
  return left < file->point_bytes || zeros || refuse_size(file, "many", error);
}

bool cloud_fit(struct cloud_file *file, bool whole, struct error *error) {
  bool text = file->layout == CLOUD_TEXT;
  while (text && file->size && !file->data[file->size - 1] && !vx_stopped(file->stop, 1)) file->size--;
  // A value of text has at least one byte, and one byte after it, which the last value may lack.
  size_t least = text ? 2 * file->point_bytes : file->point_bytes;
  size_t room = file->size + text;
  if (least == 0) return error_refuse(error, ERROR_BAD_BODY, NULL, "the points have no fields");
  if (text && file->point_bytes > CLOUD_VALUES_MAX)
    return error_refuse(error, ERROR_BAD_BODY, NULL, "a point has %zu values; allowed: up to %d", file->point_bytes,
                        CLOUD_VALUES_MAX);
  if ((uint64_t)file->points > room / least) return refuse_size(file, "few", error);
  for (int i = 0; i < file->num_fields; i++) file->fields[i].stride = file->point_bytes;
  file->run = file->points;
  file->run_bytes = (size_t)file->points * file->point_bytes;
  file->ends = whole;
  bool placed = file->layout == CLOUD_BINARY && whole && !file->lists;
  return !placed || cloud_check_tail(file, file->data + file->run_bytes, error);
}

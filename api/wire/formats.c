// See formats.h.
#include "api/wire/formats.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/wire/wire.h"

static bool (*const readers[FORMATS])(const char *bytes, size_t size, struct cloud_file *file, struct error *error) = {
    [FORMAT_PCD] = pcd_read,
    [FORMAT_PLY] = ply_read,
    [FORMAT_POINTCLOUD2] = pointcloud2_read,
    [FORMAT_COMPRESSEDPOINTCLOUD2] = compressedpointcloud2_read,
    [FORMAT_CLOUDINI] = cloudini_read,
};

size_t number_bytes(enum number_type type) {
  static const size_t bytes[NUMBER_TYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return bytes[type];
}

// ---- hints ----------------------------------------------------------------------------------------------------------

// How files begin. FORMAT_RAW: no format reads such a file. A hint is a guess: rows that begin like this are computed
// all the same. Rows of a sensor hardly ever do: read as float32, the |x| or the |y| of these magics is below 10^-8 m,
// or over 10^7 m, except LASF (x = 13520.32 m) and DRACO (x = 193.32 m, and one of 65536 values of y).
#define ROWS_INSTEAD ", which is not read: send rows of float32, or a PCD or PLY file"
#define DECODE_FIRST                                                                                                   \
  ", which is not read: decompress it, or compress it with gzip or zstd and name the coding in Content-Encoding"
#define MAGIC_OF(format, bytes) (format), (bytes), sizeof(bytes) - 1
#define MAGIC(bytes) MAGIC_OF(FORMAT_RAW, bytes)
static const char pcd_hint[] = "the body looks like a PCD file: add format=pcd",
                  ply_hint[] = "the body looks like a PLY file: add format=ply";
static const struct {
  enum body_format format;
  const char *magic;
  size_t length;
  const char *hint;
} magics[] = {
    {MAGIC_OF(FORMAT_PCD, "# .PCD"), pcd_hint},
    {MAGIC_OF(FORMAT_PCD, "VERSION ."), pcd_hint},
    {MAGIC_OF(FORMAT_PCD, "VERSION 0"), pcd_hint},
    {MAGIC_OF(FORMAT_PCD, "FIELDS "), pcd_hint},
    {MAGIC_OF(FORMAT_PLY, "ply\n"), ply_hint},
    {MAGIC_OF(FORMAT_PLY, "ply\r"), ply_hint},
    {MAGIC_OF(FORMAT_PLY, "ply "), ply_hint},
    {MAGIC_OF(FORMAT_CLOUDINI, "CLOUDINI_V"), "the body looks like a blob of cloudini: add format=cloudini"},
    {MAGIC("\x89MCAP0\r\n"),
     "the body looks like an MCAP file, which is not read: send one of its PointCloud2 messages, "
     "with format=pointcloud2"},
    {MAGIC("#ROSBAG V2.0"), "the body looks like a bag of ROS 1, which is not read: send the points of one of its "
                            "messages, as rows of float32"},
    {MAGIC("SQLite format 3\0"),
     "the body looks like an SQLite database, such as a .db3 bag of ROS 2, which is not read: "
     "send one of its PointCloud2 messages, with format=pointcloud2"},
    {MAGIC("\x1f\x8b\x08\0"), "the body looks compressed by gzip: add the header Content-Encoding: gzip"},
    {MAGIC("\x1f\x8b\x08\x08"), "the body looks compressed by gzip: add the header Content-Encoding: gzip"},
    {MAGIC("\x28\xb5\x2f\xfd"), "the body looks compressed by zstd: add the header Content-Encoding: zstd"},
    {MAGIC("\x04\x22\x4d\x18"), "the body looks compressed by lz4" DECODE_FIRST},
    {MAGIC("\xfd"
           "7zXZ\0"),
     "the body looks compressed by xz" DECODE_FIRST},
    {MAGIC("BZh91AY&SY"), "the body looks compressed by bzip2" DECODE_FIRST},
    {MAGIC("7z\xbc\xaf\x27\x1c"), "the body looks like a 7z archive" ROWS_INSTEAD},
    {MAGIC("\x93NUMPY"),
     "the body looks like a numpy .npy file: send the array's bytes (points.astype('<f4').tobytes())"},
    {MAGIC("PK\3\4"), "the body looks like a zip or numpy .npz file, which is not read: send the array's bytes "
                      "(points.astype('<f4').tobytes())"},
    {MAGIC("PK\5\6"), "the body looks like an empty zip or numpy .npz file" ROWS_INSTEAD},
    {MAGIC("LASF"), "the body looks like a LAS or LAZ file" ROWS_INSTEAD},
    {MAGIC("ASTM-E57"), "the body looks like an E57 file" ROWS_INSTEAD},
    {MAGIC("DRACO\2"), "the body looks like a Draco file" ROWS_INSTEAD},
    {MAGIC("\x89HDF\r\n\x1a\n"), "the body looks like an HDF5 file" ROWS_INSTEAD},
    {MAGIC("MATLAB "), "the body looks like a MATLAB .mat file" ROWS_INSTEAD},
    {MAGIC("PAR1"), "the body looks like a Parquet file" ROWS_INSTEAD},
    {MAGIC("ARROW1\0\0"), "the body looks like an Arrow or Feather file" ROWS_INSTEAD},
    {MAGIC("\xd4\xc3\xb2\xa1"), "the body looks like a pcap file" ROWS_INSTEAD},
    {MAGIC("\xa1\xb2\xc3\xd4"), "the body looks like a pcap file" ROWS_INSTEAD},
    {MAGIC("\x4d\x3c\xb2\xa1"), "the body looks like a pcap file" ROWS_INSTEAD},
    {MAGIC("\xa1\xb2\x3c\x4d"), "the body looks like a pcap file" ROWS_INSTEAD},
    {MAGIC("\n\r\r\n"), "the body looks like a pcapng file" ROWS_INSTEAD},
    {MAGIC("\x89PNG\r\n\x1a\n"), "the body looks like a PNG image, which has no points: send rows of float32"},
    {MAGIC("\xff\xd8\xff\xe0"), "the body looks like a JPEG image, which has no points: send rows of float32"},
    {MAGIC("\xff\xd8\xff\xe1"), "the body looks like a JPEG image, which has no points: send rows of float32"},
    {MAGIC("glTF\2\0\0\0"), "the body looks like a glTF file" ROWS_INSTEAD},
};

// ---- text -----------------------------------------------------------------------------------------------------------

// The mantissas of coordinates have any bytes, so TEXT_LEAST bytes of rows look like text in one case of 10^19. Fewer
// bytes must also look like numbers or JSON.
enum { TEXT_LEAST = 64, TEXT_MOST = 1024, NUMBERS_LEAST = 12 };

// Bytes of the first character, in ASCII or UTF-8; 0 if there is none.
static size_t character_bytes(const char *bytes, size_t size) {
  unsigned char first = (unsigned char)bytes[0];
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0x80) return (first >= ' ' && first <= '~') || (first >= '\t' && first <= '\r');
  if (first < 0xc2 || first > 0xf4 || length > size) return 0;
  for (size_t i = 1; i < length; i++)
    if (((unsigned char)bytes[i] & 0xc0) != 0x80) return 0;
  return length;
}

static bool is_text(const char *bytes, size_t size) {
  size_t at = 0, length = 1;
  for (; length && at < size && at < TEXT_MOST; at += length) length = character_bytes(bytes + at, size - at);
  return length;
}

// Digits, separators, exponents, nan, inf.
static bool is_of_numbers(const char *bytes, size_t size) {
  size_t i = 0;
  while (i < size && bytes[i] && strchr("0123456789+-.,;[] \t\r\nEeNnAaIiFf", bytes[i])) i++;
  return i == size;
}

static bool is_json(const char *bytes, size_t size) {
  size_t i = 0;
  while (i < size && bytes[i] && strchr(" \t\r\n", bytes[i])) i++;
  return i < size && (bytes[i] == '{' || bytes[i] == '[');
}

static const char *text_hint(const char *bytes, size_t size) {
  static const char mark[] = {'\xef', '\xbb', '\xbf'};  // UTF-8's byte order mark
  size_t skipped = size > sizeof mark && memcmp(bytes, mark, sizeof mark) == 0 ? sizeof mark : 0;
  bytes += skipped;
  size -= skipped;
  bool json = is_json(bytes, size);
  if (size < NUMBERS_LEAST || !is_text(bytes, size)) return NULL;
  if (size < TEXT_LEAST && !json && !is_of_numbers(bytes, size)) return NULL;
  if (json)
    return "the body looks like JSON, which is not read here: send rows of float32, or POST the JSON of KServe v2 to "
           "/v2/models/NAME/infer";
  return "the body looks like text, such as .xyz or .csv, which is not read: send rows of float32 "
         "(numpy.loadtxt(path).astype('<f4').tobytes()), or a PCD or PLY file";
}

// NAME.EXTENSION: what `curl -d scan.bin` sends.
static bool is_file_name(const char *bytes, size_t size) {
  enum { NAME_MOST = 255, EXTENSION_MOST = 11 };
  size_t at = 0, begin = size;
  while (begin > 0 && isalnum((unsigned char)bytes[begin - 1])) begin--;
  if (size > NAME_MOST || begin < 2 || bytes[begin - 1] != '.') return false;
  if (begin == size || size - begin > EXTENSION_MOST || !isalpha((unsigned char)bytes[begin])) return false;
  while (at < size && bytes[at] > ' ' && bytes[at] <= '~') at++;
  return at == size;
}

// A safetensors file begins with the length of its header, 8 bytes: read as float32, an x that no point has and a y of
// 0.
static bool is_safetensors(const char *bytes, size_t size) {
  return size > 8 && bytes[8] == '{' && memcmp(bytes + 4, "\0\0\0\0", 4) == 0 && memcmp(bytes, "\0\0\0\0", 4) != 0;
}

// Keywords of PCD may be in lower case.
static bool begins(const char *bytes, size_t size, size_t row) {
  size_t length = magics[row].length;
  if (magics[row].format == FORMAT_PCD) return size >= length && strncasecmp(bytes, magics[row].magic, length) == 0;
  bool longer = magics[row].format != FORMAT_CLOUDINI || size > length;
  return size >= length && longer && memcmp(bytes, magics[row].magic, length) == 0;
}

const char *format_hint(enum body_format sent_as, const char *bytes, size_t size) {
  for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
    if ((magics[i].format == FORMAT_RAW || magics[i].format != sent_as) && begins(bytes, size, i))
      return magics[i].hint;
  if (sent_as != FORMAT_SAFETENSORS && is_safetensors(bytes, size))
    return "the body looks like a safetensors file: add format=safetensors";
  const char *hint = pointcloud2_hint(sent_as, bytes, size);
  if (hint) return hint;
  if (is_file_name(bytes, size))
    return "the body looks like the name of a file: curl sends the file if @ stands before its name, as in "
           "--data-binary @scan.bin";
  return sent_as == FORMAT_RAW ? text_hint(bytes, size) : NULL;
}

void format_suggest(enum body_format sent_as, const char *bytes, size_t size, struct error *error) {
  const char *hint = format_hint(sent_as, bytes, size);
  if (hint) error_suffix(error, "; %s", hint);
}

// ---- files ----------------------------------------------------------------------------------------------------------

bool format_open(enum body_format format, const char *bytes, size_t size, struct vx_stop *stop, struct cloud_file *file,
                 struct error *error) {
  *file = (struct cloud_file){.stop = stop, .layout = CLOUD_BINARY};
  if (size == 0) return error_refuse(error, ERROR_BAD_BODY, NULL, "the body is empty");
  if (readers[format](bytes, size, file, error)) return true;
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
                      "the header promises %lld points of %zu %s each; the %zu bytes after the header are too %s",
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
  // In text, a value has at least one byte and, except for the last value, a separator.
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

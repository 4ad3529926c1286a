// Formats of points in bodies, other than raw rows: PCD, PLY, PointCloud2 and CompressedPointCloud2 of ROS 2, cloudini.
// A source file for each format reads the header; gather.h makes rows.
//
// Everything here points into the body, which belongs to the caller. Any thread; nothing here allocates.
#ifndef VOXELD_FORMATS_H
#define VOXELD_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/ops/ops.h"
#include "api/wire/decode.h"

enum number_type {
  NUMBER_INT8,
  NUMBER_UINT8,
  NUMBER_INT16,
  NUMBER_UINT16,
  NUMBER_INT32,
  NUMBER_UINT32,
  NUMBER_INT64,
  NUMBER_UINT64,
  NUMBER_FLOAT32,
  NUMBER_FLOAT64,
  NUMBER_TYPES
};
size_t number_bytes(enum number_type type);

enum { CLOUD_FIELDS_MAX = 256, CLOUD_VALUES_MAX = 1024 };  // of a point; of a line of text

struct cloud_field {
  const char *name;  // not NUL-terminated
  size_t name_length;
  enum number_type type;
  int64_t count;                 // values of a point; a column needs 1
  size_t offset;                 // of the first point's value; text: index in the line
  size_t stride;                 // from one point to the next
  bool is_list;                  // a number of values, then the values; count is 0
  enum number_type length_type;  // of the number of values
  float resolution;              // of cloudini: the unit of the values; 0 = not rounded
};

enum cloud_layout {
  CLOUD_BINARY,
  CLOUD_TEXT,    // a line for each point
  CLOUD_PACKED,  // compressed; cloud_unpack changes the layout
  CLOUD_COLUMNS  // all values of a field, then all values of the next field
};

struct cloud_file;

struct cloud_packing {
  // See cloud_unpack.
  bool (*unpack)(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error);
  enum coding coding;                 // of `unpack`'s decoder
  size_t bytes;                       // of the unpacked points
  size_t spare_bytes;                 // of memory that `unpack` needs after them
  int version, encoding, compressor;  // of a blob of cloudini
};

struct cloud_file {
  struct vx_stop *stop;  // if stopped, the reader may fail with any error or none
  enum cloud_layout layout;
  bool big_endian;
  bool ends;   // after the points, bytes that could be another point are an error
  bool lists;  // a field is a list: point_bytes is the least, and offsets differ from point to point
  int64_t points;
  int64_t run;         // contiguous points
  size_t run_bytes;    // from one run to the next
  size_t point_bytes;  // from one point to the next; text: values in a line
  struct cloud_packing packing;
  const char *data;  // begins with the first point
  size_t size;
  int64_t line;     // text: number of the first point's line
  int64_t stamp_s;  // of a PointCloud2, else 0
  uint32_t stamp_ns;
  int num_fields;
  struct cloud_field fields[CLOUD_FIELDS_MAX];
};

VX_WARN_UNUSED bool format_open(enum body_format format, const char *bytes, size_t size, struct vx_stop *stop,
                                struct cloud_file *file, struct error *error);

// A hint for a body that begins like another format than `sent_as`, else NULL. `bytes`: all or the beginning of the
// body.
const char *format_hint(enum body_format sent_as, const char *bytes, size_t size);
// Appends the hint, if any, to the error.
void format_suggest(enum body_format sent_as, const char *bytes, size_t size, struct error *error);

// False with an error if there are too many fields.
VX_WARN_UNUSED bool cloud_add(struct cloud_file *file, struct cloud_field field, struct error *error);
// Checks that `size` bytes have room for the points. Sets the strides. If `whole`, no bytes that could be another point
// may follow, except zeros, with which the Point Cloud Library fills the last page.
VX_WARN_UNUSED bool cloud_fit(struct cloud_file *file, bool whole, struct error *error);
// Checks the bytes from `at` on, after the points.
VX_WARN_UNUSED bool cloud_check_tail(const struct cloud_file *file, const char *at, struct error *error);

#endif

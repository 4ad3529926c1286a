// Formats of a body's points other than raw rows: PCD, PLY, and ROS 2's PointCloud2. One row for each; a format's file
// reads its header, and gather.h makes rows of any of them.
//
// Everything here points into the body, which is the caller's. Any thread; nothing here allocates.
#ifndef VOXELD_FORMATS_H
#define VOXELD_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/ops/ops.h"

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

enum { CLOUD_FIELDS_MAX = 256, CLOUD_VALUES_MAX = 1024 };  // fields of a point; values in a line of text

struct cloud_field {
  const char *name;  // not NUL-terminated
  size_t name_length;
  enum number_type type;
  int64_t count;  // values of one point; only a field of one value can be a column
  size_t offset;  // of the first point's value; in text, its place in the line
  size_t stride;  // from one point's value to the next point's
};

// How the points are laid out.
enum cloud_layout {
  CLOUD_BINARY,
  CLOUD_TEXT,    // a line for each point
  CLOUD_PACKED,  // compressed; cloud_unpack makes it CLOUD_COLUMNS
  CLOUD_COLUMNS  // all values of a field, then all of the next
};

struct cloud_file {
  struct vx_stop *stop;  // what reads the file asks it, and then may fail with any problem or none
  enum cloud_layout layout;
  bool big_endian;
  bool ends;  // text: nothing may follow the points
  int64_t points;
  int64_t run;         // points that lie side by side; then the next run begins
  size_t run_bytes;    // from one run to the next
  size_t point_bytes;  // from one point to the next; text: values in a line
  size_t unpacked_bytes;
  const char *data;  // from the first point on
  size_t size;
  int64_t line;  // text: the number of the first point's line
  int num_fields;
  struct cloud_field fields[CLOUD_FIELDS_MAX];
};

// A format's row.
struct format {
  const char *hint;                               // what to say of a body that looks like this but is sent as another
  bool (*looks)(const char *bytes, size_t size);  // whether the body begins like this
  // Reads the header and checks that the body has all points. False with an error.
  bool (*open)(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
};
extern const struct format format_pcd, format_ply, format_pointcloud2;

VX_WARN_UNUSED bool format_open(enum body_format format, const char *bytes, size_t size, struct vx_stop *stop,
                                struct cloud_file *file, struct error *error);

// What to say of a body that begins like another format than that which it was sent as; NULL if it does not. A part of
// the body is enough, from its beginning.
const char *format_hint(enum body_format sent_as, const char *bytes, size_t size);
// Appends that hint, if there is one, to the problem.
void format_suggest(enum body_format sent_as, const char *bytes, size_t size, struct error *error);

// Adds a field. False with an error if there are too many.
VX_WARN_UNUSED bool cloud_add(struct cloud_file *file, struct cloud_field field, struct error *error);
// Checks that `size` bytes have room for the points, and sets the strides of the fields. `whole`: nothing may follow
// them that could be another point. False with an error.
VX_WARN_UNUSED bool cloud_fit(struct cloud_file *file, bool whole, struct error *error);

#endif

// Makes rows of float32 from the points of a file. A number that float32 does not have is rounded to the nearest
// float32, or to infinity beyond its range. Any thread; nothing here allocates.
#ifndef VOXELD_GATHER_H
#define VOXELD_GATHER_H

#include "api/wire/formats.h"
#include "api/wire/loss.h"
#include "api/wire/times.h"

struct cloud_columns {
  int count;
  int intensity;  // the column named intensity; -1 = none
  const struct cloud_field *fields[VX_MAX_FEATURES];
  const struct cloud_field *time;  // the request's time_field; NULL = none
  struct times times;              // cloud_gather fills `values`, if the caller gives memory
};

// Chooses the request's `fields` or, without `fields`, num_features columns: x, y, z, then other fields of one value in
// the file's order, without time_field.
VX_WARN_UNUSED bool cloud_choose(const struct cloud_file *file, const struct job_request *request,
                                 struct cloud_columns *columns, struct error *error);

// Unpacks a CLOUD_PACKED file into `out`, which has packing.bytes + packing.spare_bytes. `decoder`: new, for
// packing.coding; NULL for CODING_NONE.
VX_WARN_UNUSED bool cloud_unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error);

// The points, if they are already rows of these columns, else NULL.
const char *cloud_rows(const struct cloud_file *file, const struct cloud_columns *columns);
// Whether cloud_gather may write the rows over the body, from its beginning.
bool cloud_shrinks(const struct cloud_file *file, const struct cloud_columns *columns);
// Writes the rows [N,C] float32, the times, and how far rounding moved values.
VX_WARN_UNUSED bool cloud_gather(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                                 struct cloud_loss *loss, struct error *error);

// The column of `fields` named intensity; -1 = none.
int cloud_intensity(const struct job_request *request);
// Multiplies the column of all rows by intensity_scale.
void cloud_scale(const struct job_request *request, int column, struct vx_stop *stop, char *rows);

#endif

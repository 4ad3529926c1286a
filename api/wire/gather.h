// Makes rows of float32 from the points in a file: takes the fields that become columns, and widens or rounds them.
//
// A number that float32 does not have is rounded to the nearest float32, or to infinity beyond the range. Any thread;
// nothing here allocates.
#ifndef VOXELD_GATHER_H
#define VOXELD_GATHER_H

#include "api/wire/formats.h"
#include "api/wire/loss.h"
#include "api/wire/times.h"

struct cloud_columns {
  int count;
  int intensity;  // the column named intensity; -1 if there is none
  const struct cloud_field *fields[VX_MAX_FEATURES];
  const struct cloud_field *time;  // the request's time_field; NULL: none
  struct times times;              // cloud_gather writes them, if the caller gives memory for them
};

// Chooses the columns: the fields that `fields` names or, without `fields`, num_features columns: x, y, z, then the
// file's other fields of one value in their order, but not its time_field. False with an error.
VX_WARN_UNUSED bool cloud_choose(const struct cloud_file *file, const struct job_request *request,
                                 struct cloud_columns *columns, struct error *error);

// Unpacks a CLOUD_PACKED file into `out`, which has room for the bytes and the spare bytes of its packing. `decoder` is
// new, and of the packing's coding; it is NULL if this coding is CODING_NONE. False with an error.
VX_WARN_UNUSED bool cloud_unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error);

// The points, if they already are rows of these columns; otherwise NULL.
const char *cloud_rows(const struct cloud_file *file, const struct cloud_columns *columns);
// Whether cloud_gather may write the rows over the beginning of the body.
bool cloud_shrinks(const struct cloud_file *file, const struct cloud_columns *columns);
// Writes the rows, the times, and to `loss` how far rounding moved values. False with an error.
VX_WARN_UNUSED bool cloud_gather(const struct cloud_file *file, const struct cloud_columns *columns, char *rows,
                                 struct cloud_loss *loss, struct error *error);

// The column that `fields` names intensity; -1 if there is none.
int cloud_intensity(const struct job_request *request);
// Multiplies this column of all rows by the request's intensity_scale.
void cloud_scale(const struct job_request *request, int column, struct vx_stop *stop, char *rows);

#endif

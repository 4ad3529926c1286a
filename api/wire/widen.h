// Makes rows of float32 from the rows of a body or of an input: undoes the filters, and multiplies by the scales.
//
// A value becomes (float)((double)value * scale): one rounding. A float column without a scale keeps its bits. Any
// thread; nothing here allocates.
#ifndef VOXELD_WIDEN_H
#define VOXELD_WIDEN_H

#include "api/ops/ops.h"

struct cloud_loss;

// Writes the rows as float32 to `out`, which must not overlap `rows`. The request was split (job_request_split). Notes
// in `loss`, unless it is NULL, how far rounding moved coordinates; moves below 2 mm may be left out.
void rows_widen(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                struct cloud_loss *loss);
// The same, with only the vector instructions that every processor of the architecture has.
void rows_widen_any(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                    struct cloud_loss *loss);

// Reads one column of these rows. `out` has an entry for each row.
void rows_read_column(const struct job_request *request, const char *rows, int column, struct vx_stop *stop,
                      double *out);

#endif

// Makes rows of float32 from the rows of a body or an input: undoes the filters, multiplies by the scales. A value
// becomes (float)((double)value * scale); a float32 column without a scale keeps its bits. Any thread; nothing here
// allocates.
#ifndef VOXELD_WIDEN_H
#define VOXELD_WIDEN_H

#include "api/ops/ops.h"

struct cloud_loss;

// Writes rows [N,C] float32 to `out`, which must not overlap `rows`. Call job_request_split first. `loss`, if not NULL,
// notes how far rounding moved coordinates; moves below 2 mm may be missing.
void rows_widen(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                struct cloud_loss *loss);
// The same, but only with vector instructions that all processors of the architecture have.
void rows_widen_any(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                    struct cloud_loss *loss);

// Reads a column as [N] float64.
void rows_read_column(const struct job_request *request, const char *rows, int column, struct vx_stop *stop,
                      double *out);

#endif

// The parameters that all operations with a model have. A row that sets a member of struct vx_detect overrides the
// model's value.
// The rows are constant. Any thread.
#ifndef VOXELD_API_MODEL_PARAMS_H
#define VOXELD_API_MODEL_PARAMS_H

#include "api/ops/rows.h"

extern const struct param param_model, param_model_voxels_by, param_model_points_by, param_model_seed,
    param_model_precision;

// Call this before the query is read. Chooses the detector and takes its model's values. Each parameter that such a
// value sets counts as given; the query may change it.
void model_params_choose(struct job_request *request, const struct vx_detector *detector);

// `finish` and `split` of struct operation.
VX_WARN_UNUSED bool model_params_finish(struct job_request *request, struct error *error);
VX_WARN_UNUSED bool model_params_split(struct job_request *request, struct error *error);

// Writes the model's version and, if it has a backbone, the number of rows of each level and max_rows.
void model_params_write(const struct vx_job *job, struct text *out);

#endif

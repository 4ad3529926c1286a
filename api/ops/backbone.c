// The parameters of POST /v1/backbone; kernels/detect.h says what it computes. The model gives all other parameters.
#include "api/ops/deskew.h"
#include "api/ops/model_params.h"
#include "api/ops/stream.h"

static const struct param outputs =
    PARAM_OUTPUTS(VX_BACKBONE_TENSORS | VX_CHAIN_TENSORS, "sparse_coords and sparse_features");

static const struct param *const rows[] = {
    &param_model,      PARAMS_OF_POINTS,       &param_steps, &param_model_voxels_by, &param_model_points_by,
    &param_model_seed, &param_model_precision, &outputs,     PARAMS_OF_ANSWER,       NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_SPARSE_COORDS, "batch, z, y, x of each occupied cell of the backbone's last level, in ascending order", NULL},
    {VX_SPARSE_FEATURES, "the backbone's features of each of these cells", NULL},
    {VX_BEV_FEATURES, "the same features as a map: feature c at channel c*nz + z, row y, column x; zeros elsewhere",
     WHEN_NAMED},
    CHAIN_RESULTS,
    {.doc = NULL},
};

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_SPARSE_TENSORS;
}

const struct operation operation_backbone = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = model_params_finish,
    .split = model_params_split,
    .write = model_params_write,
};

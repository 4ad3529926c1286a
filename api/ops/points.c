// The parameters of POST /v1/points, which only runs the steps; kernels/steps.h says what they compute.
#include "api/ops/deskew.h"
#include "api/ops/stream.h"

static const struct param outputs = PARAM_OUTPUTS(VX_CHAIN_TENSORS, "points and point_indices");

static const struct param *const rows[] = {&param_preset, PARAMS_OF_POINTS, &param_steps,
                                           &outputs,      PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

const struct result_row points_results[] = {
    {VX_LEFT_POINTS, "the points that the steps left, of all clouds, in the order of the body, widened to float32",
     NULL},
    {VX_POINT_INDICES, "the row of each of these points in the body, counted over all clouds", NULL},
    {VX_POINT_ROWS, POINT_ROWS_DOC, WHEN_NAMED},
    {VX_POINT_FATES, POINT_FATES_DOC, WHEN_NAMED},
    {VX_POINT_STEPS, POINT_STEPS_DOC, WHEN_NAMED},
    {.doc = NULL},
};

vx_tensor_set points_tensors(const struct job_request *request) {
  (void)request;
  return VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES);
}

const struct operation operation_points = {
    .rows = rows,
    .results = points_results,
    .tensors = points_tensors,
    .finish = stream_finish,
};

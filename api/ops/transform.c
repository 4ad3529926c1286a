// The parameters of POST /v1/transform: POST /v1/points with one step, whose parameters (api/steps/transform.c) have no
// tag here.
#include "api/ops/deskew.h"
#include "api/ops/stream.h"

static const struct param outputs = PARAM_OUTPUTS(VX_CHAIN_TENSORS, "points and point_indices");

static const struct param *const rows[] = {&param_preset, PARAMS_OF_POINTS, &outputs, PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

const struct operation operation_transform = {
    .rows = rows,
    .results = points_results,
    .step = &step_transform,
    .tensors = points_tensors,
    .finish = stream_finish,
};

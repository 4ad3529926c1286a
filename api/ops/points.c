// The parameters of POST /v1/points: its steps, and nothing more; kernels/steps.h says what it computes.
#include "api/ops/stream.h"

static const struct param outputs = PARAM_OUTPUTS(VX_CHAIN_TENSORS, "points and point_indices");

static const struct param *const rows[] = {
    &param_preset,          &param_num_features,  &param_dtype,      &param_format, &param_fields,
    &param_intensity_scale, &param_point_counts,  PARAMS_OF_STREAMS, &param_steps,  &outputs,
    &param_points_region,   &param_output_region, &param_timeout_ms, NULL};
PARAM_ROWS_FIT(rows);

vx_tensor_set points_tensors(const struct job_request *request) {
  (void)request;
  return VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES);
}

const struct operation operation_points = {
    .rows = rows,
    .tensors = points_tensors,
    .finish = stream_finish,
};

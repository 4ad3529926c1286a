// The parameters of POST /v1/fps; kernels/fps.h says what they mean.
#include "api/ops/deskew.h"
#include "api/ops/sampling.h"
#include "api/ops/stream.h"
#include "kernels/samples.h"

static const struct param num_samples = {
    .name = "num_samples",
    .type = &value_samples,
    .offset = FIELD(sample_counts),
    .allowed = "whole numbers from 0 to 2147483647: one for all clouds, or one for each",
    .doc = "number of points to choose from each cloud (M)",
};
static const struct param start = PARAM_START(job.params.fps.sampling.start);
static const struct param outputs =
    PARAM_OUTPUTS(VX_SAMPLED_TENSORS | VX_CHAIN_TENSORS, "sampled_indices and sampled_points");

static const struct param *const rows[] = {&num_samples, &param_preset, PARAMS_OF_POINTS, &param_steps,
                                           &start,       &outputs,      PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_SAMPLED_INDICES, "number of the point in its own cloud, in the order chosen", NULL},
    {VX_SAMPLED_POINTS, "the point's row, widened to float32", NULL},
    {VX_SAMPLED_DISTANCES, "distance to the nearest point chosen before; infinite for the first of a cloud",
     WHEN_NAMED},
    CHAIN_RESULTS,
    {.doc = NULL},
};

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return SAMPLED_BY_DEFAULT;
}

static bool finish(struct job_request *request, struct error *error) {
  if (!stream_finish(request, error)) return false;
  if (request->num_sample_counts == 0)
    return error_refuse(error, ERROR_BAD_PARAMETER, "num_samples", "num_samples is missing");
  sampling_finish(request, &request->job.params.fps.sampling);
  return true;
}

// If only the check with `start` fails, `start` is at fault.
static bool split(struct job_request *request, struct error *error) {
  if (!sampling_split(request, &request->job.params.fps.sampling, error)) return false;
  struct vx_job job = job_request_job(request, NULL), from_first = job;
  from_first.params.fps.sampling.start = 0;
  if (vx_check_samples(&from_first, request->point_counts, error) != VX_OK) return error_blame(error, "num_samples");
  if (vx_check_samples(&job, request->point_counts, error) != VX_OK) return error_blame(error, "start");
  return true;
}

const struct operation operation_fps = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .split = split,
    .samples = "num_samples",
};

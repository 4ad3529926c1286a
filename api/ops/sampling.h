// Shared by the operations that sample. Any thread.
#ifndef VOXELD_API_SAMPLING_H
#define VOXELD_API_SAMPLING_H

#include "api/ops/rows.h"

// One number for all clouds, or one for each; also "off", if "off" is the default.
extern const struct value_type value_samples;

#define PARAM_START(member)                                                                                            \
  {                                                                                                                    \
    .name = "start", .type = &value_int, .offset = FIELD(member), .least = 0, .most = VX_MAX_POINTS, .initial = "0",   \
    .doc = "the first sample of each cloud: this point (in /v1/voxelize: this voxel), or the next finite one",         \
  }

// The tensors of samples to return if `outputs` is not given.
#define SAMPLED_BY_DEFAULT (VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS))

// Fills `enabled` and `stacked` from num_sample_counts.
void sampling_finish(struct job_request *request, struct vx_sampling *sampling);
// Fills the number of samples of each cloud. False with an error.
VX_WARN_UNUSED bool sampling_split(struct job_request *request, struct vx_sampling *sampling, struct error *error);

#endif

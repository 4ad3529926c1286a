// What operations that sample have in common: their parameters, and the samples of each cloud.
#ifndef VOXELD_API_SAMPLING_H
#define VOXELD_API_SAMPLING_H

#include "api/ops/rows.h"

// "off" if it is the default, or one number, or one a cloud.
extern const struct value_type value_samples;

#define PARAM_START(member)                                                                                            \
  {                                                                                                                    \
    .name = "start", .type = &value_int, .offset = FIELD(member), .least = 0, .most = VX_MAX_POINTS, .initial = "0",   \
    .doc = "the first sample of each cloud is the first finite point (with fps, voxel) from this number on",           \
  }

// The tensors that are returned of samples without `outputs`.
#define SAMPLED_BY_DEFAULT (VX_TENSOR_BIT(VX_SAMPLED_INDICES) | VX_TENSOR_BIT(VX_SAMPLED_POINTS))

// Fills the job's sampling from whether and how samples are asked for.
void sampling_finish(struct job_request *request, struct vx_sampling *sampling);
// How many samples each cloud has. False with a problem.
VX_WARN_UNUSED bool sampling_split(struct job_request *request, struct vx_sampling *sampling, struct problem *problem);

#endif

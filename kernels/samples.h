// What a job's sampling may ask of its clouds: checks that every backend makes, before and in the run.
#ifndef VOXELD_SAMPLES_H
#define VOXELD_SAMPLES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks that each sampled cloud has at least as many points (or voxels) as samples and one of number `start`, and that
// all work is within max_work. Otherwise VX_REFUSED with a reason. `from`: [num_clouds], points (or voxels) of each.
VX_WARN_UNUSED enum vx_status vx_check_samples(const struct vx_job *job, const int32_t *from, struct error *error);
// Checks one cloud, once the number of its candidates is known: at least as many as samples.
VX_WARN_UNUSED enum vx_status vx_check_candidates(const struct vx_job *job, int32_t cloud, int64_t candidates,
                                                  struct error *error);
// Checks as vx_check_samples does and fills counts.sampled.
VX_WARN_UNUSED enum vx_status vx_begin_samples(struct vx_job *job, const int32_t *from, struct error *error);

#ifdef __cplusplus
}
#endif
#endif

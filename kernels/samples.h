// Checks of a job's sampling against its clouds. Every backend makes them before and during the run.
#ifndef VOXELD_SAMPLES_H
#define VOXELD_SAMPLES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Checks that each sampled cloud has at least as many points (or voxels) as samples and a point (or voxel) with the
// number `start`, and that the total work is within max_work. Otherwise VX_REFUSED with a reason. `from`: [num_clouds],
// points (or voxels) per cloud.
VX_WARN_UNUSED enum vx_status vx_check_samples(const struct vx_job *job, const int32_t *from, struct error *error);
// Checks one cloud, once its candidates are counted: there must be at least as many candidates as samples and, if
// vx_starts_at_rank, one with the number `start`.
VX_WARN_UNUSED enum vx_status vx_check_candidates(const struct vx_job *job, int32_t cloud, int64_t candidates,
                                                  struct error *error);
// The same check as vx_check_samples; also fills counts.sampled.
VX_WARN_UNUSED enum vx_status vx_begin_samples(struct vx_job *job, const int32_t *from, struct error *error);

// Whether `start` of the job's sampling counts only candidates.
bool vx_starts_at_rank(const struct vx_job *job);

#ifdef __cplusplus
}
#endif
#endif

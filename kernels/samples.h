// Checks of a job's sampling against its clouds. Any thread.
#ifndef VOXELD_SAMPLES_H
#define VOXELD_SAMPLES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// VX_REFUSED if a sampled cloud has fewer points (or voxels) than samples, or none with the number `start`; or if the
// work of all clouds exceeds max_work. `from`: [num_clouds], points (or voxels) of each cloud.
VX_WARN_UNUSED enum vx_status vx_check_samples(const struct vx_job *job, const int32_t *from, struct error *error);
// VX_REFUSED if the cloud has fewer candidates than samples or, if vx_starts_at_rank, no candidate with the number
// `start`.
VX_WARN_UNUSED enum vx_status vx_check_candidates(const struct vx_job *job, int32_t cloud, int64_t candidates,
                                                  struct error *error);
// Calls vx_check_samples, then fills counts.sampled.
VX_WARN_UNUSED enum vx_status vx_begin_samples(struct vx_job *job, const int32_t *from, struct error *error);

// Whether `start` counts candidates, because a chain may have dropped points.
bool vx_starts_at_rank(const struct vx_job *job);

#ifdef __cplusplus
}
#endif
#endif

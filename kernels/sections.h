// The sections of a job's cloud: what all backends have in common. See struct vx_sections.
#ifndef VOXELD_SECTIONS_H
#define VOXELD_SECTIONS_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// Begins a run: clears the counts of a job with sections and counts the points that each has received. False if the
// sections do not fit the job's clouds.
VX_WARN_UNUSED bool vx_begin_sections(struct vx_job *job);

#ifdef __cplusplus
}
#endif
#endif

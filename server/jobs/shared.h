// Takes a job's points from a region of shared memory, and puts its answer into one.
//
// Runs on the worker's thread, which owns the job meanwhile.
#ifndef VOXELD_SHARED_H
#define VOXELD_SHARED_H

#include "server/jobs/job.h"

// Checks that the regions that the job names are its client's. Takes memory for the points that are in one, which
// become its input: from then on nobody changes them. False with job->problem set.
VX_WARN_UNUSED bool shared_open(struct job *job);

// Whether the region for the answer, if there is one, has room for so many bytes. False with job->problem set.
VX_WARN_UNUSED bool shared_fits(struct job *job, size_t bytes);

static inline bool shared_has_answer(const struct job *job) { return job->asked.output_region.name[0]; }
// Puts the answer into its region; what is sent is of the kind `answer_of_region` then. False with job->problem set.
VX_WARN_UNUSED bool shared_put(struct job *job);

#endif

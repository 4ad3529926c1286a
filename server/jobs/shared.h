// What a job has to do with regions of shared memory (regions.h): its points come from one, and its answer goes there.
//
// Runs on the worker's thread, which owns the job meanwhile. Refusals are in job->problem, if no other is given.
#ifndef VOXELD_SHARED_H
#define VOXELD_SHARED_H

#include "server/jobs/job.h"

// Copies a part of a region of the job's client to `out`; NULL: only checks that there is such a part. False with a
// problem.
VX_WARN_UNUSED bool shared_read(void *job, const struct region_ref *ref, char *out, struct problem *problem);

// Checks that the client has the regions that the answer goes to.
VX_WARN_UNUSED bool shared_check_answer(struct job *job);
// Once the answer's layout is known: whether these have room for it, as far as its size is known by then.
VX_WARN_UNUSED bool shared_fits(struct job *job);

// Puts each of the tensors of an inference request that asks for that into its region.
VX_WARN_UNUSED bool shared_put_tensors(struct job *job);

static inline bool shared_has_answer(const struct job *job) { return job->asked.output_region.name[0]; }
// Puts the whole answer into output_region. What is sent is of the kind `answer_of_region` then.
VX_WARN_UNUSED bool shared_put(struct job *job);

#endif

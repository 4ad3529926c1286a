// What a job has to do with regions of shared memory (regions.h): its points come from one, and its answer goes there.
//
// If the job runs on a GPU, that reads and writes the regions itself, if it can. Else the bytes are copied.
//
// Runs on the worker's thread, which owns the job meanwhile. Refusals are in job->problem, if no other is given.
#ifndef VOXELD_SHARED_H
#define VOXELD_SHARED_H

#include "server/jobs/job.h"

// The job's body is opened: nothing is in reach.
void shared_begin(struct job *job);
// Copies a part of a region of the job's client to `out`; NULL: only checks that there is such a part. False with a
// problem.
VX_WARN_UNUSED bool shared_read(void *job, const struct region_ref *ref, char *out, struct problem *problem);

// Brings points that are in a region into the GPU's reach, as job->points_reach. False if they must be copied.
VX_WARN_UNUSED bool shared_reach_points(struct job *job, const struct region_ref *ref, const struct device *gpu);
// Likewise output_region, once the answer's layout is known, for the GPU that runs the job: as job->output_reach[0].
// Returns how many parts are reached.
VX_WARN_UNUSED int shared_reach_answer(struct job *job);
// Likewise the regions of an inference request's tensors, all of them or none: fills job->places.
VX_WARN_UNUSED int shared_reach_tensors(struct job *job);
// Copies the points in reach to `out`. False with a problem.
VX_WARN_UNUSED bool shared_copy_points(struct job *job, char *out);
// After a run on a GPU: whether all that it reached was the regions' still. Ends the writing.
VX_WARN_UNUSED bool shared_held(struct job *job);
// Ends all reaching.
void shared_leave(struct job *job);

// Checks that the client has the regions that the answer goes to.
VX_WARN_UNUSED bool shared_check_answer(struct job *job);
// Once the answer's layout is known: whether these have room for it, as far as its size is known by then.
VX_WARN_UNUSED bool shared_fits(struct job *job);

// Puts each of the tensors of an inference request that asks for that into its region, unless a GPU put them there.
VX_WARN_UNUSED bool shared_put_tensors(struct job *job);

static inline bool shared_has_answer(const struct job *job) { return job->asked.output_region.name[0]; }
// Puts the answer into output_region, or what is in front of tensors that a GPU put there. What is sent is of the kind
// `answer_of_region` then.
VX_WARN_UNUSED bool shared_put(struct job *job);

// Counts the parts of a job that is answered, by the way that each took in the end.
void shared_count(const struct job *job);

#endif

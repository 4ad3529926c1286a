// The source and the sinks of a job in regions of shared memory (regions.h): its points come from one, and its answer
// or single tensors go there.
//
// The GPU that runs the job reads the source and writes the sinks itself, if it can. Else the bytes are copied: from
// the source into the input, from the output into the sinks.
//
// Runs on the worker's thread, which owns the job meanwhile. What fails sets the problem of the job's result. From the
// first source or sink on the job has a `shared` part, which the functions below them want.
#ifndef VOXELD_SHARED_H
#define VOXELD_SHARED_H

#include "server/jobs/job.h"

// ---- the source -----------------------------------------------------------------------------------------------------

// Copies a part of a region of the job's client to `out`. False with an error.
VX_WARN_UNUSED bool shared_read(void *job, const struct region_ref *ref, char *out, struct error *error);

// Opens a part of a region as the job's source.
VX_WARN_UNUSED bool source_open(struct job *job, const struct region_ref *ref);
// Brings the source, which is open, into the reach of the GPU that the job will run on (NULL: none). False: it must be
// copied.
VX_WARN_UNUSED bool source_reach(struct job *job, const struct device *gpu);
// Copies the source and closes it. The copy becomes the input: from then on nobody changes it.
VX_WARN_UNUSED bool source_copy(struct job *job);
// Where a GPU reads the points; NULL: there is no source, or it was copied.
static inline char *source_rows(const struct job *job) { return job->shared ? job->shared->source.device_ptr : NULL; }

// ---- the sinks ------------------------------------------------------------------------------------------------------

// Opens the parts of regions that the answer goes to.
VX_WARN_UNUSED bool sinks_open(struct job *job);
// Once the answer's layout is known: whether the sinks have room for it, as far as its size is known by then.
VX_WARN_UNUSED bool sinks_reserve(struct job *job);
// Then lets the GPU that runs the job write all of the sinks itself, or none. Returns where the GPU writes the whole
// answer; NULL: what else there is goes to the output.
char *sinks_reach(struct job *job);
// Copies tensors into their sinks, unless a GPU has written them there.
VX_WARN_UNUSED bool sinks_commit_tensors(struct job *job);
// Likewise the whole answer, or what is in front of the tensors that a GPU has written. What is sent is then of the
// kind `answer_of_region`.
VX_WARN_UNUSED bool sinks_commit_answer(struct job *job);
// Whether there is a sink of the whole answer.
static inline bool sinks_take_answer(const struct job *job) { return job->asked.output_region.name[0]; }

// ---- both -----------------------------------------------------------------------------------------------------------

// After a run on a GPU: whether all that it reached was the regions' still. No GPU reaches the sinks any more.
VX_WARN_UNUSED bool shared_verify_or_unpin(struct job *job);
void shared_release(struct job *job);
// Counts the parts of a job that is answered, by the way that each took in the end.
void shared_count(const struct job *job);

#endif

// The source and the sinks of a job, in regions of shared memory (regions.h). A job reads its points from the source,
// and writes its answer, or single tensors, to sinks.
//
// The GPU that runs the job accesses them in place, if it can. Otherwise the bytes are copied from the source to the
// input, and from the output to the sinks.
//
// Runs on the thread that owns and runs the job. A failure sets the error of the job's result. The first source or sink
// gives the job its `shared` part. Without this part, call only shared_read, source_open, sinks_open, source_rows and
// sinks_take_answer.
#ifndef VOXELD_SHARED_H
#define VOXELD_SHARED_H

#include "api/wire/points_view.h"
#include "server/jobs/job.h"

// ---- the source -----------------------------------------------------------------------------------------------------

// Copies a part of a region of the job's client to `out`.
VX_WARN_UNUSED bool shared_read(void *job, const struct region_ref *ref, char *out, struct error *error);

VX_WARN_UNUSED bool source_open(struct job *job, const struct region_ref *ref);
// Lets `gpu`, which will run the job (NULL: none), read the open source in place. If regions of the job are in GPU
// memory, lets the GPU of that memory read it instead. False: the source must be copied.
VX_WARN_UNUSED bool source_reach(struct job *job, const struct device *gpu);
// Copies the source and closes it. The copy becomes the input, which the region's owner cannot change.
VX_WARN_UNUSED bool source_copy(struct job *job);
// Lets the GPU begin to copy the sample from the open source. The job has the sample until source_sample_end.
void source_sample_begin(struct job *job, struct view_sample *sample);
// Waits for the job's sample, and returns it; NULL: there is none. If its bytes cannot be read, it has no pieces.
struct view_sample *source_sample_end(struct job *job);
// Copies bytes of the open source to `out`, to inspect them. False if they cannot be read.
VX_WARN_UNUSED bool source_peek(void *job, uint64_t at, size_t bytes, char *out);
// The GPU's address of the points. NULL: there is no source, or it was copied.
static inline char *source_rows(const struct job *job) { return job->shared ? job->shared->source.device_ptr : NULL; }

// ---- the sinks ------------------------------------------------------------------------------------------------------

VX_WARN_UNUSED bool sinks_open(struct job *job);
// Whether the sinks have room for the answer, as far as its size is known. The layout must be known.
VX_WARN_UNUSED bool sinks_reserve(struct job *job);
// Call it after sinks_reserve. Lets the GPU that runs the job write to all sinks in place, or to none. Returns the
// address of the sink of the whole answer, if the GPU writes there. NULL: all tensors go to the output, except those
// that the GPU writes to their sinks.
char *sinks_reach(struct job *job);
// Copies tensors to their sinks, unless a GPU has written them there.
VX_WARN_UNUSED bool sinks_commit_tensors(struct job *job);
// Copies the whole answer to its sink, or only the header if a GPU has written the tensors there, or nothing if the GPU
// has written both. The client gets a response of the kind `answer_of_region`.
VX_WARN_UNUSED bool sinks_commit_answer(struct job *job);
static inline bool sinks_take_answer(const struct job *job) { return job->asked.output_region.name[0]; }

// ---- both -----------------------------------------------------------------------------------------------------------

// After a run on a GPU: whether the memory that the GPU accessed still belongs to the regions. Ends its access to the
// sinks.
VX_WARN_UNUSED bool shared_verify(struct job *job);
void shared_release(struct job *job);
// Counts the parts of regions that an answered job used: those in place, and those copied.
void shared_count(const struct job *job);

#endif

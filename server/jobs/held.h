// How a job acquires what it holds: a slot in a queue, memory and a detector. All but scratch and the detector are at
// the cost of its client's share. If memory is short, slow uploads are preempted for it (uploads.h).
//
// For the thread that owns the job. What fails sets the problem of the job's result. job_release (run.h) releases all.
#ifndef VOXELD_HELD_H
#define VOXELD_HELD_H

#include "server/jobs/job.h"

// A slot in the queue that the job goes to now, instead of the slot that it has.
VX_WARN_UNUSED bool job_acquire_queue_slot(struct job *job);
// Memory for `bytes` of rows that are made of the input. The `rows_bytes` that are there are kept.
VX_WARN_UNUSED bool job_acquire_rows(struct job *job, size_t bytes);
// Memory for `bytes` of output.
VX_WARN_UNUSED bool job_acquire_output(struct job *job, size_t bytes);
// A decoder for its body, and memory for what that holds by now.
VX_WARN_UNUSED bool job_acquire_decoder(struct job *job);
// `bytes` of the budget for scratch. One job may have at most what the budget leaves beside its input.
VX_WARN_UNUSED bool job_acquire_scratch(struct job *job, size_t bytes);
// The detector that the request points to, if it does; the catalog that has it does not change meanwhile.
void job_acquire_detector(struct job *job);

// The rows become the input, which is released.
void job_use_rows(struct job *job);

// Each does nothing if there is nothing to release.
void job_release_queue_slot(struct job *job);
void job_release_buffer(struct buffer **buffer);  // the input, the rows or the output
void job_release_decoder(struct job *job);
void job_release_scratch(struct job *job);
void job_release_detector(struct job *job);

#endif

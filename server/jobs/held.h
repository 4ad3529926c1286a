// How a job acquires what it holds: a queue slot, memory and a detector. The queue slot and the memory, except scratch,
// count towards the client's share. If memory is short, the job preempts slow uploads (uploads.h).
//
// Only the thread that owns the job calls these functions. A failure sets the error of the job's result. job_release
// (run.h) releases everything but the answer.
#ifndef VOXELD_HELD_H
#define VOXELD_HELD_H

#include "server/jobs/job.h"

// Exchanges the job's slot for a slot in the queue of its lanes. If no slot is free, supersedes older jobs with the
// same `latest`, and tries again.
VX_WARN_UNUSED bool job_acquire_queue_slot(struct job *job);
// Memory for `bytes` of rows. Keeps the first `rows_bytes` bytes.
VX_WARN_UNUSED bool job_acquire_rows(struct job *job, size_t bytes);
// Memory for `bytes` of times of points.
VX_WARN_UNUSED bool job_acquire_times(struct job *job, size_t bytes);
VX_WARN_UNUSED bool job_acquire_output(struct job *job, size_t bytes);
// A decoder for the body, and the budget for what the decoder has allocated so far.
VX_WARN_UNUSED bool job_acquire_decoder(struct job *job, enum coding coding);
// `bytes` of the budget. Refused for good if the job alone would then hold more than the whole budget.
VX_WARN_UNUSED bool job_acquire_scratch(struct job *job, size_t bytes);
// The detector of the request, if it has one. The caller holds the catalog.
void job_acquire_detector(struct job *job);

// Releases the input; the rows become the input.
void job_use_rows(struct job *job);

// Each function does nothing if there is nothing to release.
void job_release_queue_slot(struct job *job);
void job_release_buffer(struct buffer **buffer);  // the input, the rows, the times or the output
void job_release_decoder(struct job *job);
void job_release_scratch(struct job *job);

#endif

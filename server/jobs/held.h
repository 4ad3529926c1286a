// How a job acquires what it holds: a queue slot, memory and a detector. Everything except scratch and the detector
// counts towards its client's share. If memory is short, the job preempts slow uploads (uploads.h).
//
// Only the thread that owns the job calls these functions. A failure sets the error of the job's result. job_release
// releases everything. It is in run.h, because it also releases regions and sweeps, whose modules use this one.
#ifndef VOXELD_HELD_H
#define VOXELD_HELD_H

#include "server/jobs/job.h"

// A slot in the queue of the job's lanes, in exchange for the slot that the job has. If no slot is free, first
// supersedes older jobs with the same `latest`.
VX_WARN_UNUSED bool job_acquire_queue_slot(struct job *job);
// Memory for `bytes` of rows that are made from the input. Keeps the first `rows_bytes` bytes.
VX_WARN_UNUSED bool job_acquire_rows(struct job *job, size_t bytes);
// Memory for `bytes` of times of points.
VX_WARN_UNUSED bool job_acquire_times(struct job *job, size_t bytes);
// Memory for `bytes` of output.
VX_WARN_UNUSED bool job_acquire_output(struct job *job, size_t bytes);
// A decoder for its body, and the budget for the memory that the decoder has allocated so far.
VX_WARN_UNUSED bool job_acquire_decoder(struct job *job, enum coding coding);
// `bytes` of the budget for scratch. Refused for good if the job would then hold more than the whole budget by itself.
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

// A job and its stream (server/streams): the job waits for its turn, joins its sweeps with the stream's, and leaves its
// sweeps to the stream if it is answered or spared.
//
// The buffer of the body becomes the buffer of its sweep; several sweeps of one body get copies. The joined rows become
// the job's input. Errors are in the job's result.
#ifndef VOXELD_SWEEPS_H
#define VOXELD_SWEEPS_H

#include "server/jobs/job.h"

static inline bool sweeps_are_joined(const struct job *job) { return job->asked.stream.name[0]; }

// Takes the job's turn in its stream, unless it has the turn. STREAM_WAITS: another job has the turn. With `may_wait`
// the stream then owns the job until services->requeue; without it, nothing has changed.
VX_WARN_UNUSED enum stream_entry sweeps_begin(struct job *job, bool may_wait);
// Takes the chosen waiting jobs out of all streams: a list linked by `next`.
struct job *sweeps_take_waiting(struct streams *streams, struct job_choice *choice);
// The joined rows become the job's points, unless the job is spared. The body must be open, and the job must have its
// turn.
VX_WARN_UNUSED bool sweeps_join(struct job *job);
// Lets the run count the fates of points by joined sweep, if the operation can.
void sweeps_count(struct job *job);
// Writes the tensor track_ids of a job that has run, if the request tracks boxes, and prepares the stream's tracks.
VX_WARN_UNUSED bool sweeps_track(struct job *job);
// Ends the turn of a job that has a result. The stream keeps the sweeps and tracks of a job that was answered or
// spared.
void sweeps_end(struct job *job);

// The rows of the gathered sweeps; joined, they may be fewer.
int64_t sweeps_rows(const struct gathered *gathered);
// Writes the joined rows to `out`, which has room for sweeps_rows.
void sweeps_write(const struct gathered *gathered, const struct stream_terms *terms, const struct sweep_shape *shape,
                  struct vx_stop *stop, float *out, struct join_report *report);

#endif

// What a job has to do with its stream (server/streams): its turn, the sweeps that it joins with its own, and that its
// own are kept if it succeeds.
//
// The body's buffer becomes the sweep's; several are copied apart. The joined rows become the job's input. So both
// backends see the same rows, and a lone sweep is copied only to be joined. Refusals are in the job's result.
#ifndef VOXELD_SWEEPS_H
#define VOXELD_SWEEPS_H

#include "server/jobs/job.h"

static inline bool sweeps_are_joined(const struct job *job) { return job->asked.stream.name[0]; }

// Takes the job's turn in its stream, unless it has it. STREAM_WAITS: the job belongs to the stream until
// services->turn_came or, if it may not wait, it would have to.
VX_WARN_UNUSED enum stream_entry sweeps_begin(struct job *job, bool may_wait);
// Takes the jobs out of all streams that wait there and are stale at now_ns, or all that wait if it is INT64_MAX: as a
// list linked by `next`. The room calls it now and then.
struct job *sweeps_take_waiting(struct streams *streams, int64_t now_ns);
// Makes the joined rows the job's points. The worker calls it once the body is open and the job has its turn.
VX_WARN_UNUSED bool sweeps_join(struct job *job);
// Has the job's work count the fates of each joined sweep's points, if its operation can.
void sweeps_count(struct job *job);
// The job, which has a stream, has a result: the stream keeps its sweeps if it was answered, and its turn ends.
void sweeps_end(struct job *job);

// Rows of the gathered sweeps, joined: how many there may be at most, and their writing to `out`, which has room for
// these.
int64_t sweeps_rows(const struct gathered *gathered);
void sweeps_write(const struct gathered *gathered, const struct stream_terms *terms, const struct sweep_shape *shape,
                  struct vx_stop *stop, float *out, struct join_report *report);

#endif

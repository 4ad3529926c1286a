// Finds the points in a job's input, which may be in shared memory still: its raw rows, or rows that are made of a file
// in another format.
//
// Runs on the worker's thread, which owns the job meanwhile; points_split on the I/O thread too.
#ifndef VOXELD_POINTS_H
#define VOXELD_POINTS_H

#include "server/jobs/job.h"

// Whether so many bytes are whole rows, if the body is raw rows.
bool points_are_whole(const struct job *job, int64_t bytes);
// Splits so many bytes of raw rows among the clouds. Does nothing for a body of another format: the worker does that.
// False with a problem.
VX_WARN_UNUSED bool points_split(struct job *job, int64_t bytes, struct problem *problem);
// Decodes the body, if it is coded, and sets job->points. Raw rows of a body that is not coded are split before; those
// of any other body are split here. Rows in shared memory stay there if `gpu`, on which the job will run, can reach
// them; NULL: no GPU. False with job->problem set.
VX_WARN_UNUSED bool points_open(struct job *job, const struct device *gpu);
// Copies points that are in shared memory still, for the CPU. False with job->problem set.
VX_WARN_UNUSED bool points_copy(struct job *job);

#endif

// Finds the points in a job's input, which may be in shared memory still: its raw rows, or rows that are made of a file
// in another format.
//
// Runs on the worker's thread, which owns the job meanwhile.
#ifndef VOXELD_POINTS_H
#define VOXELD_POINTS_H

#include "server/jobs/job.h"

// Sets job->points. The rows of a file are split among the clouds here, for raw rows that was done before. Rows in
// shared memory stay there if `gpu`, on which the job will run, can reach them; NULL: no GPU. False with job->problem
// set.
VX_WARN_UNUSED bool points_open(struct job *job, const struct device *gpu);
// Copies points that are in shared memory still, for the CPU. False with job->problem set.
VX_WARN_UNUSED bool points_copy(struct job *job);

#endif

// Finds the points in a job's input: its raw rows, or rows that are made of a file in another format.
//
// Runs on the worker's thread, which owns the job meanwhile.
#ifndef VOXELD_POINTS_H
#define VOXELD_POINTS_H

#include "server/jobs/job.h"

// Sets job->points. The rows of a file are split among the clouds here, for raw rows that was done before. False with
// job->problem set.
VX_WARN_UNUSED bool points_open(struct job *job);

// Takes memory for so many bytes of points (job_take_rows). False with job->problem set: they may be more than a body
// may have.
VX_WARN_UNUSED bool points_take_rows(struct job *job, size_t bytes);

#endif

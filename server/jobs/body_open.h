// Opens the body of a job: finds its points, which may be coded, in shared memory, or in a file of some format.
//
// Runs on the worker's thread, which owns the job meanwhile; body_split and body_is_whole on the I/O thread too.
#ifndef VOXELD_BODY_OPEN_H
#define VOXELD_BODY_OPEN_H

#include "server/jobs/job.h"

// Whether so many bytes are whole rows, if the body is raw rows.
bool body_is_whole(const struct job *job, int64_t bytes);
// Splits so many bytes of raw rows among the clouds. Does nothing for a body of another format: the worker does that.
// False with an error.
VX_WARN_UNUSED bool body_split(struct job *job, int64_t bytes, struct error *error);
// Sets job->points. Raw rows of a body that is not coded are split before; those of any other body are split here. Rows
// in shared memory stay there if `gpu`, on which the job will run, reads them there; NULL: no GPU. False with an error
// in the job's result.
VX_WARN_UNUSED bool body_open(struct job *job, const struct device *gpu);

#endif

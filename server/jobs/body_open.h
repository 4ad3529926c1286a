// Opens the body of a job: decodes it, fetches it from shared memory, reads its format, and so finds the points.
//
// Runs on the thread that runs and owns the job. The I/O thread calls body_split and body_is_whole too.
#ifndef VOXELD_BODY_OPEN_H
#define VOXELD_BODY_OPEN_H

#include "server/jobs/job.h"

// Whether `bytes` is a multiple of the size of a row. Always true if the format is not raw rows.
bool body_is_whole(const struct job *job, int64_t bytes);
// Splits `bytes` bytes of raw rows among the clouds. Does nothing for other formats. False with an error.
VX_WARN_UNUSED bool body_split(struct job *job, int64_t bytes, struct error *error);
// Sets job->points, and splits the rows that body_split did not. `gpu` will run the job; NULL: the CPU will. Rows in
// shared memory stay there if the GPU can read them. False with an error in the job's result.
VX_WARN_UNUSED bool body_open(struct job *job, const struct device *gpu);

#endif

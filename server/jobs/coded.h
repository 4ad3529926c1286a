// Decodes the body of a job that came with a Content-Encoding.
//
// The body is kept as it came until a worker has the job: what a body decodes to may be a thousand times as long, and
// the I/O threads have others to serve. Runs on the worker's thread, which owns the job meanwhile.
#ifndef VOXELD_CODED_H
#define VOXELD_CODED_H

#include "server/jobs/job.h"

// The decoded body becomes the job's input, of at most max_body_bytes. False with a problem.
VX_WARN_UNUSED bool coded_open(struct job *job);

#endif

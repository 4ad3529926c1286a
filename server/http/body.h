// Reads a request's body into its job's input, or discards it.
//
// Runs on the IO thread that owns the request.
#ifndef VOXELD_BODY_H
#define VOXELD_BODY_H

#include "server/http/request.h"

#define PAGE_BODY_TOO_LARGE "the body is longer than %d bytes, the most that this path takes"

// Take the `*size` bytes of the body that have come, and set `*size` to 0. If body_receive or body_keep must refuse the
// body, it sets request->problem and discards the rest (REQUEST_DISCARD). MHD_NO: the connection ends.
enum MHD_Result body_receive(struct request *request, const char *data, size_t *size);  // of a job
enum MHD_Result body_keep(struct request *request, const char *data, size_t *size);     // of a page
enum MHD_Result body_discard(struct request *request, const char *data, size_t *size);
// Whether the headers tell how many bytes of rows come: the body is neither chunked nor coded.
bool body_is_measured(const struct request *request);
// The body ends here: checks it, unless that was done when its headers came. False with request->problem set.
VX_WARN_UNUSED bool body_end(struct request *request);
// Checks a whole body of `bytes` bytes: it must consist of whole rows, which the parameters split among the clouds.
// Sets the shape of the job's input. Leaves a body of another format than raw to the worker (jobs/points.h). False with
// request->problem set.
VX_WARN_UNUSED bool body_check(struct request *request, int64_t bytes);

// The body of a refused request will not be seen: says what could be wrong with it, whatever it looks like.
void body_guess(struct request *request);

// Sends the request to the gate. True: the body is read on now. False: the request is suspended (REQUEST_HELD).
bool body_pass_gate(struct request *request);

#endif

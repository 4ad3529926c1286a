// Serves HTTP: one libmicrohttpd daemon for each listening socket, and the steps of a request.
//
// Main starts and stops it. The library's callbacks run on its I/O threads, each with its own connections.
#ifndef VOXELD_HTTP_H
#define VOXELD_HTTP_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "server/http/request.h"

enum {
  CONNECTION_MEMORY = 256 * 1024,  // bytes of a connection in the library; with less, large bodies arrive more slowly
  PAGES_THREADS = 2,               // I/O threads of a listener that serves only pages
};

const char *http_library_version(void);

// Checks the library's version and the listeners of the options, without listening. False with a reason.
VX_WARN_UNUSED bool http_check(struct service *service, struct error *error);
// Makes the same checks, then listens and starts the I/O threads. False with a reason; the process must end then.
VX_WARN_UNUSED bool http_start(struct service *service, struct error *error);
// Stops listening, ends every connection and the I/O threads. No request may be suspended, so no job may wait or run.
void http_stop(struct service *service);

// ---- the steps of a request, on the I/O thread that owns it ---------------------------------------------------------
//
// A false result comes with request->error. MHD_NO: the connection ends.

// Takes the next step of the request: for the headers, for each part of the body and for the body's end. `data` has
// `*size` bytes of the body; `*size` becomes 0 once they are taken.
enum MHD_Result exchange_advance(struct request *request, const char *method, const char *path, const char *data,
                                 size_t *size);
// The request is over: releases what it holds, then counts and logs it. Do not call it while the request waits at the
// gate.
void exchange_end(struct request *request, enum MHD_RequestTerminationCode code);
// The gate's callbacks: suspend and resume the request's connection.
void exchange_hold(struct gate_entry *entry);
void exchange_resume(struct gate_entry *entry);

// Decides from the headers whether the request is served. If it has a job, also reserves a slot in the queue and, if
// the length is known, memory for the body. A refusal sets request->error and, if the problem must be answered before
// the body is read, answer_early.
void request_admit(struct request *request, const char *method, const char *path);

// Take the `*size` bytes of the body that have arrived, and set `*size` to 0. A refusal sets request->error; the rest
// of the body is then discarded, so that the connection stays.
enum MHD_Result body_receive(struct request *request, const char *data, size_t *size);  // of a job
enum MHD_Result body_keep(struct request *request, const char *data, size_t *size);     // of a page
enum MHD_Result body_discard(struct request *request, const char *data, size_t *size);
// Checks that a raw body of `bytes` bytes has whole rows, splits them among the clouds, and sets the shape of the job's
// input. Does nothing for other formats.
VX_WARN_UNUSED bool body_check(struct request *request, int64_t bytes);
// At the end of a chunked body: body_check, unless the worker will decode the body first.
VX_WARN_UNUSED bool body_end(struct request *request);
// For a refused body that will not be read: if its length is not a multiple of a row, adds to the problem that the body
// may be a file of another format.
void body_guess(struct request *request);
// Sends the request to the gate. If the gate holds it (PEER_HELD), the rest of the body is read afterwards.
void body_pass_gate(struct request *request);

// Answers with the job's output, a page, or the problem (PEER_REPLY). The response then owns the job's output.
enum MHD_Result request_reply(struct request *request);
// job_spec.make for a job that makes a page on a worker's thread.
VX_WARN_UNUSED bool request_make_page(struct job *job);
// The response of a page that lasts: events of streams. While there is no event the connection is suspended; the thread
// that causes an event resumes it. NULL with the request's problem.
struct MHD_Response *subscription_response(struct request *request, const struct page_asked *asked);

// Counts a finished request and writes its log line. `aborted`: the client left before its answer was sent.
void request_account(struct request *request, bool aborted);

#endif

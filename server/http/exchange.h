// The way of one request through its states (request.h), driven by the library's calls.
//
// Runs on the library's IO threads, each for its own connections. admit.c decides from the headers, body.c reads the
// body, reply.c answers, account.c counts and logs. The job itself runs in jobs/.
#ifndef VOXELD_EXCHANGE_H
#define VOXELD_EXCHANGE_H

#include "server/http/request.h"

// The headers are here: makes the request. `line_fault`: what is wrong with its first line; must stay.
// `takes_interim`: the client knows 100 Continue. NULL: out of memory.
struct request *exchange_open(struct service *service, struct MHD_Connection *connection, struct peer *peer,
                              const struct line_fault *line_fault, bool takes_interim);
// Takes the next step. The library calls it for the headers, for each part of the body and for the body's end. `data`
// has `*size` bytes of the body; `*size` becomes 0 once they are taken. MHD_NO: the connection ends.
enum MHD_Result exchange_advance(struct request *request, const char *method, const char *path, const char *data,
                                 size_t *size);
// The request is over, for whatever reason: gives back what it holds, counts and logs it, and frees it. It must not
// wait at the gate.
void exchange_close(struct request *request, enum MHD_RequestTerminationCode code);

// The gate's callbacks: suspend and resume the request's connection.
void exchange_hold(struct gate_entry *entry);
void exchange_let_go(struct gate_entry *entry);

#endif

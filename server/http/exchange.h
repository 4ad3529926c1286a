// The way of one request, as the library calls: its headers are here; headers, body, end (many calls); it is over.
//
// The library's IO threads, each for its own connections. Decisions are in admit.c, the body in body.c, the answer in
// reply.c, what is left of it in account.c; the job runs in jobs/.
#ifndef VOXELD_EXCHANGE_H
#define VOXELD_EXCHANGE_H

#include "server/http/request.h"

// NULL: out of memory.
struct request *exchange_open(struct service *service, struct MHD_Connection *connection, struct peer *peer,
                              const char *line_fault, bool takes_interim);
enum MHD_Result exchange_advance(struct request *request, const char *method, const char *path, const char *data,
                                 size_t *size);
void exchange_close(struct request *request, enum MHD_RequestTerminationCode code);

// What the gate does with a request.
void exchange_hold(struct gate_entry *entry);
void exchange_let_go(struct gate_entry *entry);

#endif

// The functions that start, serve, reload, drain and stop the service (http/request.h), which owns all rooms.
//
// Main's thread calls these functions unless a comment says otherwise.
#ifndef VOXELD_DAEMON_H
#define VOXELD_DAEMON_H

#include "server/http/http.h"

// ---- service.c: the rooms -------------------------------------------------------------------------------------------

// Loads presets, tokens and certificates. False with a reason.
VX_WARN_UNUSED bool service_prepare(struct service *service, struct error *error);
// After service_prepare: checks the listeners and opens the devices, without serving. False with a reason.
VX_WARN_UNUSED bool service_check(struct service *service, struct error *error);
// After service_prepare: starts all rooms. Calls `gpu_lost` on a worker's thread for each GPU that is lost. False with
// a reason; the process must end then, since some rooms may have started.
VX_WARN_UNUSED bool service_start(struct service *service, void (*gpu_lost)(void *service), struct error *error);
// Logs each model that does not serve, or whose newer version was refused. Any thread.
void service_log_broken(const struct detectors *models);
// Vacates the sessions of the served models on lost GPUs. Any thread, after each loss and each reload.
void service_vacate_lost(struct service *service);
// Stops all rooms and frees what they hold. No job may wait or run: drain comes first.
void service_stop(struct service *service);

// ---- serve.c, drain.c: from the start to the exit status ------------------------------------------------------------

// Starts the log, the thread of reloads and all rooms. Call signals_block and service_prepare first. False with a
// reason; the process must end then.
VX_WARN_UNUSED bool serve_start(struct service *service, struct error *error);
// Serves until a signal or, if on_device_lost is exit, the loss of a GPU; then drains and stops. Returns the exit
// status. If a job or a reload does not end, ends the process.
int serve(struct service *service);
// Turns /readyz to 503. After drain_delay_s, refuses new requests and answers those that were accepted, up to a few
// seconds longer than drain_timeout_s. False if a job does not end.
VX_WARN_UNUSED bool drain(struct service *service);

// ---- reload.c: SIGHUP -----------------------------------------------------------------------------------------------
//
// A thread of its own reads presets, models, tokens and certificates again, since a file may be on a network mount that
// does not answer.

// Starts the thread. False with a reason.
VX_WARN_UNUSED bool reload_start(struct service *service, struct error *error);
// Asks for a reload. If a reload is in progress, another follows it. A reload replaces presets, tokens and certificates
// each as a whole, and keeps the old ones if a file is bad. It keeps a model whose new files are bad. Requests do not
// wait for a reload. New models serve once their networks are warm.
void reload_ask(void);
// Ends the thread. False if a reload does not end within a second; it may then still use the service.
VX_WARN_UNUSED bool reload_end(void);

// ---- probe.c: voxeld --probe, the health check of a container without curl, in a process of its own -----------------

// Whether the first listener of pages_listen or, if that is empty, of listen answers GET /healthz with 200 within a few
// seconds. Does not verify the server's certificate, since the listener is on this machine. False with a reason.
VX_WARN_UNUSED bool probe(const struct options *options, struct error *error);

#endif

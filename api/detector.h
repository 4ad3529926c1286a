// A detector is a model that detects boxes. Its folder has model.json, the network, and the weights of the encoder or
// of the backbone; docs/operate/models.md has the format.
//
// Without the library that runs networks, a detector opens but does not serve. A job may go on with a detector that a
// reload has replaced: the last holder's detector_release ends the detector and closes its sessions, whose lanes must
// outlive it. Any thread.
#ifndef VOXELD_DETECTOR_H
#define VOXELD_DETECTOR_H

#include "api/ops/ops.h"
#include "api/sessions.h"

enum { DETECTOR_NAME_SIZE = 64 };

// What is needed to run networks. The library must outlive the detectors.
struct detector_means {
  const struct vx_engine *engine;
  struct vx_engine_library *library;  // NULL if there is none
  struct error missing;               // why there is no library
  int threads;                        // threads that compute one run together
  size_t memory_bytes;                // limit of a network's host memory; 0 = no limit
};

struct detector;

// Opens the model in `folder`. The name has less than DETECTOR_NAME_SIZE bytes. The caller becomes a holder. NULL if
// there is no memory.
struct detector *detector_open(const char *folder, const char *name, const struct detector_means *means);
void detector_hold(struct detector *detector);
void detector_release(struct detector *detector);  // may be NULL

const char *detector_name(const struct detector *detector);
const char *detector_version(const struct detector *detector);  // "" if model.json could not be read that far
// Why the detector does not serve, with the file and the field at fault; NULL if it serves.
const char *detector_fault(const struct detector *detector);
// From now on the detector does not serve. Only the first reason counts. One thread at a time may refuse; other threads
// may read the detector meanwhile.
void detector_refuse(struct detector *detector, const char *reason);

// Writes the detector's name, parameters and steps into a request. The detector must serve. False if there is no
// memory; pool_refuse then gives the error.
VX_WARN_UNUSED bool detector_choose(const struct detector *detector, struct job_request *request);

struct detector *detector_of(const struct job_request *request);

// What jobs need of a detector that serves, and the number of columns of its points.
const struct vx_detector *detector_core(const struct detector *detector);
int64_t detector_columns(const struct detector *detector);

// Opens a session of the detector's network; see sessions_open.
VX_WARN_UNUSED enum vx_status detector_session(struct detector *detector, const struct vx_lane *lane,
                                               const struct vx_device_stream *stream, struct error *error);
struct sessions *detector_sessions(struct detector *detector);

// Writes the detector as the members of a JSON object, without braces.
void detector_write(const struct detector *detector, struct text *out);

#endif

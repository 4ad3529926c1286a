// A model that detects, as a folder of files: model.json, the encoder's weights and the network.
//
// docs/detection.md has the format. A detector does not change once it is open, but for the sessions of its network,
// and that it may be refused; one that cannot be opened says why. Holders are counted: it ends with the last of them,
// so a job may go on with a model that a reload has replaced. Its sessions end with it, so the lanes that have them
// outlive it. Any thread.
#ifndef VOXELD_DETECTOR_H
#define VOXELD_DETECTOR_H

#include "api/ops/ops.h"
#include "api/sessions.h"

enum { DETECTOR_NAME_SIZE = 64 };

// What networks run with. The library outlives the detectors.
struct detector_means {
  const struct vx_engine *engine;
  struct vx_engine_library *library;  // NULL: there is none
  struct error missing;               // why
  int threads;                        // that compute a run together
  size_t memory_bytes;                // of the host, that a network may take; 0: any
};

struct detector;

// Opens the model in `folder`; the name has less than DETECTOR_NAME_SIZE bytes. The caller holds it. NULL if there is
// no memory for it.
struct detector *detector_open(const char *folder, const char *name, const struct detector_means *means);
void detector_hold(struct detector *detector);
void detector_release(struct detector *detector);  // may be NULL

const char *detector_name(const struct detector *detector);
const char *detector_version(const struct detector *detector);  // "" if model.json could not be read so far
// Why it does not serve, with the file and the field at fault; NULL if it serves.
const char *detector_fault(const struct detector *detector);
// It opens, but cannot be used: from now on it does not serve. One thread; others may read it meanwhile. Only the first
// reason counts.
void detector_refuse(struct detector *detector, const char *reason);

// Names the detector, which serves, in a request of a detection.
void detector_choose(const struct detector *detector, struct job_request *request);

// The one that a request points to.
struct detector *detector_of(const struct job_request *request);

// What jobs need of a detector that serves, and how many columns its points have.
const struct vx_detector *detector_core(const struct detector *detector);
int64_t detector_columns(const struct detector *detector);

// Opens a session of its network, as sessions_open does.
VX_WARN_UNUSED enum vx_status detector_session(struct detector *detector, const struct vx_lane *lane,
                                               const struct vx_device_stream *stream, struct error *error);
struct sessions *detector_sessions(struct detector *detector);

// The members of a JSON object, without its braces.
void detector_write(const struct detector *detector, struct text *out);

#endif

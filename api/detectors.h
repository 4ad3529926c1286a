// The models that detect: the folders of one directory, by their names.
//
// A set does not change once it serves, but that its models may be refused; any thread may read it then. Each of its
// detectors may be held beyond it.
#ifndef VOXELD_DETECTORS_H
#define VOXELD_DETECTORS_H

#include "api/detector.h"
#include "api/detector_files.h"

struct detectors;

// Why a detector serves though its folder has newer files.
struct detector_refusal {
  char version[DETECTOR_VERSION_SIZE];  // of those files; "" if model.json could not be read so far
  struct error reason;                  // their fault
};

// Opens each folder of `directory` ("" = none) but hidden ones. A model that cannot be opened is in the set with its
// fault. NULL with a reason if the directory cannot be read, or has more than there may be.
VX_WARN_UNUSED struct detectors *detectors_load(const char *directory, const struct detector_means *means,
                                                struct error *error);
void detectors_free(struct detectors *detectors);  // may be NULL

// Before the set serves: each of its models that does not serve is replaced by that of its name in `before`, if that
// one serves. `before` may be NULL.
void detectors_keep(struct detectors *detectors, const struct detectors *before);
// The same for the one with that index, which opens but cannot be used. If nothing replaces it, it is refused from now
// on: so without `before` the set may serve already.
void detectors_refuse(struct detectors *detectors, const struct detectors *before, size_t index, const char *reason);

// The set may be NULL here, for one without detectors.
size_t detectors_count(const struct detectors *detectors);
struct detector *detectors_at(const struct detectors *detectors, size_t index);        // in the order of names
struct detector *detectors_find(const struct detectors *detectors, const char *name);  // NULL if there is none

// Why detectors_keep has put the one with that index in the place of another; NULL if it has not.
const struct detector_refusal *detectors_refusal(const struct detectors *detectors, size_t index);
// The same of the one of that name; NULL also if there is none.
const struct detector_refusal *detectors_refused(const struct detectors *detectors, const char *name);

// The detector of that name, if it serves. NULL with an error, which names the parameter `model`.
struct detector *detectors_need(const struct detectors *detectors, const char *name, struct error *error);

// The GPU of that number is lost: no network runs there any more.
void detectors_lose(const struct detectors *detectors, int device);
// How many sessions in use their networks have on the GPU of that number.
long long detectors_sessions(const struct detectors *detectors, int device);

// One as a JSON object. False if there is none of that name.
VX_WARN_UNUSED bool detectors_write_one(const struct detectors *detectors, const char *name, struct text *out);
// All as {"models":[...]}.
void detectors_write(const struct detectors *detectors, struct text *out);

#endif

// The models that detect: the folders of one directory, by their names.
//
// A set that serves does not change, except that its models may be refused. Any thread may read it. A detector may
// outlive the set, through another holder.
#ifndef VOXELD_DETECTORS_H
#define VOXELD_DETECTORS_H

#include "api/detector.h"
#include "api/detector_files.h"

struct detectors;
struct suggestion;

// Why a detector serves though its folder has newer files.
struct detector_refusal {
  char version[DETECTOR_VERSION_SIZE];  // of the newer files; "" if model.json could not be read that far
  struct error reason;                  // why the newer files do not serve
};

// Opens each folder of `directory` ("" = none), except hidden ones. A model that cannot be opened is in the set with
// its fault. NULL with a reason.
VX_WARN_UNUSED struct detectors *detectors_load(const char *directory, const struct detector_means *means,
                                                struct error *error);
void detectors_close(struct detectors *detectors);  // may be NULL

// Call this before the set serves. Replaces each model that does not serve with the model of the same name in `before`,
// if that one serves. `before` may be NULL.
void detectors_keep(struct detectors *detectors, const struct detectors *before);
// The same for the model at `index`, which opened but cannot be used; without a replacement, calls detector_refuse. If
// `before` is NULL, this may be called while the set serves.
void detectors_refuse(struct detectors *detectors, const struct detectors *before, size_t index, const char *reason);

// From here on, except in detectors_write, `detectors` may be NULL, which means no detectors.
size_t detectors_count(const struct detectors *detectors);
struct detector *detectors_at(const struct detectors *detectors, size_t index);        // in the order of names
struct detector *detectors_find(const struct detectors *detectors, const char *name);  // NULL if there is none

// Why an older model serves at this index in place of newer files; NULL if none does.
const struct detector_refusal *detectors_refusal(const struct detectors *detectors, size_t index);
// The same by name; NULL also if there is no model of that name.
const struct detector_refusal *detectors_refused(const struct detectors *detectors, const char *name);

// The detector of that name, if it serves. NULL with an error that names the parameter `model`.
struct detector *detectors_need(const struct detectors *detectors, const char *name, struct error *error);

// Call this if the GPU of that number is lost: no network runs there any more.
void detectors_vacate(const struct detectors *detectors, int device);
// The number of sessions on the GPU of that number that are not vacant.
long long detectors_sessions(const struct detectors *detectors, int device);

void detectors_suggest(const struct detectors *detectors, struct suggestion *near);

// Writes one model as a JSON object. False with an error if no model has the name.
VX_WARN_UNUSED bool detectors_write_one(const struct detectors *detectors, const char *name, struct text *out,
                                        struct error *error);
void detectors_write(const struct detectors *detectors, struct text *out);  // {"models":[...]}

#endif

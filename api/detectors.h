// The models that detect: the folders of one directory, by their names.
//
// A set does not change once it is loaded; any thread may read it. Each of its detectors may be held beyond it.
#ifndef VOXELD_DETECTORS_H
#define VOXELD_DETECTORS_H

#include "api/detector.h"

struct detectors;

// Opens each folder of `directory` ("" = none) but hidden ones. A model that cannot be opened is in the set with its
// fault. NULL with a reason if the directory cannot be read, or has more than there may be.
VX_WARN_UNUSED struct detectors *detectors_load(const char *directory, const struct detector_means *means, char *error,
                                                size_t error_size);
void detectors_free(struct detectors *detectors);  // may be NULL

// The set may be NULL here, for one without detectors.
size_t detectors_count(const struct detectors *detectors);
struct detector *detectors_at(const struct detectors *detectors, size_t index);        // in the order of names
struct detector *detectors_find(const struct detectors *detectors, const char *name);  // NULL if there is none

// The detector of that name, if it serves. NULL with a problem, which names the parameter `model`.
struct detector *detectors_need(const struct detectors *detectors, const char *name, struct problem *problem);

// The GPU of that number is lost: no network runs there any more.
void detectors_lose(const struct detectors *detectors, int device);
// How many seats in use their networks have on the GPU of that number.
long long detectors_seats(const struct detectors *detectors, int device);

// All as {"models":[...]}.
void detectors_write(const struct detectors *detectors, struct text *out);

#endif

// What is counted for each model of the KServe v2 protocol.
//
// A model's counts are made when it is first asked and kept until the end, so a reload loses none. Counters only grow;
// any thread updates them, with relaxed atomics and without a lock.
#ifndef VOXELD_MODELS_H
#define VOXELD_MODELS_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/routes.h"
#include "api/wire/metadata.h"

// Where the time of an answered request went, by the names of Triton's statistics.
enum model_part { MODEL_QUEUE, MODEL_COMPUTE_INPUT, MODEL_COMPUTE_INFER, MODEL_COMPUTE_OUTPUT, MODEL_PARTS };

struct model_counts {
  struct model_counts *next;
  char name[ROUTE_NAME_SIZE];
  atomic_uint_fast64_t succeeded, succeeded_ns, failed, failed_ns;
  atomic_uint_fast64_t part_ns[MODEL_PARTS];  // of those that succeeded
  atomic_uint_fast64_t last_unix_ms;          // when the last one was over
};

struct models {
  _Atomic(struct model_counts *) first;
};

// Counts a request to a model that exists; `answer`: NULL if it failed. `ns` is the time from its headers to its
// answer. If there is no memory for the counts of a new model, the request is not counted.
void models_count(struct models *models, const char *name, const struct answer *answer, int64_t ns);
// NULL: it was not asked yet.
const struct model_counts *models_find(const struct models *models, const char *name);
void models_free(struct models *models);

#endif

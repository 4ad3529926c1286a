// Regions of shared memory in JSON, as in Triton's extension system_shared_memory: the terms that a client registers,
// and the parts that a client names. Any thread.
#ifndef VOXELD_WIRE_REGION_H
#define VOXELD_WIRE_REGION_H

#include <jansson.h>

#include "api/base/problem.h"
#include "api/params/region.h"

enum { REGION_KEY_SIZE = 256 };

struct region_terms {
  char name[REGION_NAME_SIZE];
  char key[REGION_KEY_SIZE];  // the name for shm_open, with or without the leading slash
  uint64_t offset, bytes;     // the part of the memory that is the region; each below 2^63
};

// Reads the terms of the region `name` from JSON. False with an error.
PARAM_WARN_UNUSED bool region_terms_read(const char *name, const char *json, size_t size, struct region_terms *terms,
                                         struct error *error);
// Reads a part of a region from the parameters of a tensor (shared_memory_region, shared_memory_byte_size and
// shared_memory_offset). False with an error.
PARAM_WARN_UNUSED bool region_ref_read(const json_t *parameters, struct region_ref *ref, struct error *error);
void region_terms_write(const struct region_terms *terms, struct text *out);

#endif

// A part of a shared-memory region, as clients name it: NAME,offset,bytes.
//
// Only the server knows the region itself (server/jobs/regions.h). Any thread.
#ifndef VOXELD_PARAMS_REGION_H
#define VOXELD_PARAMS_REGION_H

#include <stdint.h>

#include "api/params/params.h"

enum { REGION_NAME_SIZE = 64 };

struct region_ref {
  char name[REGION_NAME_SIZE];  // "" = none
  uint64_t offset, bytes;       // each below 2^63
};

// Sets the name. False if the name is empty, too long, or has unprintable bytes.
PARAM_WARN_UNUSED bool region_name_set(char name[REGION_NAME_SIZE], const char *text, size_t length);

// Whether `bytes` bytes from `offset` on lie within `size` bytes.
static inline bool region_holds(uint64_t size, uint64_t offset, uint64_t bytes) {
  return offset <= size && bytes <= size - offset;
}

extern const struct value_type value_region;  // struct region_ref

#endif

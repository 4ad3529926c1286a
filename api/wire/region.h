// Regions of shared memory in JSON, as in Triton's extensions system_shared_memory and cuda_shared_memory. Any thread.
#ifndef VOXELD_WIRE_REGION_H
#define VOXELD_WIRE_REGION_H

#include <jansson.h>

#include "api/base/problem.h"
#include "api/params/region.h"
#include "kernels/kernels.h"

enum region_kind { REGION_SYSTEM, REGION_CUDA, REGION_KINDS };
extern const char *const region_kinds[REGION_KINDS];  // their names
enum { REGION_KEY_SIZE = 256 };

// What a client registers.
struct region_terms {
  enum region_kind kind;
  char name[REGION_NAME_SIZE];
  char key[REGION_KEY_SIZE];  // of system memory: a name for shm_open, with or without its slash
  // Of CUDA memory: the number of the GPU and the handle. The handle proves the owner's consent, so no answer shows it.
  uint64_t gpu;
  unsigned char handle[VX_HANDLE_SIZE];
  uint64_t offset, bytes;  // the region's part of the memory; each below 2^63
};

// Reads the terms of the region `name`.
PARAM_WARN_UNUSED bool region_terms_read(enum region_kind kind, const char *name, const char *json, size_t size,
                                         struct region_terms *terms, struct error *error);
// Reads a part of a region from a tensor's parameters shared_memory_region, _byte_size and _offset.
PARAM_WARN_UNUSED bool region_ref_read(const json_t *parameters, struct region_ref *ref, struct error *error);
void region_terms_write(const struct region_terms *terms, struct text *out);

#endif

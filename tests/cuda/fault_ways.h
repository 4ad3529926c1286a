// The ways through the CUDA backend that cuda-faults goes: a job for each.
#ifndef VOXELD_TESTS_FAULT_WAYS_H
#define VOXELD_TESTS_FAULT_WAYS_H

#include "kernels/kernels.h"

enum { WAY_CLOUDS = 3, WAY_SECTIONS = 4 };  // of a way, at most

// SECTIONED: with WAY_SECTIONS sections. PLACED: each tensor goes to a place of its own.
enum way_with { PLAIN, SAMPLED, SECTIONED, PLACED };

struct way {
  const char *name;
  int32_t cap, num_clouds;
  enum vx_order order;
  enum vx_dtype input;
  bool filtered;  // a transform: with a matrix for each cloud; boxes: only some of them get a rank
  vx_tensor_set tensors;
  float size;  // of a voxel; of a scatter: the grid's length along x
  enum vx_op op;
  enum way_with with;
};

extern const struct way ways[], growing;
extern const int num_ways;

// To be called first; detections take their session on that stream.
void ways_init(void *stream);
// The job of a way, but for its caller and the memory that it fills.
struct vx_job way_job(const struct way *way);

#endif

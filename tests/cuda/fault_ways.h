// The jobs of cuda-faults: each takes another way through the CUDA backend.
#ifndef VOXELD_TESTS_FAULT_WAYS_H
#define VOXELD_TESTS_FAULT_WAYS_H

#include "kernels/kernels.h"

enum { WAY_CLOUDS = 3, WAY_SECTIONS = 4 };  // the most that a way has

// SECTIONED: with WAY_SECTIONS sections. PLACED: each tensor has its own memory. CHAINED: after a step. CHOSEN: the
// caps keep near voxels and random points. SPARSE: the detector has a backbone.
enum way_with { PLAIN, SAMPLED, SECTIONED, PLACED, CHAINED, CHOSEN, SPARSE };

struct way {
  const char *name;
  int32_t cap, num_clouds;
  enum vx_order order;
  enum vx_dtype input;
  // What this switches on. Voxels: a block filter; transform: one matrix per cloud; NMS: pre_max below the number of
  // boxes; range image: rows by ring; detection: one cloud at a time, channels first.
  bool filtered;
  vx_tensor_set tensors;
  float size;  // of a voxel; for a scatter: the grid's length along x
  enum vx_op op;
  enum way_with with;
};

extern const struct way ways[], growing;
extern const int num_ways;

// Call this first. Detections get a session that runs on `stream`.
void ways_init(void *stream);
// The job of a way, without its caller and the memory that it fills.
struct vx_job way_job(const struct way *way);

#endif

// Serialize on the CPU (kernels/serialize.h). Runs on the thread that has the lane.
#ifndef VOXELD_CPU_SERIALIZE_H
#define VOXELD_CPU_SERIALIZE_H

#include "kernels/kernels.h"

// Serializes the rows that the job's chain left: the lane's points.
VX_WARN_UNUSED enum vx_status cpu_serialize(struct vx_lane *lane, struct vx_job *job, struct error *error);

enum { CPU_KEYS = 256 };  // cells whose keys are found at once

// Fills keys[0 .. count) for cells `grid`, [count, 3], on the curve (enum vx_curve). `count` is at most CPU_KEYS; the
// other keys are undefined.
void cpu_find_keys(int32_t curve, int32_t depth, const int32_t *grid, int32_t count, uint64_t keys[CPU_KEYS]);
// The same, with only the vectors that every processor of the architecture has.
void cpu_find_keys_any(int32_t curve, int32_t depth, const int32_t *grid, int32_t count, uint64_t keys[CPU_KEYS]);

#endif

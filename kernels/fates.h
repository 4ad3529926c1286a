// The fates of a job's rows by name, and their counts. Pure functions over a constant table: any thread may call them.
#ifndef VOXELD_FATES_H
#define VOXELD_FATES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *vx_fate_name(enum vx_fate fate);
int64_t vx_fate_count(enum vx_fate fate, const struct vx_counts *counts);
void vx_set_fate_count(enum vx_fate fate, int64_t count, struct vx_counts *counts);

#ifdef __cplusplus
}
#endif
#endif

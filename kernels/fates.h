// The names of the fates of a job's rows.
#ifndef VOXELD_FATES_H
#define VOXELD_FATES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const char *const vx_fate_names[VX_FATE_COUNT];

#ifdef __cplusplus
}
#endif
#endif

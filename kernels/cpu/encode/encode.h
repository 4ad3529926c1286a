// The encoder of pillars on the CPU. Pure functions: any thread may call them.
#ifndef VOXELD_CPU_ENCODE_H
#define VOXELD_CPU_ENCODE_H

#include "kernels/encode.h"

// Writes the pillar's `values` [width]. `rows` [count, channels] are the pillar's kept points, of at most `cap`.
void cpu_encode(const struct vx_encoder *encoder, const float *rows, int32_t count, int32_t cap, float *values);

#endif

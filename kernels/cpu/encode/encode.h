// The encoder of pillars on the CPU. Pure functions except for `stop`: any thread may call them.
#ifndef VOXELD_CPU_ENCODE_H
#define VOXELD_CPU_ENCODE_H

#include "kernels/encode.h"
#include "kernels/stop.h"

// The maximum number of values of a row in any layer. Each row of cpu_encode needs room for that many.
int32_t cpu_encode_room(const struct vx_encoder *encoder);

// Writes the pillar's `values` [width of the encoder]. `rows` [count, inputs of the first layer] are the pillar's rows,
// including the padding's. `rows` and `other` have room for count * cpu_encode_room values each and are overwritten.
// `values` must not overlap them.
void cpu_encode(const struct vx_encoder *encoder, struct vx_stop *stop, float *rows, float *other, int32_t count,
                float *values);

#endif

// The encoder of pillars on the CPU. Pure functions except for `stop`: any thread may call them.
#ifndef VOXELD_CPU_ENCODE_H
#define VOXELD_CPU_ENCODE_H

#include "kernels/encode.h"
#include "kernels/stop.h"

// The most values that a row has in any layer. The rows of cpu_encode need room for so many.
int32_t cpu_encode_room(const struct vx_encoder *encoder);

// Writes the pillar's `values` [width of the encoder]. `rows` [count, inputs of the first layer] are the pillar's rows,
// including the padding's. `rows` and `other` have room for count * cpu_encode_room values each and are overwritten.
// `values` must not overlap them.
void cpu_encode(const struct vx_encoder *encoder, struct vx_stop *stop, float *rows, float *other, int32_t count,
                float *values);

#endif

// The encoder of pillars on the CPU. Pure functions, `stop` aside: any thread may call them.
#ifndef VOXELD_CPU_ENCODE_H
#define VOXELD_CPU_ENCODE_H

#include "kernels/encode.h"
#include "kernels/stop.h"

// The most values of a row in any layer: the rows of cpu_encode have room for so many each.
int32_t cpu_encode_room(const struct vx_encoder *encoder);

// Writes the pillar's `values` [width of the encoder]. `rows` [count, inputs of the first layer] are the pillar's rows,
// that of the padding included. Both `rows` and `other` have room for count * cpu_encode_room values, which are
// overwritten; the values may not lie in them.
void cpu_encode(const struct vx_encoder *encoder, struct vx_stop *stop, float *rows, float *other, int32_t count,
                float *values);

#endif

// The encoder of pillars on the CPU. Any thread.
#ifndef VOXELD_CPU_ENCODE_H
#define VOXELD_CPU_ENCODE_H

#include "kernels/encode.h"
#include "kernels/stop.h"

// The largest number of inputs of any layer.
int32_t cpu_encode_room(const struct vx_encoder *encoder);

// `rows` [count,inputs of the first layer]: the pillar's rows with the padding. Writes `values` [width of the encoder].
// `rows` and `other` have room for count * cpu_encode_room values each, and are overwritten. `values` must not overlap
// them.
void cpu_encode(const struct vx_encoder *encoder, struct vx_stop *stop, float *rows, float *other, int32_t count,
                float *values);

#endif

// Networks on a GPU, by ONNX Runtime's CUDA provider. engine.h says what a seat is.
//
// A seat belongs to who opened it. One thread at a time may run it.
#ifndef VOXELD_ENGINE_ORT_SEAT_H
#define VOXELD_ENGINE_ORT_SEAT_H

#include "kernels/engine.h"

VX_WARN_UNUSED enum vx_status ort_seat_open(struct vx_network *network, const struct vx_place *place,
                                            struct vx_seat **seat, struct error *error);
void ort_seat_close(struct vx_seat *seat);
VX_WARN_UNUSED enum vx_status ort_seat_run(struct vx_seat *seat, const struct vx_network_run *run, struct error *error);

#endif

// Sessions of networks on a GPU (engine.h), with ONNX Runtime's CUDA provider.
//
// A session belongs to the caller that opened it. One thread at a time may run it.
#ifndef VOXELD_ENGINE_ORT_LANE_SESSION_H
#define VOXELD_ENGINE_ORT_LANE_SESSION_H

#include "kernels/engine.h"

VX_WARN_UNUSED enum vx_status ort_lane_session_open(struct vx_network *network, const struct vx_device_stream *stream,
                                                    struct vx_session **session, struct error *error);
void ort_lane_session_close(struct vx_session *session);
VX_WARN_UNUSED enum vx_status ort_lane_session_run(struct vx_session *session, const struct vx_network_run *run,
                                                   struct error *error);

#endif

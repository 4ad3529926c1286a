// The decoder of a detection: its parameters, its maps and its job.
//
// Pure functions. Any thread.
#ifndef VOXELD_DECODER_H
#define VOXELD_DECODER_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// A detection with the detector's own parameters, without a session.
struct vx_detect vx_detect_of(const struct vx_detector *detector);

// Sets decode->op and decode->params.
void vx_set_decoder(const struct vx_detect *detect, struct vx_job *decode);

enum vx_tensor vx_map_tensor(const struct vx_detector *detector, int map);

#ifdef __cplusplus
}
#endif
#endif

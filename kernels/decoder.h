// The decoder of a detection: its parameters, its maps, and the job that it is.
//
// Pure functions. Any thread.
#ifndef VOXELD_DECODER_H
#define VOXELD_DECODER_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// A detection that chooses boxes as its detector's decoder does, without a session.
struct vx_detect vx_detect_of(const struct vx_detector *detector);

// Sets operation and parameters of a job to those of the detection's decoder.
void vx_set_decoder(const struct vx_detect *detect, struct vx_job *decode);

// The tensor that has a map of the detector.
enum vx_tensor vx_map_tensor(const struct vx_detector *detector, int map);

#ifdef __cplusplus
}
#endif
#endif

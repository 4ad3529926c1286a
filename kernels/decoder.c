// See decoder.h.
#include "kernels/decoder.h"

#include "kernels/ops.h"

struct vx_detect vx_detect_of(const struct vx_detector *detector) {
  if (detector->head == VX_DECODE_CENTER) {
    const struct vx_decode_center *centers = &detector->params.center;
    return (struct vx_detect){.detector = detector,
                              .choice = detector->voxelize.choice,
                              .score_threshold = centers->score_threshold,
                              .max_objects = centers->max_objects,
                              .nms = centers->nms,
                              .tracks = detector->tracks,
                              .precision = VX_FLOAT32};
  }
  const struct vx_decode *anchors = &detector->params.decode;
  return (struct vx_detect){.detector = detector,
                            .choice = detector->voxelize.choice,
                            .score_threshold = anchors->score_threshold,
                            .nms = anchors->nms,
                            .tracks = detector->tracks,
                            .precision = VX_FLOAT32};
}

void vx_set_decoder(const struct vx_detect *detect, struct vx_job *decode) {
  const struct vx_detector *detector = detect->detector;
  decode->op = (enum vx_op)detector->head;
  if (detector->head == VX_DECODE_CENTER) {
    decode->params.center = detector->params.center;
    decode->params.center.score_threshold = detect->score_threshold;
    decode->params.center.max_objects = detect->max_objects;
    decode->params.center.nms = detect->nms;
  } else {
    decode->params.decode = detector->params.decode;
    decode->params.decode.score_threshold = detect->score_threshold;
    decode->params.decode.nms = detect->nms;
  }
}

enum vx_tensor vx_map_tensor(const struct vx_detector *detector, int map) {
  return (enum vx_tensor)((int)vx_operations[detector->head].map + map);
}

// See decoder.h.
#include "kernels/decoder.h"

#include "kernels/ops.h"

struct vx_detect vx_detect_of(const struct vx_detector *detector) {
  if (detector->head == VX_DECODE_CENTER) {
    const struct vx_decode_center *centers = &detector->params.center;
    return (struct vx_detect){
        detector, detector->voxelize.choice, centers->score_threshold, centers->max_objects, centers->nms, VX_FLOAT32,
        NULL};
  }
  const struct vx_decode *anchors = &detector->params.decode;
  return (struct vx_detect){detector, detector->voxelize.choice, anchors->score_threshold, 0, anchors->nms, VX_FLOAT32,
                            NULL};
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

// Detect: points in, boxes out: a detector's voxels, its network and its decoder in one job.
//
// The stages are those of other operations, one after the other: voxelize.h with an encoder makes bev_features; the
// network (engine.h) makes a head's maps of that; decode.h or center.h makes boxes of those. All is as if each were a
// request of its own. Only the network's values may differ between devices, and between versions of the library.
//
// Each point has the fates of voxelize.h. The counts of what the decoder drops are filled too: below_threshold,
// over_max_objects, invalid, outside, over_pre_max, suppressed and over_post_max count anchors or candidates.
// job.row_counts has the boxes of each cloud.
#ifndef VOXELD_DETECT_H
#define VOXELD_DETECT_H

#include "kernels/center.h"
#include "kernels/decode.h"
#include "kernels/engine.h"
#include "kernels/voxelize.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_DETECTOR_MAPS = 6 };  // most inputs of a decoder

// What the decoder gets of a cloud: the maps of one output of the network.
struct vx_detector_map {
  const char *output;  // its name in the network; NULL: the decoder's input is not given
  int64_t height, width, channels;
  enum vx_dtype dtype;  // float32 or float16
};

// All of a model that a job needs. It does not change. The memory is its owner's and outlives the jobs.
struct vx_detector {
  const struct vx_engine *engine;
  struct vx_network *network;
  struct vx_voxelize voxelize;  // with an encoder
  const char *input;            // of the network: bev_features
  bool one_by_one;              // the network takes one cloud at a time, not any number of them
  bool channels_first;          // its outputs are [B, channels, height, width], not [B, height, width, channels]
  struct vx_detector_map maps[VX_DETECTOR_MAPS];  // as the decoder's row of ops.h has its inputs
  int head;                                       // enum vx_op: the decoder
  union {
    struct vx_decode decode;
    struct vx_decode_center center;
  } params;                 // of the decoder
  int64_t items;            // of the decoder: anchors or candidates of a cloud
  const char *class_names;  // of the labels, with commas between
  const char *version;      // that its owner gave it
};

// A job's own choice of boxes, in place of that of the detector's decoder, whose parameters these are.
struct vx_detect {
  const struct vx_detector *detector;
  float score_threshold;
  int32_t max_objects;  // of a centre head alone
  struct vx_nms nms;
  struct vx_session *session;  // of the network, on the lane that runs the job; NULL: it runs on the host's processors
};

// The maps of a head as they leave the network, with the channels last and of the network's types. A detector has those
// of one head alone; a job for others is refused.
#define VX_ANCHOR_MAPS                                                                                                 \
  (VX_TENSOR_BIT(VX_HEAD_CLS_PREDS) | VX_TENSOR_BIT(VX_HEAD_BOX_PREDS) | VX_TENSOR_BIT(VX_HEAD_DIR_CLS_PREDS))
#define VX_CENTER_MAPS                                                                                                 \
  (VX_TENSOR_BIT(VX_HEAD_HEATMAP) | VX_TENSOR_BIT(VX_HEAD_CENTER) | VX_TENSOR_BIT(VX_HEAD_HEIGHT) |                    \
   VX_TENSOR_BIT(VX_HEAD_DIM) | VX_TENSOR_BIT(VX_HEAD_ROT) | VX_TENSOR_BIT(VX_HEAD_VEL))
#define VX_HEAD_TENSORS (VX_ANCHOR_MAPS | VX_CENTER_MAPS)
#define VX_DETECT_TENSORS (VX_DECODE_TENSORS | VX_TENSOR_BIT(VX_BEV_FEATURES) | VX_HEAD_TENSORS)

#ifdef __cplusplus
}
#endif
#endif

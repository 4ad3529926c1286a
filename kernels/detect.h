// Detect: points in, boxes out.
//
// The stages: voxelize.h, with an encoder, makes bev_features. A detector with a backbone has no encoder: the backbone
// (sparse.h) makes bev_features from the mean of each voxel. The network (engine.h) turns bev_features into a head's
// maps. decode.h or center.h turns the maps into boxes. The network's values may differ between devices and between
// versions of ONNX Runtime.
//
// The operation backbone ends after the backbone, and gives its rows and their map. Both operations count the rows of
// each level of the backbone.
//
// Each point has one of the fates of voxelize.h. below_threshold, over_max_objects, invalid, outside, over_pre_max,
// suppressed and over_post_max count anchors or candidates of the decoder. row_counts: of each cloud, the boxes or, in
// a backbone job, the voxels.
#ifndef VOXELD_DETECT_H
#define VOXELD_DETECT_H

#include "kernels/center.h"
#include "kernels/decode.h"
#include "kernels/engine.h"
#include "kernels/sparse.h"
#include "kernels/voxelize.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_DETECTOR_MAPS = 7,    // maximum inputs of a decoder
  VX_MAX_TRACKS = 4096,    // per sensor and model
  VX_MAX_TRACK_AGE = 100,  // sweeps
};

// How the boxes of sweeps become tracks (tracks.h).
struct vx_track_terms {
  int32_t num_distances;               // 1: one distance for all classes; else one per class
  float max_distance[VX_MAX_CLASSES];  // metres, each above 0
  int32_t max_age;                     // 0..VX_MAX_TRACK_AGE
};
#define VX_DEFAULT_TRACK_TERMS ((struct vx_track_terms){1, {4}, 3})

// What a sweep did to the tracks. matched: old tracks that got a box. missed: tracks that got no box, but stay.
struct vx_track_counts {
  bool begun;  // the tracks begin with this sweep
  int32_t matched, started, missed, ended;
};

// One input of the decoder, for one cloud: the maps in one output of the network.
struct vx_detector_map {
  const char *output;  // the output's name in the network; NULL: this input is absent
  int64_t height, width, channels;
  enum vx_dtype dtype;  // float32 or float16
};

// All parts of a model that a job needs. Constant; the model's owner keeps them longer than the jobs.
struct vx_detector {
  const struct vx_engine *engine;
  struct vx_network *network;
  struct vx_voxelize voxelize;  // with an encoder, unless there is a backbone
  struct vx_sparse backbone;    // its plan exists; 0 layers: there is no backbone
  struct vx_sparse_plan plan;   // of the backbone
  int64_t max_rows;             // maximum rows of a level of the backbone
  uint64_t backbone_number;     // not 0; each backbone of the process has its own
  const char *input;            // the network's input for bev_features
  bool one_by_one;              // the network takes exactly one cloud per run
  bool channels_first;          // the outputs are [B, channels, height, width], not [B, height, width, channels]
  struct vx_detector_map maps[VX_DETECTOR_MAPS];  // in the order of the inputs in the decoder's row of ops.h
  int head;                                       // enum vx_op: the decoder
  union {
    struct vx_decode decode;
    struct vx_decode_center center;
  } params;                 // of the decoder
  int64_t items;            // anchors or candidates of a cloud
  const char *class_names;  // by label, separated by commas
  const char *version;      // given by the owner
  struct vx_track_terms tracks;
};

// `choice`, `score_threshold`, `max_objects`, `nms` and `tracks` replace the detector's own.
struct vx_detect {
  const struct vx_detector *detector;
  struct vx_choice choice;
  float score_threshold;
  int32_t max_objects;  // centre heads only
  struct vx_nms nms;
  int32_t track;  // 1: the caller writes track_ids, by `tracks`
  struct vx_track_terms tracks;
  enum vx_dtype precision;     // of the backbone: float32, or float16, which only a GPU computes
  struct vx_session *session;  // of the job's lane; NULL: the network runs on the host's processors
};

// The maps of a head, with the network's types and the channels last. A detector has the maps of one kind of head.
#define VX_ANCHOR_MAPS                                                                                                 \
  (VX_TENSOR_BIT(VX_HEAD_CLS_PREDS) | VX_TENSOR_BIT(VX_HEAD_BOX_PREDS) | VX_TENSOR_BIT(VX_HEAD_DIR_CLS_PREDS))
#define VX_CENTER_MAPS                                                                                                 \
  (VX_TENSOR_BIT(VX_HEAD_HEATMAP) | VX_TENSOR_BIT(VX_HEAD_CENTER) | VX_TENSOR_BIT(VX_HEAD_HEIGHT) |                    \
   VX_TENSOR_BIT(VX_HEAD_DIM) | VX_TENSOR_BIT(VX_HEAD_ROT) | VX_TENSOR_BIT(VX_HEAD_VEL) | VX_TENSOR_BIT(VX_HEAD_IOU))
#define VX_HEAD_TENSORS (VX_ANCHOR_MAPS | VX_CENTER_MAPS)
#define VX_SPARSE_TENSORS (VX_TENSOR_BIT(VX_SPARSE_COORDS) | VX_TENSOR_BIT(VX_SPARSE_FEATURES))
#define VX_BACKBONE_TENSORS (VX_SPARSE_TENSORS | VX_TENSOR_BIT(VX_BEV_FEATURES))
#define VX_DETECT_TENSORS (VX_DECODE_TENSORS | VX_BACKBONE_TENSORS | VX_HEAD_TENSORS)
// A detection makes room for this tensor; the caller, which has the tracks, fills it.
#define VX_TRACK_TENSORS VX_TENSOR_BIT(VX_TRACK_IDS)
// The tensors that tracks are made from.
#define VX_TRACKED_TENSORS                                                                                             \
  (VX_TENSOR_BIT(VX_DECODED_BOXES) | VX_TENSOR_BIT(VX_DECODED_SCORES) | VX_TENSOR_BIT(VX_DECODED_LABELS))

static inline bool vx_has_backbone(const struct vx_detector *detector) { return detector->backbone.num_layers > 0; }
static inline int32_t vx_detector_columns(const struct vx_detector *detector) {
  return vx_has_backbone(detector) ? detector->backbone.layers[0].inputs
                                   : detector->voxelize.encoder.layers[0].inputs - VX_PILLAR_EXTRA;
}

#ifdef __cplusplus
}
#endif
#endif

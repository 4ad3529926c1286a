// What a suppression has in hand: ranked boxes, segment by segment, and what is kept of them. See suppress.cuh.
#ifndef VOXELD_CUDA_SUPPRESSION_CUH
#define VOXELD_CUDA_SUPPRESSION_CUH

#include "kernels/cuda/boxes/segments.cuh"
#include "kernels/overlap.h"

struct cuda_ranked_box {
  struct vx_rectangle rectangle;
  int32_t label;  // 0 if labels make no difference
};

struct cuda_suppression {
  struct vx_nms nms;
  const float *radii;  // device, [num_radii]: segment i has number i % num_radii instead of nms.radius; or NULL
  uint32_t num_radii;
  struct cuda_segments segments;
  uint32_t *counts;  // [segments.count]: valid boxes of each segment; those from nms.pre_max on have no rank
  // As cuda_rank leaves it, with most = nms.pre_max: a box lies at its number in its segment. NULL: boxes and labels
  // are in the order of ranks, and a segment begins at cuda_ranked_begin.
  const uint64_t *ranked;
  float *boxes;     // [.., values], of which the first VX_BOX_VALUES are the box
  uint32_t values;  // of a box
  int32_t *labels;  // like boxes; NULL if all boxes suppress each other
  // Out.
  uint32_t *num_kept;  // [segments.count]
  uint32_t *kept;      // [cuda_ranked_room]: ranks of the kept boxes of each segment, rising, from cuda_ranked_begin on
  // Its own.
  uint32_t *overlaps;     // of each box of a chunk, a bit for each later one of the chunk: whether it suppresses that
  uint32_t *struck;       // a bit for each ranked box of a later chunk
  uint32_t *kept_before;  // [segments.count]: how many were kept before the chunk that was settled last
  uint32_t number;        // of the chunk in hand
  uint32_t slices;        // blocks that share a segment
};

#endif

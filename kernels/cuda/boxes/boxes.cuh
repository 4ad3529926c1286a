// Boxes on a GPU: suppression, the decoding of both kinds of head, and what these share. Runs on the thread that has
// the lane.
#ifndef VOXELD_CUDA_BOXES_CUH
#define VOXELD_CUDA_BOXES_CUH

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/head.h"
#include "kernels/overlap.h"

VX_WARN_UNUSED enum vx_status cuda_nms(struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_decode(struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_decode_center(struct cuda_run *run, struct error *error);

// ---- segments -------------------------------------------------------------------------------------------------------
//
// A segment has its own ranks. It is a cloud, or a group of a cloud's classes.

// The segments of an array, which has room for the maximum of each. Only the device knows how many items a segment has.
struct cuda_segments {
  uint32_t count, largest;  // `largest`: room of the largest segment
  uint64_t room;            // of all segments
  const uint32_t *first;    // device, [count]: beginning of each segment; NULL if all have room for `largest` items
};

__host__ __device__ static inline uint64_t cuda_segment_begin(const struct cuda_segments &segments, uint32_t segment) {
  return segments.first ? segments.first[segment] : (uint64_t)segment * segments.largest;
}

// Where a segment begins in an array with at most `most` items per segment: after `most` items per earlier segment, or
// after their whole room, whichever is less. So segments never overlap.
__host__ __device__ static inline uint64_t cuda_ranked_begin(const struct cuda_segments &segments, uint32_t most,
                                                             uint32_t segment) {
  uint64_t whole = cuda_segment_begin(segments, segment), ranked = (uint64_t)segment * most;
  return ranked < whole ? ranked : whole;
}

// The number of items in such an array.
static inline uint64_t cuda_ranked_room(const struct cuda_segments &segments, uint32_t most) {
  uint64_t ranked = (uint64_t)segments.count * most;
  return ranked < segments.room ? ranked : segments.room;
}

// The number of blocks that share a segment of up to `items` items, `per_block` at a time. Block i works on segment i /
// slices.
static inline uint32_t cuda_slices(const struct cuda_run *run, const struct cuda_segments &segments, uint64_t items,
                                   unsigned per_block, unsigned per_multiprocessor) {
  unsigned wanted = cuda_looping_blocks(run, items, per_block, per_multiprocessor);
  unsigned room = run->lane->device->multiprocessors * per_multiprocessor / segments.count;
  return wanted < room ? wanted : room > 1 ? room : 1;
}

// ---- ranks: the number of keys stays on the device ------------------------------------------------------------------

// A job with more keys in a segment may be stopped while it ranks them. The ranks are then undefined.
enum { CUDA_QUICK_KEYS = 16384 };

struct cuda_ranking {
  struct cuda_segments segments;
  uint32_t *counts;  // [segments.count]: keys of each segment
  uint64_t *keys;    // [segments.room]: vx_rank_key << 32 | number, distinct in a segment; cuda_rank may reorder them
  uint32_t most;     // how many of a segment's keys get a rank: the least ones
  uint64_t *ranked;  // [cuda_ranked_room]: out, ascending; min(counts[i], most) keys of segment i
};

// Takes `ranked`.
void cuda_take_ranking(struct cuda_ranking *ranking, struct cuda_arena *arena);
VX_WARN_UNUSED enum vx_status cuda_rank(const struct cuda_run *run, const struct cuda_ranking *ranking,
                                        struct error *error);

// ---- suppression: boxes.h of kernels/ defines it --------------------------------------------------------------------
//
// Adds the fates over_pre_max, suppressed, over_post_max and kept to the counters. If the host stops the job, boxes are
// left out, and the fates are wrong.

struct cuda_ranked_box {
  struct vx_rectangle rectangle;
  int32_t label;  // 0 if labels are ignored
};

struct cuda_suppression {
  struct vx_nms nms;
  const float *radii;  // device, [num_radii]: segment i uses radii[i % num_radii] instead of nms.radius; or NULL
  uint32_t num_radii;
  struct cuda_segments segments;
  uint32_t *counts;  // [segments.count]: valid boxes of each segment; only the best nms.pre_max have a rank
  // The result of cuda_rank with most = nms.pre_max; boxes lie at their numbers in the segment. NULL: boxes and labels
  // are in the order of ranks, and a segment begins at cuda_ranked_begin.
  const uint64_t *ranked;
  float *boxes;     // [.., values]; the first VX_BOX_VALUES values are the box
  uint32_t values;  // of a box
  int32_t *labels;  // like boxes; NULL if labels are ignored
  // Out.
  uint32_t *num_kept;  // [segments.count]
  uint32_t *kept;      // [cuda_ranked_room]: ranks of each segment's kept boxes, ascending, from cuda_ranked_begin on
  // Internal.
  uint32_t *overlaps;     // for each box of a chunk: bit j is set if the box suppresses the chunk's later box j
  uint32_t *struck;       // one bit for each ranked box of a later chunk: whether it is suppressed
  uint32_t *kept_before;  // [segments.count]: boxes kept before the chunk that was settled last
  uint32_t number;        // of the current chunk
  uint32_t slices;        // blocks that share a segment
};

// Takes `kept` and the internal arrays.
void cuda_take_suppression(struct cuda_suppression *suppression, struct cuda_arena *arena);
VX_WARN_UNUSED enum vx_status cuda_suppress(const struct cuda_run *run, struct cuda_suppression *suppression,
                                            struct error *error);

// ---- maps: the maps of a head as kernels see them, in place in the host's memory if the device can read it ----------

struct cuda_map {
  const void *values;  // NULL: absent
  enum vx_dtype dtype;
};

static __device__ inline float cuda_map_value(const struct cuda_map &map, uint64_t index) {
  return vx_load(map.dtype, map.values, index);
}

// The number of the largest of `count` values, the first if several are equal; 0 if none is above -inf.
static __device__ inline uint32_t cuda_first_largest(const struct cuda_map &map, uint64_t first, uint32_t count) {
  uint32_t best = 0;
  float largest = -INFINITY;
  for (uint32_t i = 0; i < count; i++) {
    float value = cuda_map_value(map, first + i);
    if (value > largest) {
      largest = value;
      best = i;
    }
  }
  return best;
}

// Whether none of the `count` values is larger than `value`, and none before number `own` equals it. NaN counts as
// neither larger nor equal.
static __device__ inline bool cuda_is_best(const struct cuda_map &map, uint64_t first, uint32_t count, uint32_t own,
                                           float value) {
  bool best = true;
  for (uint32_t i = 0; i < count && best; i++) {
    float other = cuda_map_value(map, first + i);
    best = !(i < own ? other >= value : other > value);
  }
  return best;
}

// ---- what decoders find ---------------------------------------------------------------------------------------------
//
// The steps of both decoders, from a head's maps to the output:
//
//   find      Lists the candidates of each segment (find.cuh).
//   rank      Sorts the best candidates (rank.cu).
//   make      Decodes their boxes (decode.cu, center.cu).
//   suppress  Lists the kept boxes (suppress.cu).
//   settle    Adds up the fates and tells the host the sizes.
//   write     Writes the tensors into the image of the output.
//
// Only ranked candidates get boxes, so the memory for boxes does not depend on the size of the maps.

struct cuda_found {
  // Set by the decoder.
  uint32_t groups;                           // segments of a cloud
  uint32_t group_first[VX_MAX_CLASSES + 1];  // where each group's keys begin in a cloud; last: the keys of a cloud
  uint32_t most_ranked;                      // maximum ranked candidates of a segment
  uint32_t most_made;                        // maximum boxes of a segment; cuda_prepare_found sets it
  uint32_t values;                           // of a box
  bool some_left_out;                        // not all ranked candidates become boxes: num_made says how many do
  bool rectified;                            // boxes are ranked by rectified scores, not by logits
  uint32_t num_radii;                        // radii of the groups' circles, or one for all; 0: no circles
  float radii[VX_MAX_TASKS];
  struct cuda_map maps[VX_MAX_INPUTS];
  // Arrays on the device.
  struct cuda_segments segments;
  uint32_t *first;      // [segments]: beginning of each segment's keys; NULL if there is one group
  float *device_radii;  // [num_radii]
  uint64_t *keys;       // of each candidate to rank: its rank key and its number; segment by segment
  uint32_t *num_found;  // [segments]: number of these candidates; zeros at first
  uint64_t *ranked;     // [cuda_ranked_room(most_ranked)]: the best of them; later, only those with boxes
  uint32_t *num_made;   // [segments]: number of decoded boxes
  float *boxes;         // [cuda_ranked_room(most_made), values]: in the order of ranks
  int32_t *labels;      // of the boxes
  int32_t *indices;     // likewise: box_indices
  uint32_t *first_row;  // [segments]: first row of each segment in the output
  uint32_t *kept;       // see struct cuda_suppression
  uint32_t *num_kept;
};

static __device__ inline void cuda_store_box(const struct cuda_found &found, uint64_t at,
                                             const float box[VX_MOVING_BOX_VALUES]) {
#pragma unroll
  for (uint32_t i = 0; i < VX_MOVING_BOX_VALUES; i++)
    if (i < found.values) found.boxes[at * found.values + i] = box[i];
}

// The output of a job whose maps are empty.
VX_WARN_UNUSED enum vx_status cuda_write_none(struct cuda_run *run, struct error *error);
struct cuda_found_parts {
  struct cuda_ranking ranking;
  struct cuda_suppression suppression;
};

// Takes memory and brings the inputs to the device, once the decoder has set its part. `nms`: for a segment's boxes.
// Sets found->most_made to its pre_max.
VX_WARN_UNUSED enum vx_status cuda_prepare_found(struct cuda_run *run, const struct vx_nms *nms,
                                                 struct cuda_found *found, struct cuda_found_parts *parts,
                                                 struct error *error);
// Everything after the boxes are decoded.
VX_WARN_UNUSED enum vx_status cuda_finish_found(struct cuda_run *run, const struct cuda_found *found,
                                                struct cuda_suppression *suppression, struct error *error);

#endif

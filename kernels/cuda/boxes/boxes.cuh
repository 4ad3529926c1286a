// Boxes on a GPU: suppression alone, decoding of both kinds of head, and what these operations share. Runs on the
// thread that has the lane.
#ifndef VOXELD_CUDA_BOXES_CUH
#define VOXELD_CUDA_BOXES_CUH

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/overlap.h"

VX_WARN_UNUSED enum vx_status cuda_nms(struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_decode(struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_decode_center(struct cuda_run *run, struct error *error);

// ---- segments -------------------------------------------------------------------------------------------------------
//
// A segment has ranks of its own: a cloud, or a task of a cloud. Their places in arrays, and how kernels share them
// among their blocks.

// An array over segments has room for whatever each may have; how much that is, only the device knows.
struct cuda_segments {
  uint32_t count, largest;  // `largest`: room of the largest segment
  uint64_t room;            // of all segments
  const uint32_t *first;    // device, [count]: where a segment begins; NULL if each has room for `largest`
};

__host__ __device__ static inline uint64_t cuda_segment_begin(const struct cuda_segments &segments, uint32_t segment) {
  return segments.first ? segments.first[segment] : (uint64_t)segment * segments.largest;
}

// Where a segment begins in an array for `most` items of each at most: behind `most` of each segment before it, or
// behind their whole room, whichever is less. So no two segments share a place.
__host__ __device__ static inline uint64_t cuda_ranked_begin(const struct cuda_segments &segments, uint32_t most,
                                                             uint32_t segment) {
  uint64_t whole = cuda_segment_begin(segments, segment), ranked = (uint64_t)segment * most;
  return ranked < whole ? ranked : whole;
}

// Items of such an array.
static inline uint64_t cuda_ranked_room(const struct cuda_segments &segments, uint32_t most) {
  uint64_t ranked = (uint64_t)segments.count * most;
  return ranked < segments.room ? ranked : segments.room;
}

// How many blocks share a segment, if it has up to `items` items and a block handles `per_block` of them at a time.
// Block i has segment i / slices.
static inline uint32_t cuda_slices(const struct cuda_run *run, const struct cuda_segments &segments, uint64_t items,
                                   unsigned per_block, unsigned per_multiprocessor) {
  unsigned wanted = cuda_looping_blocks(run, items, per_block, per_multiprocessor);
  unsigned room = run->lane->device->multiprocessors * per_multiprocessor / segments.count;
  return wanted < room ? wanted : room > 1 ? room : 1;
}

// As a block: whether the host wants the job to end. The host's word is in the host's memory, where reads take a
// microsecond and come one after the other. So few blocks ask the host (`asks`), and tell the others. Once any block
// knows, all kernels that follow do.
static __device__ inline bool cuda_is_stopped(const struct cuda_view &v, bool asks) {
  __shared__ bool stopped;
  volatile uint32_t *told = &v.control->told;
  const volatile uint32_t *asked = &v.commands->stop;
  __syncthreads();
  if (threadIdx.x == 0) {
    stopped = *told == v.sequence || (asks && *asked == v.sequence);
    if (stopped) *told = v.sequence;
  }
  __syncthreads();
  return stopped;
}

// ---- ranks: the numbers of keys stay on the device ------------------------------------------------------------------

// A segment with more keys can take so long that the job may be stopped meanwhile. Its ranks are undefined then.
enum { CUDA_QUICK_KEYS = 16384 };

struct cuda_ranking {
  struct cuda_segments segments;
  uint32_t *counts;  // [segments.count]: keys of each segment
  uint64_t *keys;    // [segments.room]: vx_rank_key << 32 | number in the segment, all distinct; left in any order
  uint32_t most;     // how many of a segment's keys, the least ones, get a rank
  uint64_t *ranked;  // [cuda_ranked_room]: out, rising; min(counts[i], most) of segment i
};

// Takes `ranked`. Runs twice, as all layouts do.
void cuda_take_ranking(struct cuda_ranking *ranking, struct cuda_arena *arena);
VX_WARN_UNUSED enum vx_status cuda_rank(const struct cuda_run *run, const struct cuda_ranking *ranking,
                                        struct error *error);

// ---- suppression: boxes.h of kernels/ says what that is -------------------------------------------------------------
//
// Adds the fates over_pre_max, suppressed, over_post_max and kept to the counters. If the host tells the job to stop,
// boxes are left out, and the fates are not right.

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

// Takes `kept` and what is its own. Runs twice, as all layouts do.
void cuda_take_suppression(struct cuda_suppression *suppression, struct cuda_arena *arena);
VX_WARN_UNUSED enum vx_status cuda_suppress(const struct cuda_run *run, struct cuda_suppression *suppression,
                                            struct error *error);

// ---- maps: those of a head as kernels see them, in the host's memory if the device can read it, otherwise copies ----

struct cuda_map {
  const void *values;  // NULL: not given
  enum vx_dtype dtype;
};

static __device__ inline float cuda_map_value(const struct cuda_map &map, uint64_t index) {
  return vx_load(map.dtype, map.values, index);
}

// The number of the first largest of `count` values; 0 if none is above -inf.
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

// ---- what decoders find ---------------------------------------------------------------------------------------------
//
// The arrays of what decoders find in a head's maps, and the way from the kept boxes to the output.
//
//   find      Lists the candidates of each segment. (find.cuh)
//   rank      Puts the best of them in order. (rank.cu)
//   make      Makes their boxes: decode.cu, center.cu.
//   suppress  Lists the boxes that are kept. (suppress.cu)
//   settle    Adds up the fates and tells the host the sizes.
//   write     Writes the tensors into the image of the output.
//
// The candidates have no boxes until they are ranked, so that memory for boxes follows from the ranks and not from the
// size of the maps.

// Of one job, as the kernels see it.
struct cuda_found {
  // What the decoder says.
  uint32_t tasks;                         // segments of a cloud
  uint32_t task_first[VX_MAX_TASKS + 1];  // of each task, and of the next cloud: the number of its first candidate
  uint32_t most_ranked;                   // candidates of a segment that are ranked at most
  uint32_t most_made;                     // boxes of a segment at most, as cuda_ranked_begin has them
  uint32_t values;                        // of a box
  bool some_left_out;                     // not all that are ranked become boxes: num_made says how many do
  uint32_t num_radii;                     // of the circles of the tasks, or one for all; 0: there are no circles
  float radii[VX_MAX_TASKS];
  struct cuda_map maps[VX_MAX_INPUTS];
  // Arrays on the device.
  struct cuda_segments segments;
  uint32_t *first;      // [segments]: place of each segment's keys; NULL if there is one task
  float *device_radii;  // [num_radii]
  uint64_t *keys;       // rank key and number of each candidate that is ranked, segment by segment
  uint32_t *num_found;  // [segments]: how many those are; zeros at first
  uint64_t *ranked;     // [cuda_ranked_room(most_ranked)]: the best of them; later, of those that have boxes
  uint32_t *num_made;   // [segments]: boxes that were made
  float *boxes;         // [cuda_ranked_room(most_made), values]: in the order of ranks
  int32_t *labels;      // of the boxes
  uint32_t *first_row;  // [segments]: of each segment in the output
  uint32_t *kept;       // as suppression has them
  uint32_t *num_kept;
};

// The output of a job whose maps are empty.
VX_WARN_UNUSED enum vx_status cuda_write_none(struct cuda_run *run, struct error *error);
// The parts of a job that rank and suppress.
struct cuda_found_parts {
  struct cuda_ranking ranking;
  struct cuda_suppression suppression;
};

// Gives all arrays their place and brings the inputs to the device, once the decoder has said its part. `nms`: of a
// segment's boxes; its pre_max is found->most_made.
VX_WARN_UNUSED enum vx_status cuda_prepare_found(struct cuda_run *run, const struct vx_nms *nms,
                                                 struct cuda_found *found, struct cuda_found_parts *parts,
                                                 struct error *error);
// All that comes after the boxes.
VX_WARN_UNUSED enum vx_status cuda_finish_found(struct cuda_run *run, const struct cuda_found *found,
                                                struct cuda_suppression *suppression, struct error *error);

#endif

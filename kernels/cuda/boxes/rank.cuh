// Ranks keys on a GPU, segment by segment. A segment is what has ranks of its own: a cloud, or a task of a cloud.
//
// Only enqueues work. The numbers of keys stay on the device; the host knows the room that each segment has.
#ifndef VOXELD_CUDA_RANK_CUH
#define VOXELD_CUDA_RANK_CUH

#include "kernels/cuda/base/memory.cuh"

// The segments' places in arrays that have room for whatever each may have.
struct cuda_segments {
  uint32_t count, largest;  // `largest`: room of the largest segment
  uint64_t room;            // of all segments
  const uint32_t *first;    // device, [count]: where a segment begins; NULL if each has room for `largest`
};

struct cuda_ranking {
  struct cuda_segments segments;
  const uint32_t *counts;  // [segments.count]: keys of each segment
  uint64_t *keys;    // [segments.room]: vx_rank_key << 32 | number in the segment, all distinct; their order changes
  uint32_t most;     // how many of a segment's keys, the least ones, get a rank
  uint64_t *ranked;  // [cuda_ranked_room]: out, rising; min(counts[i], most) of segment i
};

// Where a segment begins in an array that has room for the ranked alone: behind `most` of each segment before it, or
// behind their whole room, whichever is less. So no two segments share a place.
__host__ __device__ static inline uint64_t cuda_ranked_begin(const struct cuda_segments &segments, uint32_t most,
                                                             uint32_t segment) {
  uint64_t whole = segments.first == NULL ? (uint64_t)segment * segments.largest : segments.first[segment];
  uint64_t ranked = (uint64_t)segment * most;
  return ranked < whole ? ranked : whole;
}

static inline uint64_t cuda_ranked_room(const struct cuda_segments &segments, uint32_t most) {
  uint64_t ranked = (uint64_t)segments.count * most;
  return ranked < segments.room ? ranked : segments.room;
}

// Takes `ranked`. Runs twice, as all layouts do.
void cuda_take_ranking(struct cuda_ranking *ranking, struct cuda_arena *arena);
VX_WARN_UNUSED enum vx_status cuda_rank(const struct cuda_run *run, const struct cuda_ranking *ranking,
                                        struct vx_error *error);

#endif

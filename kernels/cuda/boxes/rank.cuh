// Ranks the keys of each segment on a GPU. Only enqueues work: the numbers of keys stay on the device.
#ifndef VOXELD_CUDA_RANK_CUH
#define VOXELD_CUDA_RANK_CUH

#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/boxes/segments.cuh"

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

#endif

// Segments: what has ranks of its own, a cloud or a task of a cloud. Their places in arrays, and how kernels share them
// among their blocks.
#ifndef VOXELD_CUDA_SEGMENTS_CUH
#define VOXELD_CUDA_SEGMENTS_CUH

#include "kernels/cuda/base/launch.cuh"

// An array over segments has room for whatever each may have; how much that is, only the device knows.
struct cuda_segments {
  uint32_t count, largest;  // `largest`: room of the largest segment
  uint64_t room;            // of all segments
  const uint32_t *first;    // device, [count]: where a segment begins; NULL if each has room for `largest`
};

__host__ __device__ static inline uint64_t cuda_segment_begin(const struct cuda_segments &segments, uint32_t segment) {
  return segments.first == NULL ? (uint64_t)segment * segments.largest : segments.first[segment];
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
  const volatile uint32_t *asked = &v.orders->stop;
  __syncthreads();
  if (threadIdx.x == 0) {
    stopped = *told == v.sequence || (asks && *asked == v.sequence);
    if (stopped) {
      *told = v.sequence;
    }
  }
  __syncthreads();
  return stopped;
}

#endif

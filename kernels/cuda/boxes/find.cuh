// Finds the candidates in a head's map of logits, in one pass, for both decoders.
//
// Threads compare the logits, in parts of 16 bytes, with the least logit of a candidate. Usually few reach it. A warp
// handles these hits one per thread at a time, and lists those of one segment with one atomic addition. So the lists
// are in no order; the ranks do not depend on it.
#ifndef VOXELD_CUDA_FIND_CUH
#define VOXELD_CUDA_FIND_CUH

#include <float.h>

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/number.cuh"
#include "kernels/cuda/boxes/boxes.cuh"
#include "kernels/rank.h"

enum { FIND_BLOCK = 256, FIND_AHEAD = 4, FIND_PART = 16 };

// What a decoder says about a logit that reaches the least logit.
struct cuda_finding {
  bool listed, invalid;
  bool waits;               // the candidate gets a rank only if its anchor does; until then it counts as over_pre_max
  uint32_t segment, first;  // first: where the segment's keys begin among all keys
  uint32_t number;          // distinct in the segment: the lower half of the key
  float logit;
};

// The range of logits, divided into parts that threads read.
struct find_range {
  uint64_t count;   // of the logits
  uint32_t before;  // logits before the first address that is a multiple of 16
  uint64_t parts;   // whole parts
  float least;      // least logit of a candidate; above -inf
};

// A head is a struct cuda_found with what else its decoder reads. It has a function
//   static __device__ struct cuda_finding cuda_judge(const head &, uint64_t at)
// which judges logit number `at` of the map.

// One bit per logit of a part: whether it reaches the least logit.
template <typename number> static __device__ uint32_t find_reaching(uint4 part, float least) {
  float logits[number::PER_PART];
  uint32_t reaching = 0;
  number::unpack(part, logits);
#pragma unroll
  for (int i = 0; i < number::PER_PART; i++) reaching |= (uint32_t)(logits[i] >= least) << i;
  return reaching;
}

// The same for the thread's parts, one after the other. Parts beyond the end are NaN, which never reaches `least`.
static __device__ inline uint32_t find_hits(const struct cuda_map &logits, const struct find_range &range,
                                            uint64_t part) {
  const uint4 *parts = (const uint4 *)((const char *)logits.values + range.before * vx_dtype_size(logits.dtype));
  uint4 bits[FIND_AHEAD];
#pragma unroll
  for (int i = 0; i < FIND_AHEAD; i++) {
    bits[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    if (part + i * FIND_BLOCK < range.parts) bits[i] = __ldcs(parts + part + i * FIND_BLOCK);
  }
  uint32_t hits = 0;
  cuda_with_float(logits.dtype, [&](auto number) {
    typedef decltype(number) type;
#pragma unroll
    for (int i = 0; i < FIND_AHEAD; i++) hits |= find_reaching<type>(bits[i], range.least) << (i * type::PER_PART);
  });
  return hits;
}

// Called by a whole warp. Adds each thread's finding, if it is listed, to the list of its segment.
static __device__ inline void find_list(const struct cuda_found &found, const struct cuda_finding &finding) {
  uint32_t lane = threadIdx.x % 32, left = __ballot_sync(~0u, finding.listed);
  while (left != 0) {  // usually once, since neighbours belong to the same segment
    int leader = __ffs(left) - 1;
    uint32_t segment = __shfl_sync(~0u, finding.segment, leader), begin = 0;
    bool own = finding.listed && finding.segment == segment;
    uint32_t peers = __ballot_sync(~0u, own);
    if ((int)lane == leader) begin = atomicAdd(&found.num_found[segment], __popc(peers));
    begin = __shfl_sync(~0u, begin, leader);
    if (own) {
      uint64_t place = (uint64_t)finding.first + begin + __popc(peers & ((1u << lane) - 1));
      found.keys[place] = (uint64_t)vx_rank_key(finding.logit) << 32 | finding.number;
    }
    left &= ~peers;
  }
}

// Of a thread's candidates.
struct find_counts {
  uint32_t invalid, waiting;
};

// Called by a whole warp. Handles its hits, one per thread at a time. `hits`: the bits of a thread's parts, which are
// FIND_BLOCK parts apart. Bit 0 stands for logit `at`.
template <typename head>
static __device__ void find_handle(const head &found, uint32_t hits, uint64_t at, struct find_counts *counts) {
  uint32_t per_part = cuda_per_part(found.maps[0].dtype);
  while (__any_sync(~0u, hits != 0)) {
    struct cuda_finding finding = {};
    if (hits != 0) {
      uint32_t bit = __ffs(hits) - 1;
      finding = cuda_judge(found, at + (uint64_t)(bit / per_part) * FIND_BLOCK * per_part + bit % per_part);
      hits &= hits - 1;
    }
    counts->invalid += finding.invalid;
    counts->waiting += finding.waits;
    find_list(found, finding);
  }
}

// Called by a whole warp. Handles the logits before the first part and after the last, fewer than the warp's threads.
template <typename head>
static __device__ void find_at_edges(const head &found, const struct find_range &range, struct find_counts *counts) {
  uint64_t behind = range.before + range.parts * cuda_per_part(found.maps[0].dtype), lane = threadIdx.x % 32;
  uint64_t at = lane < range.before ? lane : behind + (lane - range.before);
  bool reaches = at < range.count && cuda_map_value(found.maps[0], at) >= range.least;
  find_handle(found, reaches, at, counts);
}

// Called by a whole block. Writes where the keys of each segment begin, and the radii.
static __device__ inline void find_note_segments(const struct cuda_found &found) {
  for (uint32_t i = threadIdx.x; found.first && i < found.segments.count; i += FIND_BLOCK)
    found.first[i] = i / found.groups * found.group_first[found.groups] + found.group_first[i % found.groups];
  if (threadIdx.x < found.num_radii) found.device_radii[threadIdx.x] = found.radii[threadIdx.x];
}

template <typename head>
static __global__ void __launch_bounds__(FIND_BLOCK)
    find_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ head found,
                const __grid_constant__ struct find_range range) {
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  struct find_counts counts = {};
  const uint64_t chunk = FIND_BLOCK * FIND_AHEAD;
  for (uint64_t begin = blockIdx.x * chunk; begin < range.parts; begin += gridDim.x * chunk) {
    uint64_t part = begin + threadIdx.x;
    find_handle(found, find_hits(found.maps[0], range, part), range.before + part * cuda_per_part(found.maps[0].dtype),
                &counts);
  }
  if (blockIdx.x == 0 && threadIdx.x < 32) find_at_edges(found, range, &counts);
  cuda_let_next();
  if (blockIdx.x == gridDim.x - 1) find_note_segments(found);
  uint32_t invalid = cuda_warp_add(counts.invalid), waiting = cuda_warp_add(counts.waiting);
  if (threadIdx.x % 32 == 0 && invalid != 0) atomicAdd(&v.counters->invalid, invalid);
  if (threadIdx.x % 32 == 0 && waiting != 0) atomicAdd(&v.counters->over_pre_max, waiting);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
}

// Enqueues the pass over the job's first input. `least` comes from vx_least_logit.
template <typename head>
static inline enum vx_status cuda_find(const struct cuda_run *run, const head &found, float least,
                                       struct error *error) {
  const struct cuda_map *logits = &found.maps[0];
  uint32_t size = (uint32_t)vx_dtype_size(logits->dtype), beyond = (uint32_t)((uintptr_t)logits->values % FIND_PART);
  uint64_t before = beyond == 0 ? 0 : (FIND_PART - beyond) / size;
  struct find_range range = {};
  range.count = run->inputs[0].bytes / size;
  range.before = (uint32_t)(before < range.count ? before : range.count);
  range.parts = (range.count - range.before) / (FIND_PART / size);
  range.least = least < -FLT_MAX ? -FLT_MAX : least;
  unsigned blocks = cuda_looping_blocks(run, range.parts, FIND_BLOCK * FIND_AHEAD, 8);
  return cuda_launch("find_kernel", find_kernel<head>, blocks, FIND_BLOCK, 0, run, error, *run, found, range);
}

#endif

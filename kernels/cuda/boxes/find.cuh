// Finds the candidates of a head's map of logits, in one pass over it. Both decoders instantiate it.
//
// Each thread reads parts of 16 bytes and compares their logits with the least of a candidate. Mostly few reach it: a
// warp handles these one of each thread at a time, and adds those that get a rank to the lists of their segments, by
// one atomic addition for each segment. So the lists are in any order; the ranks are not.
#ifndef VOXELD_CUDA_FIND_CUH
#define VOXELD_CUDA_FIND_CUH

#include <float.h>
#include <string.h>

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/boxes/found.cuh"
#include "kernels/rank.h"

enum { FIND_BLOCK = 256, FIND_AHEAD = 4, FIND_PART = 16 };

// What a logit is that reaches the least.
struct cuda_finding {
  bool listed, invalid;
  uint32_t segment, first;  // first: place of the segment among all keys
  uint32_t number;          // in the segment
  float logit;
};

// What the later kernels read of the segments.
struct find_segments {
  uint32_t count, tasks, task_first[VX_MAX_TASKS + 1], num_radii;
  float radii[VX_MAX_TASKS];
  uint32_t *first;  // out, [count]; NULL if there is one task
  float *device_radii;
};

// The decoder of a head has a function cuda_finding cuda_judge(const head &, uint64_t at), which says what the logit at
// that place of the map is.
template <typename head> struct find_params {
  head judge;
  struct cuda_map logits;
  uint64_t count;   // of the logits
  uint32_t before;  // the parts: those logits lie before the first address that is a multiple of 16
  uint64_t parts;   // whole ones
  float least;      // more than -inf
  struct find_segments segments;
  uint64_t *keys;       // of all segments
  uint32_t *num_found;  // [segments], zeros before: how many are listed
  struct cuda_tally *tally;
};

static __device__ inline uint32_t find_per_part(const struct cuda_map &map) { return map.halves ? 8 : 4; }

// A bit for each logit of a part that reaches the least.
static __device__ inline uint32_t find_reaching(uint4 part, bool halves, float least) {
  const uint32_t words[4] = {part.x, part.y, part.z, part.w};
  uint32_t reaching = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    if (halves) {
      bool low = vx_half_to_float((uint16_t)(words[i] & 0xFFFF)) >= least;
      bool high = vx_half_to_float((uint16_t)(words[i] >> 16)) >= least;
      reaching |= ((uint32_t)low | (uint32_t)high << 1) << (2 * i);
    } else {
      reaching |= (uint32_t)(vx_bits_float(words[i]) >= least) << i;
    }
  }
  return reaching;
}

// The same for the thread's parts, one behind the other. Parts beyond the end are NaN, which does not reach it.
template <typename head> static __device__ uint32_t find_hits(const find_params<head> &p, uint64_t part) {
  const uint4 *parts = (const uint4 *)((const char *)p.logits.values + p.before * (p.logits.halves ? 2 : 4));
  uint4 bits[FIND_AHEAD];
#pragma unroll
  for (int i = 0; i < FIND_AHEAD; i++) {
    bits[i] = make_uint4(~0u, ~0u, ~0u, ~0u);
    if (part + i * FIND_BLOCK < p.parts) {
      bits[i] = __ldcs(parts + part + i * FIND_BLOCK);
    }
  }
  uint32_t hits = 0;
#pragma unroll
  for (int i = 0; i < FIND_AHEAD; i++) {
    hits |= find_reaching(bits[i], p.logits.halves, p.least) << (i * find_per_part(p.logits));
  }
  return hits;
}

// As a warp: each thread adds what it found, if that is to be listed, to the list of its segment.
template <typename head>
static __device__ void find_list(const find_params<head> &p, const struct cuda_finding &found) {
  uint32_t lane = threadIdx.x % 32, left = __ballot_sync(~0u, found.listed);
  while (left != 0) {  // mostly once, as neighbours are of the same segment
    int leader = __ffs(left) - 1;
    uint32_t segment = __shfl_sync(~0u, found.segment, leader), begin = 0;
    bool own = found.listed && found.segment == segment;
    uint32_t peers = __ballot_sync(~0u, own);
    if ((int)lane == leader) {
      begin = atomicAdd(&p.num_found[segment], __popc(peers));
    }
    begin = __shfl_sync(~0u, begin, leader);
    if (own) {
      uint64_t place = (uint64_t)found.first + begin + __popc(peers & ((1u << lane) - 1));
      p.keys[place] = (uint64_t)vx_rank_key(found.logit) << 32 | found.number;
    }
    left &= ~peers;
  }
}

// As a warp: handles its hits, one of each thread at a time. The bits are those of whole parts, FIND_BLOCK parts apart,
// the first of which begins at logit `at`. Returns how many of the thread's are invalid.
template <typename head>
static __device__ uint32_t find_handle(const find_params<head> &p, uint32_t hits, uint64_t at) {
  uint32_t per_part = find_per_part(p.logits), invalid = 0;
  while (__any_sync(~0u, hits != 0)) {
    struct cuda_finding found = {};
    if (hits != 0) {
      uint32_t bit = __ffs(hits) - 1;
      found = cuda_judge(p.judge, at + (uint64_t)(bit / per_part) * FIND_BLOCK * per_part + bit % per_part);
      hits &= hits - 1;
    }
    invalid += found.invalid;
    find_list(p, found);
  }
  return invalid;
}

// As a warp: the logits before the first part and behind the last, which are fewer than its threads.
template <typename head> static __device__ uint32_t find_at_edges(const find_params<head> &p) {
  uint64_t behind = p.before + p.parts * find_per_part(p.logits), lane = threadIdx.x % 32;
  uint64_t at = lane < p.before ? lane : behind + (lane - p.before);
  bool reaches = at < p.count && cuda_map_value(p.logits, at) >= p.least;
  return find_handle(p, reaches, at);
}

// As a block.
static __device__ inline void find_note_segments(const struct find_segments &p) {
  for (uint32_t i = threadIdx.x; p.first != NULL && i < p.count; i += FIND_BLOCK) {
    p.first[i] = i / p.tasks * p.task_first[p.tasks] + p.task_first[i % p.tasks];
  }
  if (threadIdx.x < p.num_radii) {
    p.device_radii[threadIdx.x] = p.radii[threadIdx.x];
  }
}

template <typename head>
static __global__ void __launch_bounds__(FIND_BLOCK) find_kernel(const __grid_constant__ find_params<head> p) {
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.tally->moments[CUDA_BEGUN] = cuda_now();
  }
  uint32_t invalid = 0;
  const uint64_t chunk = FIND_BLOCK * FIND_AHEAD;
  for (uint64_t begin = blockIdx.x * chunk; begin < p.parts; begin += gridDim.x * chunk) {
    uint64_t part = begin + threadIdx.x;
    invalid += find_handle(p, find_hits(p, part), p.before + part * find_per_part(p.logits));
  }
  if (blockIdx.x == 0 && threadIdx.x < 32) {
    invalid += find_at_edges(p);
  }
  cuda_let_next();
  if (blockIdx.x == gridDim.x - 1) {
    find_note_segments(p.segments);
  }
  invalid = cuda_warp_add(invalid);
  if (threadIdx.x % 32 == 0 && invalid != 0) {
    atomicAdd(&p.tally->invalid, invalid);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_ARRIVED], cuda_now());
  }
}

static inline struct find_segments find_segments_of(const struct cuda_found *found) {
  struct find_segments p = {};
  p.count = found->segments.count;
  p.tasks = found->tasks;
  memcpy(p.task_first, found->task_first, sizeof p.task_first);
  p.first = found->first;
  p.device_radii = found->device_radii;
  for (; found->radii != NULL && p.num_radii < found->num_radii; p.num_radii++) {
    p.radii[p.num_radii] = found->radii[p.num_radii];
  }
  return p;
}

// Enqueues the pass over the job's first input. `least` as vx_least_logit has it.
template <typename head>
static inline enum vx_status cuda_find(const struct cuda_found *found, const head &judge, float least,
                                       struct error *error) {
  const struct cuda_run *run = found->run;
  find_params<head> p = {};
  p.judge = judge;
  p.logits = found->maps[0];
  uint32_t size = p.logits.halves ? 2 : 4;
  p.count = run->inputs[0].bytes / size;
  uint32_t beyond = (uint32_t)((uintptr_t)p.logits.values % FIND_PART);
  uint64_t before = beyond == 0 ? 0 : (FIND_PART - beyond) / size;
  p.before = (uint32_t)(before < p.count ? before : p.count);
  p.parts = (p.count - p.before) / (FIND_PART / size);
  p.least = least < -FLT_MAX ? -FLT_MAX : least;
  p.segments = find_segments_of(found);
  p.keys = found->keys;
  p.num_found = found->num_found;
  p.tally = run->tally;
  unsigned blocks = cuda_looping_blocks(run, p.parts, FIND_BLOCK * FIND_AHEAD, 8);
  return cuda_launch("find_kernel", find_kernel<head>, blocks, FIND_BLOCK, 0, run, p, error);
}

#endif

// The sections of a lone cloud's points (struct vx_sections) as kernels see them, and their counts in the lane's
// control block, which the device publishes with the counters.
#ifndef VOXELD_CUDA_SECTIONS_CUH
#define VOXELD_CUDA_SECTIONS_CUH

#include "kernels/cuda/base/run.cuh"

static inline struct cuda_sections cuda_sections_of(const struct vx_sections *from) {
  struct cuda_sections sections = {};
  uint32_t end = 0;
  sections.count = from->count;
  for (int32_t i = 0; i + 1 < from->count; i++) {
    end += (uint32_t)from->points[i];
    sections.ends[i] = end;
  }
  return sections;
}

static inline void cuda_read_sections(const struct cuda_run *run) {
  const struct vx_sections *sections = &run->job->sections;
  const struct cuda_device_status *status = (const struct cuda_device_status *)run->lane->status;
  for (int32_t i = 0; i < sections->count; i++)
    for (int fate = 0; fate < CUDA_SECTION_FATES; fate++)
      sections->counts[i].fates[fate] = status->section_fates[i * CUDA_SECTION_FATES + fate];
}

// The section of a point: the number of sections that end at or before it.
__device__ static inline uint32_t cuda_section_of(const struct cuda_sections &sections, uint32_t point) {
  int32_t low = 0, high = sections.count - 1;
  while (low < high) {
    int32_t middle = (low + high) / 2;
    if (sections.ends[middle] <= point)
      low = middle + 1;
    else
      high = middle;
  }
  return (uint32_t)low;
}

// Called by the threads of `mask`, all of one warp. Adds 1 to each thread's counter. Threads with the same counter
// share one atomic operation.
__device__ static inline void cuda_add_together(uint32_t mask, uint32_t *counters, uint32_t which) {
  uint32_t peers = __match_any_sync(mask, which);
  if (threadIdx.x % 32 == (uint32_t)__ffs(peers) - 1) atomicAdd(&counters[which], (uint32_t)__popc(peers));
}

#endif

// How the device tells the host the sizes of a job.
#ifndef VOXELD_CUDA_PUBLISH_CUH
#define VOXELD_CUDA_PUBLISH_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/run.cuh"

static __device__ void publish_chain(const struct cuda_view &v) {
  const struct cuda_chain_counters *from = v.chain;
  struct cuda_chain_counters *to = &v.status->chain;
  const uint32_t *fates = from->fates[0], *of_sections = from->section_fates[0];
  uint32_t *told_fates = to->fates[0], *told_of_sections = to->section_fates[0];
  for (uint32_t i = threadIdx.x; i < sizeof from->fates / sizeof *fates; i += blockDim.x) told_fates[i] = fates[i];
  for (uint32_t i = threadIdx.x; i < v.section_words / CUDA_SECTION_FATES * VX_FATE_COUNT; i += blockDim.x)
    told_of_sections[i] = of_sections[i];
  for (int32_t i = (int32_t)threadIdx.x; i < v.clouds.count; i += blockDim.x) to->cloud_rows[i] = from->cloud_rows[i];
  if (threadIdx.x <= VX_MAX_STEPS) to->ended[threadIdx.x] = from->ended[threadIdx.x];
  if (threadIdx.x == 0) to->begun = from->begun;
  if (threadIdx.x == 0) to->deskew = from->deskew;
}

// A block calls it when all counts are final. The fence makes the host see the data before `sized`.
static __device__ void publish(const struct cuda_view &v, uint32_t sequence) {
  const uint32_t *from = (const uint32_t *)v.counters;
  uint32_t *to = (uint32_t *)&v.status->counters;
  for (uint32_t i = threadIdx.x; i < offsetof(struct cuda_counters, moments) / sizeof *to; i += blockDim.x)
    to[i] = from[i];
  for (int32_t i = (int32_t)threadIdx.x; i < v.clouds.count; i += blockDim.x)
    v.status->cloud_rows[i] = v.control->cloud_rows[i];
  for (uint32_t i = threadIdx.x; i < v.section_words; i += blockDim.x)
    v.status->section_fates[i] = v.control->section_fates[i];
  if (v.chain) publish_chain(v);
  if (threadIdx.x == 0) {
    for (int i = 0; i < CUDA_FOUND; i++) v.status->counters.moments[i] = v.counters->moments[i];
    v.status->counters.moments[CUDA_FOUND] = cuda_now();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    *(volatile uint32_t *)&v.status->sized = sequence;
  }
}

// Enqueues a kernel that publishes, for jobs whose gather does not.
VX_WARN_UNUSED enum vx_status cuda_publish(const struct cuda_run *run, uint32_t sequence, struct error *error);

#endif

// How the device tells the host the sizes of a job.
#ifndef VOXELD_CUDA_PUBLISH_CUH
#define VOXELD_CUDA_PUBLISH_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/run.cuh"

// A block calls it when all counts are final. The fence makes the host see the data before the word.
static __device__ void publish(const struct cuda_view &v, uint32_t sequence) {
  const uint32_t *from = (const uint32_t *)v.counters;
  uint32_t *to = (uint32_t *)&v.status->counters;
  for (uint32_t i = threadIdx.x; i < offsetof(struct cuda_counters, moments) / sizeof *to; i += blockDim.x)
    to[i] = from[i];
  for (int32_t i = (int32_t)threadIdx.x; i < v.clouds.count; i += blockDim.x)
    v.status->cloud_rows[i] = v.control->cloud_rows[i];
  for (uint32_t i = threadIdx.x; i < v.section_words; i += blockDim.x)
    v.status->section_fates[i] = v.control->section_fates[i];
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

// Enqueues a kernel that publishes, for jobs without a gather that does so.
VX_WARN_UNUSED enum vx_status cuda_publish(const struct cuda_run *run, uint32_t sequence, struct error *error);

#endif

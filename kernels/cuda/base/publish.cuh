// How the device tells the host the sizes of a job.
#ifndef VOXELD_CUDA_PUBLISH_CUH
#define VOXELD_CUDA_PUBLISH_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/sections.cuh"

struct publish_params {
  const struct cuda_tally *tally;
  const uint32_t *cloud_rows;  // [num_clouds]
  int32_t num_clouds;
  const uint32_t *section_fates;  // [section_words]
  uint32_t section_words;
  struct cuda_report *report;  // host
  uint32_t sequence;
};

static inline struct publish_params publish_params_of(const struct cuda_run *run, uint32_t sequence) {
  return {run->tally,
          run->control->cloud_rows,
          run->clouds.count,
          run->control->section_fates,
          cuda_section_words(run),
          run->lane->device_report,
          sequence};
}

// Called by a block when all counts are final. After the fence the host sees the data before the word.
static __device__ void publish(const struct publish_params &p) {
  const uint32_t *from = (const uint32_t *)p.tally;
  uint32_t *to = (uint32_t *)&p.report->tally;
  for (uint32_t i = threadIdx.x; i < offsetof(struct cuda_tally, moments) / sizeof *to; i += blockDim.x) {
    to[i] = from[i];
  }
  for (int32_t i = (int32_t)threadIdx.x; i < p.num_clouds; i += blockDim.x) {
    p.report->cloud_rows[i] = p.cloud_rows[i];
  }
  for (uint32_t i = threadIdx.x; i < p.section_words; i += blockDim.x) {
    p.report->section_fates[i] = p.section_fates[i];
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < CUDA_FOUND; i++) {
      p.report->tally.moments[i] = p.tally->moments[i];
    }
    p.report->tally.moments[CUDA_FOUND] = cuda_now();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    *(volatile uint32_t *)&p.report->sized = p.sequence;
  }
}

// Enqueues the same as a kernel of its own, if no gather does it.
VX_WARN_UNUSED enum vx_status cuda_publish(const struct cuda_run *run, uint32_t sequence, struct error *error);

#endif

// Kernels that move data into and out of the device's memory. The functions only enqueue work.
#ifndef VOXELD_CUDA_TRANSFER_CUH
#define VOXELD_CUDA_TRANSFER_CUH

#include "kernels/cuda/base/run.cuh"

// A part of the image, or the header of an answer, and its target: addresses as the device sees them. Any alignment.
struct cuda_part {
  const unsigned char *from;
  unsigned char *to;
  uint64_t bytes;
};
struct cuda_parts {
  int count;
  struct cuda_part part[VX_TENSOR_COUNT];
};

// Sends the parts and `head`, the header of the answer (job->head; 0 bytes: nothing to send). Tells the host that the
// job has ended.
VX_WARN_UNUSED enum vx_status cuda_send(const struct cuda_run *run, const struct cuda_parts *parts,
                                        const struct cuda_part *head, struct error *error);
// Removes what the job left in the lane's table and counters.
VX_WARN_UNUSED enum vx_status cuda_clean(const struct cuda_run *run, struct error *error);
// Copies `words` words. `from`: host memory as the device sees it.
VX_WARN_UNUSED enum vx_status cuda_fetch(const struct cuda_run *run, const void *from, void *to, uint32_t words,
                                         struct error *error);
VX_WARN_UNUSED enum vx_status cuda_fetch_clouds(const struct cuda_run *run, struct error *error);

#endif

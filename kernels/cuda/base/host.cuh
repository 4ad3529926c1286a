// The host's part in a job: reading memory, waiting, the output's memory. Runs on the thread that has the lane; memory
// is pinned on any thread.
#ifndef VOXELD_CUDA_HOST_CUH
#define VOXELD_CUDA_HOST_CUH

#include "kernels/cuda/base/run.cuh"

#define CUDA_EAGER_BYTES ((size_t)256 << 20)  // an image of up to this size is made before the host knows any count

// Host memory as the device sees it, or NULL if the device cannot read it.
VX_WARN_UNUSED enum vx_status cuda_see(const void *memory, size_t bytes, void **seen, struct error *error);
// The same for the job's points or output. A job over pinned memory is refused rather than have the driver copy it.
VX_WARN_UNUSED enum vx_status cuda_see_part(const struct cuda_run *run, const void *memory, size_t bytes, void **seen,
                                            struct error *error);

// See vx_backend.
VX_WARN_UNUSED enum vx_status cuda_pin(struct vx_device *device, void *memory, size_t bytes, struct error *error);
VX_WARN_UNUSED bool cuda_unpin(struct vx_device *device, void *memory);

size_t cuda_input_bytes(const struct cuda_run *run);
// Enqueues the copy of points that the device cannot read in place.
VX_WARN_UNUSED enum vx_status cuda_copy_source(const struct cuda_run *run, struct error *error);

// Waits until the device has written `sequence` or has failed. VX_STOPPED if the caller stopped the job.
VX_WARN_UNUSED enum vx_status cuda_await(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                                         struct error *error);

// Waits for the tally that the device publishes with `sequence`, and fills run->sizes.
VX_WARN_UNUSED enum vx_status cuda_read_tally(struct cuda_run *run, uint32_t sequence, struct error *error);

// Asks the caller for the output's memory, once job->counts are final. If run->resident, it only finds the layout.
VX_WARN_UNUSED enum vx_status cuda_take_output(struct cuda_run *run, struct error *error);
// The same for a job without rows: all that its output holds is 0.
VX_WARN_UNUSED enum vx_status cuda_take_zeros(struct cuda_run *run, struct error *error);
// Sends the image to that memory, unless it stays, cleans the lane, and waits for the end.
VX_WARN_UNUSED enum vx_status cuda_finish_output(const struct cuda_run *run, struct error *error);

#endif

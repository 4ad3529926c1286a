// The host's part of a job: beginning and end, reading memory, waiting, the output's memory. Runs on the thread that
// has the lane; cuda_pin and cuda_unpin, on any thread.
#ifndef VOXELD_CUDA_HOST_CUH
#define VOXELD_CUDA_HOST_CUH

#include "kernels/cuda/base/memory.cuh"

typedef enum vx_status cuda_operation(struct cuda_run *run, struct error *error);

// Runs the job. If `layout` is given, the caller is not asked for memory: the job's tensors stay in lane->image, as
// `layout` says, until the lane's next job. Fills the job's counts, row_counts and times. Does not trim the lane.
VX_WARN_UNUSED enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, cuda_operation *operation,
                                           struct vx_layout *layout, struct error *error);

// The sequence of the lane's next job that has rows.
uint32_t cuda_next_sequence(const struct vx_lane *lane);
struct cuda_run cuda_read_job(struct vx_lane *lane, struct vx_job *job);

#define CUDA_EAGER_BYTES ((size_t)256 << 20)  // images up to this size are made before the host knows any count

// Host memory as the device sees it; NULL if the device cannot read it.
VX_WARN_UNUSED enum vx_status cuda_see(const void *memory, size_t bytes, void **seen, struct error *error);
// The same for the job's points or output. Refuses the job if they lie in pinned memory that the device cannot read.
VX_WARN_UNUSED enum vx_status cuda_see_part(const struct cuda_run *run, const void *memory, size_t bytes, void **seen,
                                            struct error *error);

// See vx_backend.
VX_WARN_UNUSED enum vx_status cuda_pin(struct vx_device *device, void *memory, size_t bytes, struct error *error);
VX_WARN_UNUSED bool cuda_unpin(struct vx_device *device, void *memory);

size_t cuda_input_bytes(const struct cuda_run *run);
// Enqueues the copy of points that the device cannot read in place.
VX_WARN_UNUSED enum vx_status cuda_copy_source(const struct cuda_run *run, struct error *error);

// Inputs that are not points: tensors of any shape, read in place or as copies. Call cuda_see_inputs, then
// cuda_take_inputs each time memory is laid out, then cuda_copy_inputs.
//
// Fills run->inputs with the addresses of the inputs that the device can read in place.
VX_WARN_UNUSED enum vx_status cuda_see_inputs(struct cuda_run *run, struct error *error);
// Takes memory for the inputs that the device cannot read in place.
void cuda_take_inputs(struct cuda_run *run, struct cuda_arena *arena);
// Enqueues the copies of these inputs. Afterwards kernels read each input's `data`.
VX_WARN_UNUSED enum vx_status cuda_copy_inputs(struct cuda_run *run, struct error *error);

// Waits until the device has written `sequence` or has failed. VX_STOPPED if the caller stopped the job.
VX_WARN_UNUSED enum vx_status cuda_await(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                                         struct error *error);

// Waits for the counters that come with `sequence`, and fills run->sizes.
VX_WARN_UNUSED enum vx_status cuda_read_counters(struct cuda_run *run, uint32_t sequence, struct error *error);

// Asks the caller for the output's memory, once job->counts are final. If run->resident, it only computes the layout.
VX_WARN_UNUSED enum vx_status cuda_take_output(struct cuda_run *run, struct error *error);
// The same for a job without rows: its whole output is 0.
VX_WARN_UNUSED enum vx_status cuda_take_zeros(struct cuda_run *run, struct error *error);
// Sends the image to the output, unless the image stays on the device. Cleans the lane, and waits for the end.
VX_WARN_UNUSED enum vx_status cuda_finish_output(const struct cuda_run *run, struct error *error);

#endif

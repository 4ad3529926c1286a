// The host's part of a job: beginning and end, reading memory, waiting, the output's memory.
//
// Runs on the thread that has the lane. Memory may be pinned on any thread.
#ifndef VOXELD_CUDA_HOST_CUH
#define VOXELD_CUDA_HOST_CUH

#include "kernels/cuda/base/memory.cuh"

typedef enum vx_status cuda_operation(struct cuda_run *run, struct error *error);

// Runs the job. If `layout` is given, the caller is not asked for memory. The job's tensors then stay in lane->image,
// as `layout` says, until the lane's next job. The job's counts, row_counts and times are filled in any case. Does not
// trim the lane.
VX_WARN_UNUSED enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, cuda_operation *operation,
                                           struct vx_layout *layout, struct error *error);

// The sequence of the lane's next job that has rows.
uint32_t cuda_next_sequence(const struct vx_lane *lane);
// Reads everything that the stages need to know about the job.
struct cuda_run cuda_read_job(struct vx_lane *lane, struct vx_job *job);

#define CUDA_EAGER_BYTES ((size_t)256 << 20)  // images up to this size are made before the host knows any count

// Host memory as the device sees it; NULL if the device cannot read it.
VX_WARN_UNUSED enum vx_status cuda_see(const void *memory, size_t bytes, void **seen, struct error *error);
// The same for the job's points or output. If they lie in pinned memory that the device cannot read, the job is
// refused, because the driver would have to copy that memory.
VX_WARN_UNUSED enum vx_status cuda_see_part(const struct cuda_run *run, const void *memory, size_t bytes, void **seen,
                                            struct error *error);

// See vx_backend.
VX_WARN_UNUSED enum vx_status cuda_pin(struct vx_device *device, void *memory, size_t bytes, struct error *error);
VX_WARN_UNUSED bool cuda_unpin(struct vx_device *device, void *memory);

size_t cuda_input_bytes(const struct cuda_run *run);
// Enqueues the copy of points that the device cannot read in place.
VX_WARN_UNUSED enum vx_status cuda_copy_source(const struct cuda_run *run, struct error *error);

// Inputs of jobs whose first input is not points: tensors of any shape, which the device reads in place or as copies.
// The order of calls: cuda_see_inputs; cuda_take_inputs whenever the job's memory is laid out, which happens twice;
// cuda_copy_inputs.
//
// Fills run->inputs with the device address of each input that the device can read in place. Data is aligned as its
// type needs.
VX_WARN_UNUSED enum vx_status cuda_see_inputs(struct cuda_run *run, struct error *error);
// Takes memory for the inputs that the device cannot read in place.
void cuda_take_inputs(struct cuda_run *run, struct cuda_arena *arena);
// Enqueues the copies of these inputs. Afterwards kernels read each input's `data`.
VX_WARN_UNUSED enum vx_status cuda_copy_inputs(struct cuda_run *run, struct error *error);

// Waits until the device has written `sequence` or has failed. VX_STOPPED if the caller stopped the job.
VX_WARN_UNUSED enum vx_status cuda_await(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                                         struct error *error);

// Waits for the counters that the device publishes with `sequence`, and fills run->sizes.
VX_WARN_UNUSED enum vx_status cuda_read_counters(struct cuda_run *run, uint32_t sequence, struct error *error);

// Asks the caller for the output's memory, once job->counts are final. If run->resident, it only computes the layout.
VX_WARN_UNUSED enum vx_status cuda_take_output(struct cuda_run *run, struct error *error);
// The same for a job without rows: its whole output is 0.
VX_WARN_UNUSED enum vx_status cuda_take_zeros(struct cuda_run *run, struct error *error);
// Sends the image to the output, unless the image stays on the device. Cleans the lane, and waits for the end.
VX_WARN_UNUSED enum vx_status cuda_finish_output(const struct cuda_run *run, struct error *error);

#endif

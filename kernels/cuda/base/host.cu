// See host.cuh.
#include "kernels/cuda/base/host.cuh"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/cylinder.h"

// ---- memory ---------------------------------------------------------------------------------------------------------

enum vx_status cuda_see(const void *memory, size_t bytes, void **seen, struct error *error) {
  struct cudaPointerAttributes first = {}, last = {};
  CUDA_CALL(cudaPointerGetAttributes(&first, memory), error);
  CUDA_CALL(cudaPointerGetAttributes(&last, (const char *)memory + bytes - 1), error);
  bool all = first.type != cudaMemoryTypeUnregistered && last.type != cudaMemoryTypeUnregistered;
  // Two mappings that are adjacent on the host may not be adjacent on the device.
  bool whole = (const char *)last.devicePointer - (const char *)first.devicePointer == (ptrdiff_t)(bytes - 1);
  *seen = all && whole ? first.devicePointer : NULL;
  return VX_OK;
}

static enum vx_status see_part(const void *memory, size_t bytes, bool pinned, void **seen, struct error *error) {
  CUDA_TRY(cuda_see(memory, bytes, seen, error));
  if (!*seen && pinned) return vx_refuse(error, "the device cannot access memory that was pinned for it");
  return VX_OK;
}

enum vx_status cuda_see_part(const struct cuda_run *run, const void *memory, size_t bytes, void **seen,
                             struct error *error) {
  const struct cuda_chain *chain = run->lane ? run->lane->chain : NULL;
  *seen = (void *)memory;
  if (chain && (memory == chain->rows.points || memory == chain->cylinder)) return VX_OK;
  return see_part(memory, bytes, run->job->pinned, seen, error);
}

static enum vx_status register_pages(void *memory, size_t bytes, struct error *error) {
  void *seen = NULL;
  CUDA_CALL(cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped), error);
  CUDA_TRY(cuda_see(memory, bytes, &seen, error));
  if (seen != memory) return vx_refuse(error, "the device sees pinned memory at other addresses than the host");
  return VX_OK;
}

// An integrated GPU may cache the pages differently from the process that owns them.
enum vx_status cuda_pin(struct vx_device *device, void *memory, size_t bytes, struct error *error) {
  if (device->description.integrated) return vx_refuse(error, "an integrated GPU cannot pin memory of other processes");
  CUDA_CALL(cudaSetDevice(device->index), error);
  enum vx_status status = register_pages(memory, bytes, error);
  if (status != VX_OK) (void)!cuda_unpin(device, memory);
  return status;
}

bool cuda_unpin(struct vx_device *device, void *memory) {
  (void)cudaSetDevice(device->index);
  cudaError_t result = cudaHostUnregister(memory);
  (void)cudaGetLastError();
  return result == cudaSuccess || result == cudaErrorHostMemoryNotRegistered;
}

size_t cuda_input_bytes(const struct cuda_run *run) {
  return (size_t)run->clouds.num_points * (size_t)run->input.dims[1] * vx_dtype_size(run->dtype);
}

enum vx_status cuda_copy_source(const struct cuda_run *run, struct error *error) {
  if (run->source == run->source_copy) {
    CUDA_CALL(
        cudaMemcpyAsync(run->source_copy, run->input.data, cuda_input_bytes(run), cudaMemcpyHostToDevice, run->stream),
        error);
  }
  return VX_OK;
}

// ---- inputs that are not points -------------------------------------------------------------------------------------

static size_t bytes_of(const struct vx_input *input) {
  size_t bytes = input->rank == 0 ? 0 : vx_dtype_size(input->dtype);
  for (int i = 0; i < input->rank; i++)
    bytes *= (size_t)input->dims[i];  // cannot overflow, since the input is in memory
  return bytes;
}

enum vx_status cuda_see_inputs(struct cuda_run *run, struct error *error) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct vx_input *input = &run->job->inputs[i];
    struct cuda_input *seen = &run->inputs[i];
    *seen = {};
    seen->bytes = bytes_of(input);
    if (seen->bytes > 0) {
      void *data;
      CUDA_TRY(cuda_see(input->data, seen->bytes, &data, error));
      seen->data = data;
    }
  }
  return VX_OK;
}

static bool is_copied(const struct cuda_input *input) { return input->bytes > 0 && !input->data; }

void cuda_take_inputs(struct cuda_run *run, struct cuda_arena *arena) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    if (is_copied(&run->inputs[i])) {
      unsigned char *copy;
      take(arena, &copy, run->inputs[i].bytes);
      run->inputs[i].copy = copy;
    }
  }
}

enum vx_status cuda_copy_inputs(struct cuda_run *run, struct error *error) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    struct cuda_input *input = &run->inputs[i];
    if (is_copied(input)) {
      CUDA_CALL(
          cudaMemcpyAsync(input->copy, run->job->inputs[i].data, input->bytes, cudaMemcpyHostToDevice, run->stream),
          error);
      input->data = input->copy;
    }
  }
  return VX_OK;
}

// ---- waiting --------------------------------------------------------------------------------------------------------

// Sleeps between checks.
static enum vx_status await_long(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                                 bool *stopped, struct error *error) {
  enum { LOOK_NS = 50000, LOOKS_PER_QUERY = 200 };
  const struct timespec pause = {0, LOOK_NS};
  const struct vx_job *job = run->job;
  bool stoppable = job->caller && job->caller->stopped;
  for (int looks = 1; *word != sequence; looks++) {
    nanosleep(&pause, NULL);
    if (!*stopped && stoppable && job->caller->stopped(job->ctx)) {
      *stopped = true;
      *(volatile uint32_t *)&run->lane->commands->stop = run->sequence;
    }
    if (looks % LOOKS_PER_QUERY == 0) {
      cudaError_t result = cudaStreamQuery(run->stream);
      if (result != cudaErrorNotReady) return cuda_check(result, "cudaStreamQuery", error);
    }
  }
  return VX_OK;
}

// Spins, then yields, and after a millisecond sleeps. Before it sleeps it makes no driver call, which would hold the
// driver's lock and delay other lanes' launches. A kernel that fails never writes the word; then the driver reports the
// error.
enum vx_status cuda_await(const struct cuda_run *run, const volatile uint32_t *word, uint32_t sequence,
                          struct error *error) {
  enum { TIGHT_NS = 50000, POLL_NS = 1000000, SPINS = 64 };
  const struct vx_caller *caller = run->job ? run->job->caller : NULL;
  if (caller && caller->waiting) caller->waiting(run->job->ctx);
  int64_t began = clock_ns(), waited = 0;
  bool stopped = false;
  while (*word != sequence && waited < POLL_NS) {
    for (int i = 0; i < SPINS && *word != sequence; i++) clock_pause();
    waited = clock_ns() - began;
    if (waited > TIGHT_NS) sched_yield();
  }
  if (*word != sequence && run->slow) CUDA_TRY(await_long(run, word, sequence, &stopped, error));
  if (*word != sequence) CUDA_CALL(cudaStreamSynchronize(run->stream), error);
  if (*word != sequence) return vx_fail(error, VX_DEVICE_LOST, "the device finished its work without an answer");
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  CUDA_TRY(cuda_check(cudaPeekAtLastError(), "cudaPeekAtLastError", error));
  return stopped ? vx_end_stopped(run->job, error) : VX_OK;
}

enum vx_status cuda_read_counters(struct cuda_run *run, uint32_t sequence, struct error *error) {
  CUDA_TRY(cuda_await(run, &run->lane->status->sized, sequence, error));
  run->sizes = ((const struct cuda_device_status *)run->lane->status)->counters;
  if (cuda_deskews(run)) cuda_read_deskew(run->job, &run->sizes.deskew);
  if (cuda_is_folded(run->job)) cuda_read_folded(run->job, &run->sizes);
  if (run->sizes.unplaced != 0)
    return vx_fail(error, VX_DEVICE_LOST, "a table had no slot for %u keys", run->sizes.unplaced);
  return VX_OK;
}

// ---- output ---------------------------------------------------------------------------------------------------------

enum vx_status cuda_take_output(struct cuda_run *run, struct error *error) {
  if (run->resident) {
    struct vx_sizes sizes = vx_sizes_of(run->job);
    return vx_layout_of(run->tensors, &sizes, &run->layout, error);
  }
  if (run->lane->chain) cuda_read_chain(run->lane);
  CUDA_TRY(vx_take_output(run->job, &run->layout, &run->output, error));
  CUDA_CALL(cudaSetDevice(run->lane->device->index), error);  // allocating may have made another device current
  return VX_OK;
}

enum vx_status cuda_take_zeros(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_take_output(run, error));
  if (run->resident) {
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
    CUDA_CALL(cudaMemsetAsync(run->lane->image.memory, 0, run->layout.bytes, run->stream), error);
    return VX_OK;
  }
  memset(run->output, 0, run->layout.bytes);
  return VX_OK;
}

// copy_in lasts until the last points have arrived; earlier points are in the table by then. The driver's copies, of
// memory that the device cannot access, are in no stage.
static void read_times(const struct cuda_run *run) {
  uint64_t moments[CUDA_MOMENTS];
  for (int i = 0; i < CUDA_MOMENTS; i++) moments[i] = run->lane->status->counters.moments[i];
  int64_t *stage_ns = run->job->stage_ns;
  bool made_voxels = run->operation->makes_voxels;
  // Each stage begins when the one before it ends. A stage that the job does not have has no moment.
  const struct {
    enum cuda_moment moment;
    enum vx_stage stage;
  } steps[] = {{CUDA_GATHERED, run->gathers},
               {CUDA_ENCODED, VX_STAGE_ENCODER},
               {CUDA_SCATTERED, VX_STAGE_SCATTER},
               {CUDA_SAMPLED, VX_STAGE_SAMPLE}};
  uint64_t end = moments[made_voxels ? CUDA_FOUND : CUDA_ARRIVED];
  stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  if (made_voxels) stage_ns[VX_STAGE_VOXELIZE] = (int64_t)(end - moments[CUDA_ARRIVED]);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    if (moments[steps[i].moment] != 0) {
      stage_ns[steps[i].stage] = (int64_t)(moments[steps[i].moment] - end);
      end = moments[steps[i].moment];
    }
  }
  stage_ns[VX_STAGE_COPY_OUT] = (int64_t)(moments[CUDA_SENT] - moments[CUDA_SENDING]);
}

// Adds the part of the image at `offset` to the parts to send, or lets the driver copy it.
static enum vx_status bring(const struct cuda_run *run, size_t offset, size_t bytes, void *to, bool pinned,
                            struct cuda_parts *parts, struct error *error) {
  const unsigned char *from = run->lane->image.memory + offset;
  void *seen = NULL;
  CUDA_TRY(see_part(to, bytes, pinned, &seen, error));
  if (seen)
    parts->part[parts->count++] = {from, (unsigned char *)seen, bytes};
  else
    CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, run->stream), error);
  return VX_OK;
}

static enum vx_status bring_each(const struct cuda_run *run, struct cuda_parts *parts, struct error *error) {
  const struct vx_layout *layout = &run->layout;
  const struct vx_job *job = run->job;
  struct vx_layout block = *layout;
  vx_layout_pack(&block, job->output_ptrs);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) == 0 || layout->shape[tensor].bytes == 0) continue;
    bool placed = job->output_ptrs[tensor] != NULL;
    void *to = placed ? job->output_ptrs[tensor] : (unsigned char *)run->output + block.offset[tensor];
    CUDA_TRY(bring(run, layout->offset[tensor], layout->shape[tensor].bytes, to, placed || job->pinned, parts, error));
  }
  return VX_OK;
}

static enum vx_status bring_image(const struct cuda_run *run, struct cuda_parts *parts, struct error *error) {
  return run->job->output_ptrs ? bring_each(run, parts, error)
                               : bring(run, 0, run->layout.bytes, run->output, run->job->pinned, parts, error);
}

// Fills `head` with the header of the answer, which goes right before its block, or lets the driver copy it.
static enum vx_status bring_head(const struct cuda_run *run, struct cuda_part *head, struct error *error) {
  const struct vx_job *job = run->job;
  unsigned char *to = (unsigned char *)run->output - job->head_bytes;
  void *seen = NULL;
  CUDA_TRY(cuda_see(job->head, job->head_bytes, &seen, error));
  if (seen)
    *head = {(const unsigned char *)seen, to, job->head_bytes};
  else
    CUDA_CALL(cudaMemcpyAsync(to, job->head, job->head_bytes, cudaMemcpyHostToDevice, run->stream), error);
  return VX_OK;
}

enum vx_status cuda_finish_output(const struct cuda_run *run, struct error *error) {
  struct cuda_parts parts = {};
  struct cuda_part head = {};
  if (run->layout.bytes == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_write_chain(run, error));
  if (!run->resident) CUDA_TRY(bring_image(run, &parts, error));
  if (run->job->head) CUDA_TRY(bring_head(run, &head, error));
  CUDA_TRY(cuda_send(run, &parts, &head, error));
  CUDA_TRY(cuda_clean(run, error));
  CUDA_TRY(cuda_await(run, &run->lane->status->sent, run->sequence, error));
  read_times(run);
  return VX_OK;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

static void measure_clouds(struct cuda_run *run) {
  const struct vx_job *job = run->job;
  uint32_t *first = run->lane->commands->cloud_points;
  first[0] = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds && !run->operation->rows_carry_cloud_index; cloud++) {
    int32_t points = job->point_counts[cloud], most = run->params ? run->params->max_voxels : 0;
    first[cloud + 1] = first[cloud] + (uint32_t)points;
    run->row_capacity += (uint32_t)(points < most ? points : most);
    run->num_samples += run->sampling ? job->sample_counts[cloud] : 0;
  }
  run->clouds.count = job->num_clouds;
  run->clouds.num_points = (uint32_t)job->counts.received;
  run->clouds.max_rows = run->params ? (uint32_t)run->params->max_voxels : 0;
}

uint32_t cuda_next_sequence(const struct vx_lane *lane) { return lane->sequence + 4; }

struct cuda_run cuda_read_job(struct vx_lane *lane, struct vx_job *job) {
  struct cuda_run run = {};
  run.lane = lane;
  run.job = job;
  run.operation = &vx_operations[job->op];
  run.params = job->op == VX_VOXELIZE ? &job->params.voxelize : NULL;
  run.sampling = vx_sampling_of(job);
  run.stream = lane->stream;
  run.status = lane->status_on_device;
  run.commands = lane->commands_on_device;
  run.sections = cuda_sections_of(&job->sections);
  run.section_words = (uint32_t)job->sections.count * CUDA_SECTION_FATES;
  run.slow = lane->chain || run.sampling || (run.params && run.params->block_filter.enabled);
  run.tensors = job->tensors;
  run.input = job->inputs[VX_POINTS];
  if (lane->chain && run.operation->items == VX_POINT_ITEMS) run.chain = lane->chain->rows.counters;
  if (lane->chain && run.operation->items == VX_POINT_ITEMS)
    run.input = vx_points_of(VX_FLOAT32, run.input.dims[0], (int32_t)run.input.dims[1], lane->chain->rows.points);
  if (lane->chain && lane->chain->cylinder)
    run.input = vx_points_of(VX_FLOAT32, run.input.dims[0], (int32_t)run.input.dims[1] + VX_CYLINDER_EXTRA,
                             lane->chain->cylinder);
  run.dtype = run.input.dtype;
  run.columns = (uint32_t)run.input.dims[1];
  if (cuda_is_folded(job) && job->params.voxelize.coordinates == VX_CYLINDER) {
    run.arriving.columns = run.columns;
    run.columns += VX_CYLINDER_EXTRA;
  }
  measure_clouds(&run);
  return run;
}

enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, cuda_operation *operation,
                            struct vx_layout *layout, struct error *error) {
  CUDA_TRY(vx_begin_job(job, error));
  struct cuda_run run = cuda_read_job(lane, job);
  run.resident = layout != NULL;
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  if (run.clouds.num_points > 0)
    lane->sequence = cuda_next_sequence(lane);  // selects the counters that the previous job has cleared
  run.sequence = lane->sequence;
  enum vx_status status = operation(&run, error);
  if (status != VX_OK) {
    // The caller takes its memory back after this, so no copy from or to that memory may still run.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
    lane->clean = false;  // a job that ends between its kernels leaves cells in the table
    return status;
  }
  if (run.clouds.num_points > 0) lane->clean = true;
  if (run.resident) *layout = run.layout;
  return VX_OK;
}

// See deskew.cuh.
#include "kernels/cuda/base/deskew.cuh"

#include <string.h>

#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/transfer.cuh"

static void lay_out(const struct vx_job *job, bool seen, struct cuda_arena *arena, float **times,
                    struct vx_segment **segments) {
  *times = NULL;
  *segments = NULL;
  if (!seen) take(arena, times, (uint64_t)job->counts.received);
  if (job->deskew->motion->count > DESKEW_FEW) take(arena, segments, (uint64_t)job->deskew->motion->count);
}

static enum vx_status bring_segments(const struct cuda_run *run, struct vx_segment *to, struct error *error) {
  const struct vx_motion *motion = run->job->deskew->motion;
  memcpy(run->lane->commands->segments, motion->segments, (size_t)motion->count * sizeof *to);
  return cuda_fetch(run, run->commands->segments, to, (uint32_t)motion->count * DESKEW_WORDS, error);
}

enum vx_status cuda_plan_deskew(const struct cuda_run *run, struct cuda_deskew_counts *counts,
                                struct cuda_deskew *deskew, struct error *error) {
  const struct vx_deskew *asked = run->job->deskew;
  const struct vx_motion *motion = asked->motion;
  struct cuda_memory *block = &run->lane->deskew;
  struct cuda_arena measured = {}, arena = {};
  size_t bytes = (size_t)run->clouds.num_points * sizeof *asked->times;
  float *times;
  struct vx_segment *segments;
  void *seen;
  CUDA_TRY(cuda_see(asked->times, bytes, &seen, error));
  lay_out(run->job, seen != NULL, &measured, &times, &segments);
  CUDA_TRY(cuda_reserve(run->lane, block, measured.used, error));
  arena.memory = block->memory;
  lay_out(run->job, seen != NULL, &arena, &times, &segments);
  *deskew = {seen ? (const float *)seen : times, segments, motion->count, motion->first, motion->last, counts, {}};
  if (segments) CUDA_TRY(bring_segments(run, segments, error));
  for (int32_t i = 0; i < motion->count && !segments; i++) deskew->few[i] = motion->segments[i];
  if (seen) return VX_OK;
  CUDA_CALL(cudaMemcpyAsync(times, asked->times, bytes, cudaMemcpyHostToDevice, run->stream), error);
  return VX_OK;
}

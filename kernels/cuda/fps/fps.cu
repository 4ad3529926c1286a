// Sampling on a GPU. cuda_sample_points is a job that only samples; jobs that make voxels end with cuda_fps_*.
#include "kernels/cuda/fps/fps.cuh"

#include <stdio.h>

#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/tensors.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/samples.h"

enum { BLOCK = 256 };

// ---- memory ---------------------------------------------------------------------------------------------------------

static void lay_out(struct cuda_run *run, struct cuda_arena *arena) {
  struct cuda_fps *fps = &run->fps;
  uint64_t rows = fps->num_rows, clouds = (uint64_t)run->clouds.count;
  take(arena, &fps->points, rows * run->columns);
  take(arena, &fps->clouds, clouds);
  take(arena, &fps->boxes, clouds);
  take(arena, &fps->keys, rows);
  take(arena, &fps->sorted_keys, rows);
  take(arena, &fps->ids, rows);
  take(arena, &fps->sorted_ids, rows);
  take(arena, &fps->places, rows + FPS_BUCKET);  // the last bucket is read whole
  take(arena, &fps->far_distances, rows);
  take(arena, &fps->indices, fps->num_samples);
  take(arena, &fps->distances, fps->num_samples);
  unsigned char *cub;
  take(arena, &cub, run->fps_cub_bytes);
  run->fps_cub = cub;
}

void cuda_fps_measure(struct cuda_run *run, const int32_t *rows) {
  struct cuda_fps *fps = &run->fps;
  fps->num_rows = fps->num_samples = fps->largest_cloud = 0;
  for (int32_t i = 0; i < run->clouds.count; i++) {
    int32_t samples = min(run->job->sample_counts[i], rows[i]);  // a job with more samples is refused
    run->lane->commands->fps_clouds[i] = {fps->num_rows, (uint32_t)rows[i], (uint32_t)samples, fps->num_samples};
    fps->num_rows += (uint32_t)rows[i];
    fps->num_samples += (uint32_t)samples;
    fps->largest_cloud = max(fps->largest_cloud, (uint32_t)rows[i]);
  }
}

enum vx_status cuda_fps_reserve(struct cuda_run *run, const int32_t *rows, struct error *error) {
  cuda_fps_measure(run, rows);
  CUDA_TRY(cuda_fps_measure_sort(run, &run->fps_cub_bytes, error));
  struct cuda_arena measured = {}, arena = {};
  lay_out(run, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->sampling, measured.used, error));
  arena.memory = run->lane->sampling.memory;
  lay_out(run, &arena);
  run->fps.source = run->fps.points;  // means are already in place
  run->fps.columns = run->columns;
  run->fps.start = (uint32_t)run->sampling->start;
  return VX_OK;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

typedef struct cuda_tensors<VX_SAMPLED_INDICES, VX_SAMPLED_DISTANCES> sampled_tensors;

static __device__ uint32_t cloud_of_sample(const struct cuda_fps &fps, uint32_t num_clouds, uint32_t sample) {
  uint32_t low = 0, high = num_clouds;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (fps.clouds[middle].first_sample <= sample)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static __global__ void __launch_bounds__(BLOCK)
    fps_write_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_fps fps,
                     const __grid_constant__ sampled_tensors tensors) {
  cuda_wait();
  if (blockIdx.x == 0) tensors.zero_gaps(threadIdx.x);
  uint32_t step = gridDim.x * BLOCK;
  int32_t *indices = tensors.of<int32_t>(VX_SAMPLED_INDICES);
  float *distances = tensors.of<float>(VX_SAMPLED_DISTANCES), *points = tensors.of<float>(VX_SAMPLED_POINTS);
  for (uint64_t sample = blockIdx.x * BLOCK + threadIdx.x; sample < fps.num_samples; sample += step) {
    if (indices) indices[sample] = fps.indices[sample];
    if (distances) distances[sample] = sqrtf(fps.distances[sample]);
  }
  uint64_t values = points ? (uint64_t)fps.num_samples * fps.columns : 0;
  for (uint64_t i = blockIdx.x * BLOCK + threadIdx.x; i < values; i += step) {
    uint32_t sample = (uint32_t)(i / fps.columns), column = (uint32_t)(i % fps.columns);
    struct cuda_fps_cloud cloud = fps.clouds[cloud_of_sample(fps, (uint32_t)v.clouds.count, sample)];
    uint32_t index = (uint32_t)fps.indices[sample];
    // If the job was stopped, some samples were never chosen.
    if (index < cloud.num_rows) points[i] = fps.points[((uint64_t)cloud.first_row + index) * fps.columns + column];
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_SAMPLED], cuda_now());
}

enum vx_status cuda_fps_write(const struct cuda_run *run, struct error *error) {
  unsigned blocks = cuda_looping_blocks(run, (uint64_t)run->fps.num_samples * run->columns, BLOCK, 2);
  return cuda_launch("fps_write_kernel", fps_write_kernel, blocks, BLOCK, 0, run, error, *run, run->fps,
                     cuda_tensors_of<VX_SAMPLED_INDICES, VX_SAMPLED_DISTANCES>(run));
}

// ---- candidates -----------------------------------------------------------------------------------------------------

enum vx_status cuda_fps_check(struct cuda_run *run, struct error *error) {
  struct vx_job *job = run->job;
  const struct cuda_device_status *status = (const struct cuda_device_status *)run->lane->status;
  CUDA_TRY(cuda_await(run, &run->lane->status->sized, run->sequence + 2, error));
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    CUDA_TRY(vx_check_candidates(job, cloud, status->cloud_rows[cloud], error));
  return VX_OK;
}

// ---- a job that samples points --------------------------------------------------------------------------------------

static enum vx_status find_candidates(struct cuda_run *run, struct error *error) {
  struct vx_counts *counts = &run->job->counts;
  CUDA_TRY(cuda_copy_source(run, error));
  CUDA_TRY(cuda_fps_sort(run, error));
  CUDA_TRY(cuda_fps_check(run, error));
  run->sizes = ((const struct cuda_device_status *)run->lane->status)->counters;
  counts->kept = run->sizes.kept;
  counts->not_finite = run->sizes.not_finite;
  return VX_OK;
}

// If the device cannot read the points in place, finds room for a copy: float32 points go to fps.points, float16 points
// to lane->sorting.
static enum vx_status take_source(struct cuda_run *run, struct error *error) {
  void *source;
  CUDA_TRY(cuda_see_part(run, run->input.data, cuda_input_bytes(run), &source, error));
  run->source = source;
  if (!source) {
    run->source_copy = run->fps.points;
    if (vx_is_narrow(run->dtype)) {
      CUDA_TRY(cuda_reserve(run->lane, &run->lane->sorting, cuda_input_bytes(run), error));
      run->source_copy = run->lane->sorting.memory;
    }
    run->source = run->source_copy;
  }
  run->fps.source = run->source;
  run->fps.dtype = run->dtype;
  run->fps.of_points = true;
  run->fps.row_of = vx_starts_at_rank(run->job) ? run->lane->chain->row_of : NULL;
  return VX_OK;
}

enum vx_status cuda_sample_points(struct cuda_run *run, struct error *error) {
  CUDA_TRY(vx_begin_samples(run->job, run->job->point_counts, error));
  if (run->clouds.num_points == 0) return run->tensors == 0 ? VX_OK : cuda_take_output(run, error);
  CUDA_TRY(cuda_fps_reserve(run, run->job->point_counts, error));
  CUDA_TRY(take_source(run, error));
  CUDA_TRY(cuda_prepare_control(run, error));
  CUDA_TRY(find_candidates(run, error));
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
  CUDA_TRY(cuda_fps_sample(run, error));
  CUDA_TRY(cuda_fps_write(run, error));
  return cuda_finish_output(run, error);
}

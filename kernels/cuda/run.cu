// The CUDA backend's jobs: what all of them begin and end with. Runs on the thread that has the lane.
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/run.cuh"

static enum vx_status measure_clouds(struct cuda_run *run, struct vx_error *error) {
  int64_t num_points = 0, row_capacity = 0;
  bool sampled = run->params->sampling.from != VX_SAMPLE_NONE;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t points = run->job->point_counts[cloud], most = run->params->max_voxels;
    run->lane->orders->cloud_points[cloud] = (uint32_t)num_points;
    num_points += points;
    row_capacity += points < most ? points : most;
    run->num_samples += sampled ? run->job->sample_counts[cloud] : 0;
    if (num_points > VX_MAX_POINTS) {
      snprintf(error->text, sizeof error->text, "more than %lld points are too many to be numbered",
               (long long)VX_MAX_POINTS);
      return VX_REFUSED;
    }
  }
  run->lane->orders->cloud_points[run->job->num_clouds] = (uint32_t)num_points;
  run->num_points = (uint32_t)num_points;
  run->row_capacity = (uint32_t)row_capacity;
  run->clouds.count = run->job->num_clouds;
  run->clouds.num_points = run->num_points;
  run->clouds.max_rows = (uint32_t)run->params->max_voxels;
  return VX_OK;
}

enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  struct cuda_run run = {};
  run.lane = lane;
  run.job = job;
  run.params = &job->params;
  run.stream = lane->stream;
  run.columns = (uint32_t)job->params.num_features;
  memset(&job->counts, 0, sizeof job->counts);
  memset(job->stage_ns, 0, sizeof job->stage_ns);
  memset(job->voxel_counts, 0, (size_t)job->num_clouds * sizeof *job->voxel_counts);
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  CUDA_TRY(measure_clouds(&run, error));
  job->counts.received = run.num_points;
  if (run.num_points > 0) {
    lane->sequence += 4;  // what takes a turn with the lane's tallies cleans up after itself
  }
  bool samples_alone = job->params.sampling.from == VX_SAMPLE_POINTS;
  enum vx_status status = samples_alone ? cuda_sample_points(&run, error) : cuda_voxelize(&run, error);
  if (status != VX_OK) {
    // The caller takes its memory back after this: nothing may still be copying from or to it.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
    lane->clean = false;  // a job that ended between its kernels leaves cells in the table
    return status;
  }
  if (run.num_points > 0) {
    lane->clean = true;
  }
  return cuda_trim(lane, error);
}

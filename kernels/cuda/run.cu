// The CUDA backend's jobs: what all of them begin and end with. Runs on the thread that has the lane.
#include "kernels/cuda/run.cuh"

static enum vx_status (*const operations[VX_OPS])(struct cuda_run *run, struct vx_error *error) = {
    /* VX_VOXELIZE */ cuda_voxelize,
    /* VX_FPS */ cuda_sample_points,
    /* VX_TRANSFORM */ cuda_transform,
};

bool cuda_runs(enum vx_op op) { return operations[op] != NULL; }

static void measure_clouds(struct cuda_run *run) {
  const struct vx_job *job = run->job;
  uint32_t *first = run->lane->orders->cloud_points;
  first[0] = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    int32_t points = job->point_counts[cloud], most = run->params == NULL ? 0 : run->params->max_voxels;
    first[cloud + 1] = first[cloud] + (uint32_t)points;
    run->row_capacity += (uint32_t)(points < most ? points : most);
    run->num_samples += run->sampling == NULL ? 0 : job->sample_counts[cloud];
  }
  run->num_points = first[job->num_clouds];
  run->clouds.count = job->num_clouds;
  run->clouds.num_points = run->num_points;
  run->clouds.max_rows = run->params == NULL ? 0 : (uint32_t)run->params->max_voxels;
}

// All that the stages ask of the job.
static struct cuda_run read_job(struct vx_lane *lane, struct vx_job *job) {
  struct cuda_run run = {};
  run.lane = lane;
  run.job = job;
  run.operation = vx_operation_of(job->op);
  run.params = run.operation->makes_voxels ? &job->params.voxelize : NULL;
  run.sampling = vx_sampling_of(job);
  run.stream = lane->stream;
  run.tensors = job->tensors;
  run.halves = job->inputs[VX_POINTS].dtype == VX_FLOAT16;
  run.columns = (uint32_t)job->inputs[VX_POINTS].dims[1];
  measure_clouds(&run);
  return run;
}

enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  CUDA_TRY(vx_begin_job(job, error));
  struct cuda_run run = read_job(lane, job);
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  if (run.num_points > 0) {
    lane->sequence += 4;  // what takes a turn with the lane's tallies cleans up after itself
  }
  enum vx_status status = operations[job->op](&run, error);
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

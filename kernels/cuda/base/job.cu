// See job.cuh.
#include "kernels/cuda/base/job.cuh"

#include "kernels/cuda/base/sections.cuh"

static void measure_clouds(struct cuda_run *run) {
  const struct vx_job *job = run->job;
  uint32_t *first = run->lane->orders->cloud_points;
  first[0] = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds && !run->operation->mixed; cloud++) {
    int32_t points = job->point_counts[cloud], most = run->params == NULL ? 0 : run->params->max_voxels;
    first[cloud + 1] = first[cloud] + (uint32_t)points;
    run->row_capacity += (uint32_t)(points < most ? points : most);
    run->num_samples += run->sampling == NULL ? 0 : job->sample_counts[cloud];
  }
  run->clouds.count = job->num_clouds;
  run->clouds.num_points = (uint32_t)job->counts.received;
  run->clouds.max_rows = run->params == NULL ? 0 : (uint32_t)run->params->max_voxels;
}

// Reads all that the stages need to know of the job.
static struct cuda_run read_job(struct vx_lane *lane, struct vx_job *job) {
  struct cuda_run run = {};
  run.lane = lane;
  run.job = job;
  run.operation = vx_operation_of(job->op);
  run.params = job->op == VX_VOXELIZE ? &job->params.voxelize : NULL;
  run.sampling = vx_sampling_of(job);
  run.stream = lane->stream;
  run.report = lane->device_report;
  run.orders = lane->device_orders;
  run.sections = cuda_sections_of(&job->sections);
  run.section_words = (uint32_t)job->sections.count * CUDA_SECTION_FATES;
  run.long_word = run.sampling == NULL ? NULL : &lane->report->sent;
  run.tensors = job->tensors;
  run.dtype = job->inputs[VX_POINTS].dtype;
  run.columns = (uint32_t)job->inputs[VX_POINTS].dims[1];
  measure_clouds(&run);
  return run;
}

enum vx_status cuda_run_job(struct vx_lane *lane, struct vx_job *job, cuda_operation *operation,
                            struct vx_layout *layout, struct error *error) {
  CUDA_TRY(vx_begin_job(job, error));
  struct cuda_run run = read_job(lane, job);
  run.resident = layout != NULL;
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  if (run.clouds.num_points > 0) {
    lane->sequence += 4;  // the job takes the lane's other tally, and cleans up after itself
  }
  run.sequence = lane->sequence;
  enum vx_status status = operation(&run, error);
  if (status != VX_OK) {
    // The caller then takes its memory back, so no copy from or to it may still run.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
    lane->clean = false;  // a job that ends between its kernels leaves cells in the table
    return status;
  }
  if (run.clouds.num_points > 0) {
    lane->clean = true;
  }
  if (run.resident) {
    *layout = run.layout;
  }
  return VX_OK;
}

// See small.h.
#include "server/jobs/small.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/backends.h"
#include "server/jobs/run.h"

// Writing MOST_OUTPUT_BYTES takes about 20 us; a GPU takes 0.1 ms for MOST_GPU_BYTES. Values in columns beyond
// MOST_COLUMNS, or converted from or to float16, may be subnormal, which makes processors slow.
enum { MOST_OUTPUT_BYTES = 128 << 10, MOST_COLUMNS = 5, MOST_GPU_BYTES = 8 << 20 };

// ---- lanes ----------------------------------------------------------------------------------------------------------

bool small_start(struct small *small, const struct options *options, const struct devices *devices,
                 struct error *error) {
  *small = (struct small){.most_points = options->small_job_points};
  if (small->most_points == 0) return true;
  small->lane = calloc((size_t)options->io_threads, sizeof *small->lane);
  error_set(error, "out of memory");
  for (; small->lane && small->count < options->io_threads; small->count++)
    if (vx_cpu_backend.lane_open(devices->cpu.handle, VX_LANE_QUICK, &small->lane[small->count].lane, error) != VX_OK)
      break;
  if (small->count == options->io_threads) return true;
  small_end(small);
  return error_prefix(error, "lanes for small jobs: ");
}

void small_end(struct small *small) {
  for (int64_t i = 0; i < small->count; i++) vx_cpu_backend.lane_close(small->lane[i].lane);
  free(small->lane);
}

// NULL: all are taken.
static struct small_lane *take_lane(struct small *small) {
  for (int64_t i = 0; i < small->count; i++)
    if (!atomic_exchange(&small->lane[i].taken, true)) return &small->lane[i];
  return NULL;
}

// ---- which jobs -----------------------------------------------------------------------------------------------------

// Whether only the points and the output decide the time of a run.
static bool is_plain(const struct job_request *asked) {
  const struct vx_voxelize *params = &asked->job.params.voxelize;
  return asked->job.op == VX_VOXELIZE && asked->chain.count == 0 && !asked->time.field[0] &&
         !params->block_filter.enabled && params->encoder.num_layers == 0 && asked->num_features <= MOST_COLUMNS &&
         !job_request_widens(asked) && asked->dtype == VX_FLOAT32 && params->feature_dtype == VX_FLOAT32;
}

// Whether the job is plain and quick, its body is raw rows, neither body nor answer is compressed, and the request has
// no stream, no `latest` and is not KServe's.
static bool is_direct(const struct job *job) {
  const struct job_request *asked = &job->asked;
  return !job->spec.make && job->spec.coding == CODING_NONE && asked->format == FORMAT_RAW && !job->infer &&
         !asked->stream.name[0] && !asked->latest[0] && job->spec.answer_coding == CODING_NONE && is_plain(asked) &&
         job_lane_use(job) == VX_LANE_QUICK;
}

// Assumes a voxel for each point.
static bool has_small_output(const struct job *job) {
  struct vx_layout layout;
  struct error error;
  return job_layout(job, job->asked.job.inputs[VX_POINTS].dims[0], &layout, &error) == VX_OK &&
         layout.bytes <= MOST_OUTPUT_BYTES;
}

static bool is_small(const struct small *small, const struct job *job) {
  const struct job_request *asked = &job->asked;
  return is_direct(job) && asked->job.num_clouds == 1 && asked->job.inputs[VX_POINTS].dims[0] <= small->most_points &&
         !asked->points_region.name[0] && !asked->output_region.name[0] && has_small_output(job);
}

bool small_run(struct small *small, struct job *job) {
  struct small_lane *lane = is_small(small, job) ? take_lane(small) : NULL;
  if (!lane) return false;
  const struct lanes lanes = {.on_cpu = lane->lane, .alone = true};
  enum job_step step = job_run(job, &lanes, VX_LANE_QUICK);
  assert(step == JOB_RAN);  // a small job has no stream, and its headers determine its lanes
  (void)step;
  atomic_store(&lane->taken, false);
  atomic_fetch_add(&small->run, 1);
  return true;
}

bool small_run_on_gpu(struct small *small, struct workers *workers, struct job *job) {
  const struct region_ref *region = &job->asked.points_region;
  uint64_t bytes = region->name[0] ? region->bytes : (uint64_t)job->held.body_bytes;
  bool runs = is_direct(job) && bytes <= MOST_GPU_BYTES && workers_run(workers, job);
  if (runs) atomic_fetch_add(&small->run, 1);
  return runs;
}

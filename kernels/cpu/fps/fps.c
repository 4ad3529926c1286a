// See fps.h.
#include "kernels/cpu/fps/fps.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "kernels/parallel_for.h"
#include "kernels/samples.h"

// ---- the clouds of a job --------------------------------------------------------------------------------------------

static void lay_out_desk(struct cpu_fps_desk *desk, struct cpu_arena *arena, const struct vx_job *job, int32_t most) {
  uint64_t most_samples = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    // A cloud with fewer rows than samples is refused later.
    int32_t samples = job->sample_counts[cloud] < most ? job->sample_counts[cloud] : most;
    most_samples = (uint64_t)samples > most_samples ? (uint64_t)samples : most_samples;
  }
  desk->indices = cpu_arena_take(arena, most_samples, sizeof *desk->indices);
  desk->distances = cpu_arena_take(arena, most_samples, sizeof *desk->distances);
  cpu_sampler_lay_out(&desk->sampler, arena, most);
}

void cpu_fps_lay_out(struct cpu_fps *fps, struct cpu_arena *arena, struct vx_job *job, int32_t most) {
  fps->job = job;
  fps->most = most;
  fps->clouds = cpu_arena_take(arena, (uint64_t)job->num_clouds, sizeof *fps->clouds);
  lay_out_desk(&fps->desk, arena, job, most);
}

// Counts the candidates. *start becomes the row of the first candidate numbered *start or above, else of the first.
// `ranked`: numbers count candidates, else rows.
static int32_t find_candidates(struct vx_stop *stop, const float *rows, int32_t columns, int32_t count, bool ranked,
                               int32_t *start) {
  int32_t candidates = 0, first = -1, first_from_start = -1;
  VX_EACH_ROW(stop, i, 0, count) {
    const float *row = rows + i * columns;
    if (!vx_are_finite(row[0], row[1], row[2])) continue;
    int64_t number = ranked ? candidates : i;
    candidates++;
    first = first < 0 ? (int32_t)i : first;
    first_from_start = first_from_start < 0 && number >= *start ? (int32_t)i : first_from_start;
  }
  *start = first_from_start < 0 ? first : first_from_start;
  return candidates;
}

enum vx_status cpu_fps_prepare(struct cpu_fps *fps, const float *rows, const int32_t *counts, struct error *error) {
  int64_t began = clock_ns();
  struct vx_job *job = fps->job;
  fps->columns = (int32_t)job->inputs[VX_POINTS].dims[1];
  fps->rows = rows;
  fps->counts = counts;
  int64_t candidates = 0, row = 0, sample = 0;
  enum vx_status status = VX_OK;
  for (int32_t number = 0; status == VX_OK && number < job->num_clouds; number++) {
    struct cpu_fps_cloud *cloud = &fps->clouds[number];
    *cloud = (struct cpu_fps_cloud){row, sample, vx_sampling_of(job)->start};
    int32_t found = find_candidates(job->stop, rows + row * fps->columns, fps->columns, counts[number],
                                    vx_starts_at_rank(job), &cloud->start);
    status = vx_stop_status(job->stop, error);
    if (status == VX_OK) status = vx_check_candidates(job, number, found, error);
    row += counts[number];
    sample += job->sample_counts[number];
    candidates += found;
  }
  if (status == VX_OK && !vx_operations[job->op].makes_voxels) {
    job->counts.kept = candidates;
    job->counts.not_finite = job->counts.received - candidates;
  }
  job->stage_ns[VX_STAGE_SAMPLE] += clock_ns() - began;
  return status;
}

// NULL if the tensor is not requested.
static void *place_of(const struct vx_layout *layout, void *output, enum vx_tensor tensor) {
  bool wanted = (layout->tensors & VX_TENSOR_BIT(tensor)) != 0;
  return wanted ? (unsigned char *)output + layout->offset[tensor] : NULL;
}

struct sampling {
  struct cpu_fps *fps;
  struct vx_lane *lane;  // of the job's run
  const struct vx_layout *layout;
  void *output;
};

static void write_samples(const struct sampling *sampling, const struct cpu_fps_desk *desk, int32_t number) {
  const struct cpu_fps *fps = sampling->fps;
  const struct cpu_fps_cloud *cloud = &fps->clouds[number];
  int64_t columns = fps->columns, before = cloud->first_sample;
  const float *rows = fps->rows + cloud->first_row * columns;
  int32_t *indices = place_of(sampling->layout, sampling->output, VX_SAMPLED_INDICES);
  float *points = place_of(sampling->layout, sampling->output, VX_SAMPLED_POINTS);
  float *distances = place_of(sampling->layout, sampling->output, VX_SAMPLED_DISTANCES);
  for (int32_t i = 0; i < fps->job->sample_counts[number]; i++) {
    if (indices) indices[before + i] = desk->indices[i];
    if (points)
      memcpy(points + (before + i) * columns, rows + desk->indices[i] * columns, (size_t)columns * sizeof *points);
    if (distances) distances[before + i] = sqrtf(desk->distances[i]);
  }
}

// The run's own lane has its arrays already; a helper's lane gets arrays while it helps.
static enum vx_status take_desk(const struct sampling *sampling, const struct vx_worker *worker,
                                struct cpu_fps_desk *desk, struct error *error) {
  const struct cpu_fps *fps = sampling->fps;
  struct cpu_arena measured = {0};
  *desk = fps->desk;
  if (worker->lane == sampling->lane) return VX_OK;
  lay_out_desk(desk, &measured, fps->job, fps->most);
  enum vx_status status = cpu_reserve_for_help(worker, &measured, error);
  if (status == VX_OK) lay_out_desk(desk, &worker->lane->scratch, fps->job, fps->most);
  return status;
}

static enum vx_status sample_cloud(void *ctx, const struct vx_worker *worker, int32_t number, struct error *error) {
  const struct sampling *sampling = ctx;
  const struct cpu_fps *fps = sampling->fps;
  struct cpu_fps_desk desk;
  enum vx_status status = take_desk(sampling, worker, &desk, error);
  struct cpu_sample_task task = {
      .points = fps->rows + fps->clouds[number].first_row * fps->columns,
      .columns = fps->columns,
      .num_points = fps->counts[number],
      .num_samples = fps->job->sample_counts[number],
      .start = fps->clouds[number].start,
      .stop = worker->stop,
      .indices = desk.indices,
      .distances = desk.distances,
  };
  if (status == VX_OK && task.num_samples > 0 && !cpu_sample(&desk.sampler, &task))
    status = vx_stop_status(worker->stop, error);
  if (status == VX_OK) write_samples(sampling, &desk, number);
  return status;
}

enum vx_status cpu_fps(struct cpu_fps *fps, struct vx_lane *lane, const struct vx_layout *layout, void *output,
                       struct error *error) {
  struct vx_job *job = fps->job;
  int64_t began = clock_ns();
  struct sampling sampling = {fps, lane, layout, output};
  const struct vx_tasks clouds = {job->num_clouds, sample_cloud, &sampling};
  enum vx_status status = vx_parallel_for(job, lane, &clouds, error);
  job->stage_ns[VX_STAGE_SAMPLE] += clock_ns() - began;
  return status;
}

// ---- a job that samples points --------------------------------------------------------------------------------------

static float *lay_out(struct cpu_fps *fps, struct cpu_arena *arena, struct vx_job *job, const struct vx_input *points,
                      int32_t largest) {
  cpu_fps_lay_out(fps, arena, job, largest);
  uint64_t floats = (uint64_t)points->dims[0] * (uint64_t)points->dims[1];
  return vx_is_narrow(points->dtype) ? cpu_arena_take(arena, floats, sizeof(float)) : NULL;
}

static int32_t largest_cloud(const struct vx_job *job) {
  int32_t largest = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    largest = job->point_counts[cloud] > largest ? job->point_counts[cloud] : largest;
  return largest;
}

static enum vx_status write_output(struct cpu_fps *fps, struct vx_lane *lane, struct error *error) {
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(fps->job, &layout, &output, error);
  return status == VX_OK ? cpu_fps(fps, lane, &layout, output, error) : status;
}

enum vx_status cpu_sample_points(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct cpu_fps fps;
  struct cpu_arena measured = {0};
  int32_t largest = largest_cloud(job);
  (void)lay_out(&fps, &measured, job, &lane->points, largest);
  enum vx_status status = vx_begin_samples(job, job->point_counts, error);
  if (status == VX_OK) status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  int64_t began = clock_ns();
  float *widened = lay_out(&fps, &lane->scratch, job, &lane->points, largest);
  const float *points = cpu_float_points(lane, job->stop, job->counts.received * lane->points.dims[1], widened);
  job->stage_ns[VX_STAGE_SAMPLE] = clock_ns() - began;
  status = cpu_fps_prepare(&fps, points, job->point_counts, error);
  return status == VX_OK && job->tensors != 0 ? write_output(&fps, lane, error) : status;
}

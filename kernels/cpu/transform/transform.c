// A transform on the CPU. A first pass finds the kept points. Once the size of the output is known, a second pass moves
// the kept points again and writes them. Moving them twice saves memory for moved points. Both passes go slice by
// slice; the slices are tasks of the job (parallel_for.h).
#include "kernels/cpu/transform/transform.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/parallel_for.h"
#include "kernels/point_transform.h"

enum { SLICE = 1 << 13 };  // points of one cloud per task

struct slice {
  int32_t cloud, section;  // 0 if the job has no sections
  int32_t begin, end;      // its points; the kept ones are listed from `begin` on
  int32_t listed, before;  // kept points of this slice, and of all slices before it
  int64_t fates[VX_FATE_COUNT];
};

struct transform {
  struct vx_job *job;
  struct vx_lane *lane;
  const struct vx_transform *params;
  const float *points;  // [N, columns]
  int64_t columns;      // C
  float *widened;       // [N, columns]: narrow input as float32
  int32_t *kept;        // [N]: indices of the kept points, in input order, slice by slice
  struct slice *slices;
  int32_t num_slices;
  const struct vx_layout *layout;
  unsigned char *output;
};

static void lay_out(struct transform *transform, struct cpu_arena *arena) {
  const struct vx_input *points = &transform->job->inputs[VX_POINTS];
  uint64_t count = (uint64_t)points->dims[0];
  uint64_t ends = (uint64_t)transform->job->num_clouds + (uint64_t)transform->job->sections.count;
  transform->slices = cpu_arena_take(arena, count / SLICE + ends, sizeof(struct slice));
  transform->kept = cpu_arena_take(arena, count, sizeof *transform->kept);
  if (vx_is_narrow(points->dtype))
    transform->widened = cpu_arena_take(arena, count * (uint64_t)transform->columns, sizeof *transform->widened);
}

// Cuts `left` points from `begin` on into slices. Returns where they end.
static int32_t cut_stretch(struct transform *transform, int32_t cloud, int32_t section, int32_t begin, int32_t left) {
  while (left > 0) {
    int32_t count = left < SLICE ? left : SLICE;
    transform->slices[transform->num_slices++] =
        (struct slice){.cloud = cloud, .section = section, .begin = begin, .end = begin + count};
    begin += count;
    left -= count;
  }
  return begin;
}

// A slice has points of one cloud and one section only.
static void cut(struct transform *transform) {
  const struct vx_job *job = transform->job;
  int32_t begin = 0;
  for (int32_t section = 0; section < job->sections.count; section++)
    begin = cut_stretch(transform, 0, section, begin, job->sections.points[section]);
  for (int32_t cloud = 0; cloud < job->num_clouds && job->sections.count == 0; cloud++)
    begin = cut_stretch(transform, cloud, 0, begin, job->point_counts[cloud]);
}

// Lists the kept points of a slice.
static enum vx_status list_kept(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct transform *transform = ctx;
  struct slice *slice = &transform->slices[task];
  const float *matrix = vx_matrix_of(&transform->job->inputs[VX_MATRIX], slice->cloud);
  int64_t fates[VX_FATE_COUNT] = {0};
  int32_t listed = 0;
  VX_EACH_ROW(worker->stop, i, slice->begin, slice->end) {
    const float *point = transform->points + i * transform->columns;
    float moved[3];
    vx_move(matrix, point[0], point[1], point[2], moved);
    enum vx_fate fate = vx_fate_of_moved(transform->params, transform->params->cuts, moved);
    transform->kept[slice->begin + listed] = (int32_t)i;
    listed += fate == VX_FATE_KEPT;  // the next point overwrites a point that is not kept
    fates[fate]++;
  }
  slice->listed = listed;
  memcpy(slice->fates, fates, sizeof fates);
  return vx_stop_status(worker->stop, error);
}

static void add_fates(const struct slice *slice, struct vx_counts *counts) {
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    vx_set_fate_count(fate, vx_fate_count(fate, counts) + slice->fates[fate], counts);
}

static enum vx_status find_kept(struct transform *transform, struct error *error) {
  struct vx_job *job = transform->job;
  const struct vx_tasks tasks = {transform->num_slices, list_kept, transform};
  enum vx_status status = vx_parallel_for(job, transform->lane, &tasks, error);
  int32_t before = 0;
  for (int32_t i = 0; i < transform->num_slices && status == VX_OK; i++) {
    struct slice *slice = &transform->slices[i];
    slice->before = before;
    before += slice->listed;
    job->row_counts[slice->cloud] += slice->listed;
    add_fates(slice, &job->counts);
    if (job->sections.count > 0) add_fates(slice, &job->sections.counts[slice->section]);
  }
  return status;
}

static void write_points(const struct transform *transform, struct vx_stop *stop, const struct slice *slice,
                         float *row) {
  const float *matrix = vx_matrix_of(&transform->job->inputs[VX_MATRIX], slice->cloud);
  const int32_t *kept = transform->kept + slice->begin;
  row += slice->before * transform->columns;
  VX_EACH_ROW(stop, i, 0, slice->listed) {
    const float *point = transform->points + kept[i] * transform->columns;
    vx_move(matrix, point[0], point[1], point[2], row);
    memcpy(row + 3, point + 3, (size_t)(transform->columns - 3) * sizeof *row);
    row += transform->columns;
  }
}

// Writes a slice's part of the tensors.
static enum vx_status write_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct transform *transform = ctx;
  const struct vx_layout *layout = transform->layout;
  const struct slice *slice = &transform->slices[task];
  if ((layout->tensors & VX_TENSOR_BIT(VX_MOVED_POINTS)) != 0)
    write_points(transform, worker->stop, slice,
                 (float *)(void *)(transform->output + layout->offset[VX_MOVED_POINTS]));
  if ((layout->tensors & VX_TENSOR_BIT(VX_POINT_INDICES)) != 0) {
    int32_t *indices = (int32_t *)(void *)(transform->output + layout->offset[VX_POINT_INDICES]);
    memcpy(indices + slice->before, transform->kept + slice->begin, (size_t)slice->listed * sizeof *indices);
  }
  return vx_stop_status(worker->stop, error);
}

static enum vx_status write_output(struct transform *transform, struct error *error) {
  struct vx_job *job = transform->job;
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(job, &layout, &output, error);
  if (status == VX_OK && layout.bytes > 0) {
    const struct vx_tasks tasks = {transform->num_slices, write_slice, transform};
    int64_t began = cpu_now_ns();
    transform->layout = &layout;
    transform->output = output;
    status = vx_parallel_for(job, transform->lane, &tasks, error);
    job->stage_ns[VX_STAGE_TRANSFORM] += cpu_now_ns() - began;
  }
  return status;
}

enum vx_status cpu_transform(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct transform transform = {
      .job = job, .lane = lane, .params = &job->params.transform, .columns = job->inputs[VX_POINTS].dims[1]};
  struct cpu_arena measured = {0};
  int64_t began = cpu_now_ns();
  lay_out(&transform, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(&transform, &lane->scratch);
  cut(&transform);
  transform.points = cpu_float_points(job, job->counts.received * transform.columns, transform.widened);
  status = vx_stop_status(job->stop, error);
  if (status == VX_OK) status = find_kept(&transform, error);
  job->stage_ns[VX_STAGE_TRANSFORM] = cpu_now_ns() - began;
  return status != VX_OK || job->tensors == 0 ? status : write_output(&transform, error);
}

// A transform on the CPU. A first pass finds the points that are kept. Once the size of the output is known, a second
// pass moves these points again and writes them. Moving twice saves the memory for the moved points.
#include "kernels/cpu/transform/transform.h"

#include <string.h>

#include "kernels/cpu/base/lane.h"
#include "kernels/place.h"

struct transform {
  struct vx_job *job;
  const struct vx_transform *params;
  const float *points;  // [N, columns]
  int64_t columns;      // C
  float *widened;       // [N, columns]: float16 input as float32
  int32_t *kept;        // [N]: indices of the points that are kept, in input order
};

static void lay_out(struct transform *transform, struct cpu_arena *arena) {
  const struct vx_input *points = &transform->job->inputs[VX_POINTS];
  uint64_t count = (uint64_t)points->dims[0];
  transform->kept = cpu_arena_take(arena, count, sizeof *transform->kept);
  if (points->dtype == VX_FLOAT16) {
    transform->widened = cpu_arena_take(arena, count * (uint64_t)transform->columns, sizeof *transform->widened);
  }
}

// Appends the kept ones of the points begin .. end - 1 to the `listed` points before them. Returns the new count.
static int32_t list_kept(const struct transform *transform, const float *matrix, int32_t begin, int32_t end,
                         int32_t listed, int64_t fates[VX_FATE_COUNT]) {
  for (int32_t i = begin; i < end; i++) {
    const float *point = transform->points + i * transform->columns;
    float moved[3];
    vx_move(matrix, point[0], point[1], point[2], moved);
    enum vx_fate fate = vx_fate_of_moved(transform->params, transform->params->cuts, moved);
    transform->kept[listed] = i;
    listed += fate == VX_FATE_KEPT;  // a point that is not kept is overwritten by the next
    fates[fate]++;
  }
  return listed;
}

static void find_kept(struct transform *transform) {
  struct vx_job *job = transform->job;
  int64_t fates[VX_FATE_COUNT] = {0};
  int32_t begin = 0, listed = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    int32_t end = begin + job->point_counts[cloud], before = listed;
    listed = list_kept(transform, vx_matrix_of(&job->inputs[VX_MATRIX], cloud), begin, end, listed, fates);
    job->row_counts[cloud] = listed - before;
    begin = end;
  }
  job->counts.kept = fates[VX_FATE_KEPT];
  job->counts.not_finite = fates[VX_FATE_NOT_FINITE];
  job->counts.out_of_crop = fates[VX_FATE_OUT_OF_CROP];
  job->counts.cut_out = fates[VX_FATE_CUT_OUT];
}

static void write_points(const struct transform *transform, float *row) {
  const struct vx_job *job = transform->job;
  const int32_t *kept = transform->kept;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    const float *matrix = vx_matrix_of(&job->inputs[VX_MATRIX], cloud);
    for (int32_t i = 0; i < job->row_counts[cloud]; i++, row += transform->columns) {
      const float *point = transform->points + *kept++ * transform->columns;
      vx_move(matrix, point[0], point[1], point[2], row);
      memcpy(row + 3, point + 3, (size_t)(transform->columns - 3) * sizeof *row);
    }
  }
}

static void write_tensors(const struct transform *transform, const struct vx_layout *layout, unsigned char *output) {
  if ((layout->tensors & VX_TENSOR_BIT(VX_MOVED_POINTS)) != 0) {
    write_points(transform, (float *)(void *)(output + layout->offset[VX_MOVED_POINTS]));
  }
  if ((layout->tensors & VX_TENSOR_BIT(VX_POINT_INDICES)) != 0) {
    memcpy(output + layout->offset[VX_POINT_INDICES], transform->kept, layout->shape[VX_POINT_INDICES].bytes);
  }
}

static enum vx_status write_output(const struct transform *transform, struct vx_error *error) {
  struct vx_job *job = transform->job;
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(job, &layout, &output, error);
  if (status == VX_OK && layout.bytes > 0) {
    int64_t began = cpu_now_ns();
    write_tensors(transform, &layout, output);
    job->stage_ns[VX_STAGE_TRANSFORM] += cpu_now_ns() - began;
  }
  return status;
}

enum vx_status cpu_transform(struct vx_lane *lane, struct vx_job *job, struct vx_error *error) {
  struct transform transform = {
      .job = job, .params = &job->params.transform, .columns = job->inputs[VX_POINTS].dims[1]};
  struct cpu_arena measured = {0};
  int64_t began = cpu_now_ns();
  lay_out(&transform, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) {
    return status;
  }
  lay_out(&transform, &lane->scratch);
  transform.points = cpu_float_points(job, job->counts.received * transform.columns, transform.widened);
  find_kept(&transform);
  job->stage_ns[VX_STAGE_TRANSFORM] = cpu_now_ns() - began;
  return job->tensors == 0 ? VX_OK : write_output(&transform, error);
}

// A chain of steps on the CPU, slice by slice: slices are tasks (parallel_for.h).
//
// The chain's arrays are in the lane's block `chain`; the lane's scratch is for the steps and the operation.
#include "kernels/cpu/steps/steps.h"

#include <string.h>

#include "kernels/cylinder.h"
#include "kernels/parallel_for.h"

static cpu_step *const steps[VX_STEP_TYPES] = {
#define X(type, name) [VX_STEP_##type] = cpu_step_##name,
    VX_STEPS(X)
#undef X
};

// ---- memory ---------------------------------------------------------------------------------------------------------

static bool has_cylinder(const struct vx_job *job) {
  return job->op == VX_VOXELIZE && job->params.voxelize.coordinates == VX_CYLINDER;
}

static void lay_out(struct cpu_chain *chain, struct cpu_arena *arena) {
  const struct vx_job *job = chain->job;
  uint64_t rows = (uint64_t)chain->num_rows;
  uint64_t ends = (uint64_t)job->num_clouds + (uint64_t)job->sections.count;
  chain->rows = cpu_arena_take(arena, rows * (uint64_t)chain->columns, sizeof *chain->rows);
  chain->cylinder = has_cylinder(job) ? cpu_arena_take(arena, rows * (uint64_t)(chain->columns + VX_CYLINDER_EXTRA),
                                                       sizeof *chain->cylinder)
                                      : NULL;
  chain->fates = cpu_arena_take(arena, rows, sizeof *chain->fates);
  chain->steps = cpu_arena_take(arena, rows, sizeof *chain->steps);
  chain->heads = vx_chain_needs_heads(job) ? cpu_arena_take(arena, rows, sizeof *chain->heads) : NULL;
  chain->slices = cpu_arena_take(arena, rows / CPU_SLICE + ends, sizeof *chain->slices);
  chain->section_fates = cpu_arena_take(arena, (uint64_t)job->sections.count, sizeof *chain->section_fates);
}

// Cuts `left` rows from `begin` on into slices. Returns where they end.
static int32_t cut_stretch(struct cpu_chain *chain, int32_t cloud, int32_t section, int32_t begin, int32_t left) {
  while (left > 0) {
    int32_t count = left < CPU_SLICE ? left : CPU_SLICE;
    chain->slices[chain->num_slices++] =
        (struct cpu_slice){.cloud = cloud, .section = section, .begin = begin, .end = begin + count};
    begin += count;
    left -= count;
  }
  return begin;
}

static void cut(struct cpu_chain *chain) {
  const struct vx_job *job = chain->job;
  int32_t begin = 0;
  for (int32_t section = 0; section < job->sections.count; section++)
    begin = cut_stretch(chain, 0, section, begin, job->sections.points[section]);
  for (int32_t cloud = 0; cloud < job->num_clouds && job->sections.count == 0; cloud++)
    begin = cut_stretch(chain, cloud, 0, begin, job->point_counts[cloud]);
}

static enum vx_status prepare(struct cpu_chain *chain, struct error *error) {
  struct cpu_arena measured = {0};
  lay_out(chain, &measured);
  enum vx_status status = cpu_arena_reserve(&chain->lane->chain, &measured, chain->job, error);
  if (status != VX_OK) return status;
  lay_out(chain, &chain->lane->chain);
  cut(chain);
  return VX_OK;
}

static enum vx_status for_slices(struct cpu_chain *chain,
                                 enum vx_status (*run)(void *ctx, const struct vx_worker *worker, int32_t task,
                                                       struct error *error),
                                 struct error *error) {
  const struct vx_tasks tasks = {chain->num_slices, run, chain};
  return vx_parallel_for(chain->job, chain->lane, &tasks, error);
}

// ---- before the steps -----------------------------------------------------------------------------------------------

// Copies the rows of a slice. Rows that are not finite are dropped by step 1 or, without steps, by the operation.
static enum vx_status copy_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  // A copy, because stores of fates and steps, which are bytes, could alias the original.
  const struct cpu_chain copy = *(const struct cpu_chain *)ctx, *chain = &copy;
  const struct cpu_slice *slice = &chain->slices[task];
  const struct vx_input *points = &chain->job->inputs[VX_POINTS];
  int64_t first = (int64_t)slice->begin * chain->columns, count = (int64_t)(slice->end - slice->begin);
  vx_widen(points->dtype, points->data, first, count * chain->columns, chain->rows + first);
  memset(chain->fates + slice->begin, VX_FATE_KEPT, (size_t)count);
  memset(chain->steps + slice->begin, 0, (size_t)count);
  VX_EACH_ROW(worker->stop, i, slice->begin, slice->end) {
    const float *row = chain->rows + i * chain->columns;
    if (!vx_are_finite(row[0], row[1], row[2])) cpu_drop(chain, i, VX_FATE_NOT_FINITE);
  }
  return vx_stop_status(worker->stop, error);
}

// ---- after the steps ------------------------------------------------------------------------------------------------

// Counts up to 8 rows, 8 kept rows at once.
static void count_rows(const struct cpu_chain *chain, int64_t begin, int64_t count, struct cpu_slice *slice) {
  uint64_t fates;
  bool left = count == sizeof fates;
  if (left) memcpy(&fates, chain->fates + begin, sizeof fates);
  left = left && fates == 0;
  slice->fates[0][VX_FATE_KEPT] += left ? (uint32_t)count : 0;
  for (int64_t i = begin; !left && i < begin + count; i++) slice->fates[chain->steps[i]][chain->fates[i]]++;
}

static enum vx_status count_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  enum { GROUP = sizeof(uint64_t) };
  const struct cpu_chain *chain = ctx;
  struct cpu_slice *slice = &chain->slices[task];
  memset(slice->fates, 0, sizeof slice->fates);
  for (int64_t i = slice->begin; i < slice->end && !vx_stopped(worker->stop, GROUP); i += GROUP)
    count_rows(chain, i, slice->end - i < GROUP ? slice->end - i : GROUP, slice);
  slice->left = (int32_t)slice->fates[0][VX_FATE_KEPT];
  return vx_stop_status(worker->stop, error);
}

static void add_slice(const struct cpu_chain *chain, const struct cpu_slice *slice) {
  struct vx_chain_report *report = chain->job->report;
  for (int step = 0; step <= VX_MAX_STEPS; step++)
    for (int fate = 0; fate < VX_FATE_COUNT; fate++) {
      report->fates[step][fate] += slice->fates[step][fate];
      if (chain->job->sections.count > 0 && fate != VX_FATE_KEPT)
        chain->section_fates[slice->section][fate] += slice->fates[step][fate];
    }
}

static enum vx_status count(struct cpu_chain *chain, struct error *error) {
  struct vx_job *job = chain->job;
  enum vx_status status = for_slices(chain, count_slice, error);
  int32_t before = 0;
  memset(job->report->fates, 0, sizeof job->report->fates);
  if (job->sections.count > 0)
    memset(chain->section_fates, 0, (size_t)job->sections.count * sizeof *chain->section_fates);
  for (int32_t i = 0; i < chain->num_slices && status == VX_OK; i++) {
    struct cpu_slice *slice = &chain->slices[i];
    slice->before = before;
    before += slice->left;
    add_slice(chain, slice);
  }
  job->report->left = before;
  job->report->section_fates = (const uint32_t(*)[VX_FATE_COUNT])chain->section_fates;
  return status;
}

// ---- the steps ------------------------------------------------------------------------------------------------------

static enum vx_status run_steps(struct cpu_chain *chain, struct error *error) {
  const struct vx_chain *asked = chain->job->chain;
  chain->number = asked->count > 0;
  enum vx_status status = for_slices(chain, copy_slice, error);
  for (int32_t i = 0; i < asked->count && status == VX_OK; i++) {
    int64_t began = clock_ns();
    chain->number = (uint8_t)(i + 1);
    status = steps[asked->steps[i].type](chain, &asked->steps[i], error);
    chain->job->report->step_ns[i] = clock_ns() - began;
  }
  chain->number = 0;
  if (status == VX_OK && chain->job->op == VX_SERIALIZE) status = cpu_drop_outside(chain, error);
  return status == VX_OK ? count(chain, error) : status;
}

// ---- the tensors ----------------------------------------------------------------------------------------------------

struct writing {
  const struct cpu_chain *chain;
  float *points;                        // this and the following are NULL if not requested
  int32_t *indices, *rows, *voxel_ids;  // the operation has filled voxel_ids for rows that are left
  uint8_t *fates, *steps;
};

static enum vx_status write_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct writing *writing = ctx;
  const struct cpu_chain *chain = writing->chain;
  const struct cpu_slice *slice = &chain->slices[task];
  size_t count = (size_t)(slice->end - slice->begin);
  int64_t next = slice->before;
  if (writing->fates) memcpy(writing->fates + slice->begin, chain->fates + slice->begin, count);
  if (writing->steps) memcpy(writing->steps + slice->begin, chain->steps + slice->begin, count);
  if (!writing->points && !writing->indices && !writing->rows) return VX_OK;
  VX_EACH_ROW(worker->stop, i, slice->begin, slice->end) {
    const float *row = cpu_row_left(chain, i);
    if (writing->rows) writing->rows[i] = row ? (int32_t)next : -1;
    if (!row) continue;
    if (writing->indices) writing->indices[next] = (int32_t)i;
    if (writing->points)
      memcpy(writing->points + next * chain->columns, row, (size_t)chain->columns * sizeof *writing->points);
    next++;
  }
  return vx_stop_status(worker->stop, error);
}

// Gives merged rows the row and the voxel of their heads.
static enum vx_status write_merged(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct writing *writing = ctx;
  const struct cpu_chain *chain = writing->chain;
  const struct cpu_slice *slice = &chain->slices[task];
  VX_EACH_ROW(worker->stop, i, slice->begin, slice->end) {
    int64_t head = i;
    while (chain->fates[head] == VX_FATE_MERGED) head = chain->heads[head];
    if (head == i) continue;
    if (writing->rows) writing->rows[i] = writing->rows[head];
    if (writing->voxel_ids) writing->voxel_ids[i] = writing->voxel_ids[head];
  }
  return vx_stop_status(worker->stop, error);
}

// NULL if the tensor is not requested.
static void *place_of(const struct vx_layout *layout, const struct cpu_chain *chain, enum vx_tensor tensor) {
  bool wanted = (layout->tensors & VX_TENSOR_BIT(tensor)) != 0;
  return wanted ? (unsigned char *)chain->job->report->output + layout->offset[tensor] : NULL;
}

static enum vx_status write_output(struct cpu_chain *chain, struct error *error) {
  const struct vx_job *job = chain->job;
  struct vx_sizes sizes = vx_sizes_of(job);
  struct vx_layout layout;
  enum vx_status status = vx_layout_of(job->tensors, &sizes, &layout, error);
  if (status != VX_OK || layout.bytes == 0) return status;
  struct writing writing = {chain,
                            place_of(&layout, chain, VX_LEFT_POINTS),
                            place_of(&layout, chain, VX_POINT_INDICES),
                            place_of(&layout, chain, VX_POINT_ROWS),
                            place_of(&layout, chain, VX_POINT_VOXEL_IDS),
                            place_of(&layout, chain, VX_POINT_FATES),
                            place_of(&layout, chain, VX_POINT_STEPS)};
  const struct vx_tasks write = {chain->num_slices, write_slice, &writing},
                        merge = {chain->num_slices, write_merged, &writing};
  status = vx_parallel_for(job, chain->lane, &write, error);
  return status == VX_OK && chain->heads ? vx_parallel_for(job, chain->lane, &merge, error) : status;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

enum vx_status cpu_points(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct vx_layout layout;
  void *output;
  (void)lane;
  job->counts.kept = job->report->left;
  job->counts.not_finite = job->counts.received - job->counts.kept;
  return job->tensors == 0 ? VX_OK : vx_take_output(job, &layout, &output, error);
}

static enum vx_status cylinder_slice(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct cpu_chain *chain = ctx;
  const struct cpu_slice *slice = &chain->slices[task];
  int32_t columns = chain->columns;
  for (int64_t i = slice->begin; i < slice->end && !vx_stopped(worker->stop, CPU_CYLINDER); i += CPU_CYLINDER) {
    int64_t count = slice->end - i < CPU_CYLINDER ? slice->end - i : CPU_CYLINDER;
    cpu_to_cylinder(chain->rows + i * columns, columns, count, chain->cylinder + i * (columns + VX_CYLINDER_EXTRA));
  }
  return vx_stop_status(worker->stop, error);
}

// Runs the operation on the chain's rows in place of the body.
static enum vx_status operate(struct cpu_chain *chain, cpu_operation *operation, struct error *error) {
  struct vx_job *job = chain->job;
  for (int32_t i = 0; i < chain->num_slices && vx_operations[job->op].chained; i++)
    job->row_counts[chain->slices[i].cloud] += chain->slices[i].left;
  chain->lane->points = vx_points_of(VX_FLOAT32, chain->num_rows, chain->columns, chain->rows);
  enum vx_status status = VX_OK;
  if (chain->cylinder) {
    chain->lane->points =
        vx_points_of(VX_FLOAT32, chain->num_rows, chain->columns + VX_CYLINDER_EXTRA, chain->cylinder);
    status = for_slices(chain, cylinder_slice, error);
  }
  if (status == VX_OK) status = operation(chain->lane, job, error);
  if (status == VX_OK) vx_settle_chain(job);
  return status;
}

enum vx_status cpu_run_chain(struct vx_lane *lane, struct vx_job *job, cpu_operation *operation, struct error *error) {
  struct cpu_chain chain = {.job = job,
                            .lane = lane,
                            .num_rows = (int32_t)job->counts.received,
                            .columns = (int32_t)job->inputs[VX_POINTS].dims[1]};
  int64_t began = clock_ns();
  enum vx_status status = prepare(&chain, error);
  if (status == VX_OK) status = run_steps(&chain, error);
  int64_t ended = clock_ns();
  if (status == VX_OK) status = operate(&chain, operation, error);
  job->stage_ns[VX_STAGE_STEPS] = ended - began;
  if (status != VX_OK || job->tensors == 0) return status;
  began = clock_ns();
  status = write_output(&chain, error);
  job->stage_ns[VX_STAGE_STEPS] += clock_ns() - began;
  return status;
}

// The tensors of a job, task by task. The tensors of some rows are written together, while their points are in the
// cache.
#include "kernels/cpu/voxelize/voxelize.h"

#include "kernels/cpu/base/base.h"
#include "kernels/parallel_for.h"

enum {
  PIECE_BYTES = 256 << 10,  // most bytes of a task with several rows
  TASK_ROWS = 256,          // least number of rows per task, if their bytes are at most PIECE_BYTES
  TASKS_OF_A_WORKER = 4     // an estimate; several, because workers start late and rows differ
};

struct target {
  const struct cpu_writer *writer;
  unsigned char *out;
  size_t item_bytes;
};

// Tensors of one unit and one stage.
struct writing {
  const struct cpu_run *run;
  enum cpu_unit unit;
  enum vx_stage stage;
  int32_t items, step;  // rows, clouds or whole tensors: `items` in all, `step` per task
  int32_t count;
  struct target targets[VX_TENSOR_COUNT];
};

static struct writing begin(const struct cpu_run *run, const struct cpu_writer *writer) {
  struct writing writing = {.run = run, .unit = writer->unit, .stage = writer->stage};
  writing.items = writer->unit == CPU_ROWS ? run->num_rows : writer->unit == CPU_CLOUDS ? run->job->num_clouds : 0;
  return writing;
}

// All items of a tensor have the same number of bytes.
static void add(struct writing *writing, const struct cpu_writer *writer, void *out, size_t bytes) {
  size_t item_bytes = bytes;
  if (writing->unit == CPU_TENSORS)
    writing->items++;
  else if (writing->items > 0)
    item_bytes /= (size_t)writing->items;
  writing->targets[writing->count++] = (struct target){writer, out, item_bytes};
}

// ---- tasks ----------------------------------------------------------------------------------------------------------

static void write_targets(const struct writing *writing, const struct cpu_run *part, int32_t first) {
  for (int32_t i = 0; i < writing->count; i++) {
    const struct target *target = &writing->targets[i];
    target->writer->write(part, target->out + (size_t)first * target->item_bytes);
  }
}

// Each cloud's rows begin at its `place`.
static void write_rows(const struct writing *writing, struct cpu_run *part, int32_t first, int32_t count) {
  for (const struct cpu_grouped *cloud = part->grouped; count > 0; cloud++) {
    int32_t skipped = first - cloud->first_row;
    if (skipped < cloud->num_rows) {
      part->rows = writing->run->rows + cloud->place + skipped;
      part->num_rows = cpu_smaller(count, cloud->num_rows - skipped);
      write_targets(writing, part, first);
      first += part->num_rows;
      count -= part->num_rows;
    }
  }
}

static void write_cloud(const struct writing *writing, struct cpu_run *part, int32_t number) {
  const struct cpu_grouped *cloud = &part->grouped[number];
  part->rows += cloud->place;
  part->num_rows = cloud->num_rows;
  part->features += (size_t)cloud->first_row * cpu_run_feature_bytes(part);
  write_targets(writing, part, number);
}

static enum vx_status write_task(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct writing *writing = ctx;
  int32_t first = task * writing->step;
  struct cpu_run part;
  enum vx_status status = cpu_parts_take(writing->run, worker, writing->unit == CPU_CLOUDS, &part, error);
  if (status != VX_OK) return status;
  switch (writing->unit) {
    case CPU_ROWS: write_rows(writing, &part, first, cpu_smaller(writing->step, writing->items - first)); break;
    case CPU_CLOUDS: write_cloud(writing, &part, task); break;
    case CPU_TENSORS: writing->targets[task].writer->write(&part, writing->targets[task].out); break;
  }
  return vx_stop_status(worker->stop, error);
}

static int32_t step_of(const struct writing *writing) {
  size_t item_bytes = 0;
  for (int32_t i = 0; i < writing->count; i++) item_bytes += writing->targets[i].item_bytes;
  if (writing->unit != CPU_ROWS || item_bytes == 0 || item_bytes >= PIECE_BYTES) return 1;
  int32_t most = (int32_t)(PIECE_BYTES / item_bytes);
  int32_t even = writing->items / (TASKS_OF_A_WORKER * (writing->run->job->helpers + 1));
  return even > most ? most : even > TASK_ROWS ? even : most < TASK_ROWS ? most : TASK_ROWS;
}

static enum vx_status write_all(struct writing *writing, struct error *error) {
  int64_t began = clock_ns();
  if (writing->count == 0) return VX_OK;
  writing->step = step_of(writing);
  const struct vx_tasks tasks = {(int32_t)(((int64_t)writing->items + writing->step - 1) / writing->step), write_task,
                                 writing};
  enum vx_status status = vx_parallel_for(writing->run->job, writing->run->lane, &tasks, error);
  writing->run->job->stage_ns[writing->stage] += clock_ns() - began;
  return status;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

static enum vx_status write_one(const struct cpu_run *run, const struct cpu_writer *writer, void *out, size_t bytes,
                                struct error *error) {
  struct writing writing = begin(run, writer);
  if (bytes > 0) add(&writing, writer, out, bytes);
  return write_all(&writing, error);
}

enum vx_status cpu_write_means(const struct cpu_run *run, float *means, struct error *error) {
  size_t bytes = (size_t)run->num_rows * (size_t)run->columns * sizeof *means;
  return write_one(run, &cpu_writer_of_means, means, bytes, error);
}

static enum vx_status write_those(const struct cpu_run *run, const struct cpu_writer *like,
                                  const struct vx_layout *layout, unsigned char *output, struct error *error) {
  struct writing writing = begin(run, like);
  for (enum vx_tensor tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    const struct cpu_writer *writer = &cpu_writers[tensor];
    bool wanted = (layout->tensors & VX_TENSOR_BIT(tensor)) != 0 && layout->shape[tensor].bytes != 0;
    if (wanted && writer->write && writer->unit == like->unit && writer->stage == like->stage)
      add(&writing, writer, output + layout->offset[tensor], layout->shape[tensor].bytes);
  }
  return write_all(&writing, error);
}

// bev_features is made from rows of features, in scratch if no tensor of the output has them.
static enum vx_status find_features(struct cpu_run *run, const struct vx_layout *layout, unsigned char *output,
                                    struct error *error) {
  enum vx_tensor rows = cpu_run_feature_tensor(run);
  if (!cpu_run_hides_features(run)) {
    run->features = output + layout->offset[rows];
    return VX_OK;
  }
  size_t bytes = (size_t)run->num_rows * cpu_run_feature_bytes(run);
  return write_one(run, &cpu_writers[rows], run->features, bytes, error);
}

enum vx_status cpu_write_tensors(struct cpu_run *run, const struct vx_layout *layout, void *output,
                                 struct error *error) {
  // One tensor per unit and stage, in the order of writing.
  static const enum vx_tensor likes[] = {VX_VOXEL_COORDS, VX_ENCODED_FEATURES, VX_BEV_FEATURES, VX_OCCUPANCY};
  enum vx_status status = VX_OK;
  for (size_t i = 0; i < sizeof likes / sizeof *likes && status == VX_OK; i++) {
    if (likes[i] == VX_BEV_FEATURES && (layout->tensors & VX_TENSOR_BIT(VX_BEV_FEATURES)) != 0)
      status = find_features(run, layout, output, error);
    if (status == VX_OK) status = write_those(run, &cpu_writers[likes[i]], layout, output, error);
  }
  return status;
}

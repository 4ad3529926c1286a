// Decoding of a centre head's maps on the CPU, cloud by cloud and task by task; see center.h. One pass over the heatmap
// finds the candidates. Only the first max_objects of each task become boxes.
#include "kernels/cpu/boxes/boxes.h"

#include <string.h>

#include "kernels/centers.h"
#include "kernels/cpu/base/base.h"
#include "kernels/decode.h"
#include "kernels/ops.h"

struct center {
  struct vx_job *job;
  const struct vx_decode_center *params;
  struct vx_sizes sizes;
  int32_t cells, classes, tasks;
  float least_logit;  // of a candidate
  struct vx_nms nms;  // of the current task
  // The candidates of the current cloud; [cells * classes].
  struct cpu_candidate *unsorted, *listed;  // cell by cell; class by class
  struct cpu_keyed *keys, *spare;
  float *widened;  // the logits of a group of cells, widened; [WIDENED]
  struct cpu_found found;
};

enum {
  GROUP = 64,  // cells whose logits are checked together
  WIDENED = GROUP * VX_MAX_CLASSES,
};

static int32_t at_most(int64_t count, int64_t limit) { return (int32_t)(count < limit ? count : limit); }

static int32_t classes_of(const struct center *center, int32_t task) {
  return center->params->num_tasks == 0 ? center->classes : center->params->task_classes[task];
}

static void lay_out(struct center *center, struct cpu_arena *arena) {
  uint64_t most = (uint64_t)center->cells * (uint64_t)center->classes;
  int32_t objects = at_most((int64_t)most, center->params->max_objects);
  uint64_t each = (uint64_t)at_most(objects, center->params->nms.post_max) * (uint64_t)center->tasks;
  uint64_t chosen = (each < most ? each : most) * (uint64_t)center->sizes.clouds;
  center->unsorted = cpu_arena_take(arena, most, sizeof *center->unsorted);
  center->listed = cpu_arena_take(arena, most, sizeof *center->listed);
  center->keys = cpu_arena_take(arena, most, sizeof *center->keys);
  center->spare = cpu_arena_take(arena, most, sizeof *center->spare);
  center->widened = cpu_arena_take(arena, WIDENED, sizeof *center->widened);
  cpu_found_lay_out(&center->found, (uint64_t)objects, chosen, arena);
}

// ---- candidates -----------------------------------------------------------------------------------------------------

// Finds the candidates of a cloud, cell by cell, and returns how many there are. ends[class + 1] counts each class.
static int32_t find_candidates(struct center *center, int32_t cloud, int32_t ends[VX_MAX_CLASSES + 1]) {
  const struct vx_input *map = &center->job->inputs[VX_HEATMAP];
  struct vx_stop *stop = center->job->stop;
  int32_t cells = center->cells, classes = center->classes, found = 0;
  for (int32_t begin = 0; begin < cells && !vx_stopped(stop, (int64_t)GROUP * classes); begin += GROUP) {
    int32_t count = at_most(cells - begin, GROUP) * classes;
    const float *logits = cpu_map_values(map, ((int64_t)cloud * cells + begin) * classes, count, center->widened);
    for (int32_t i = cpu_any_reaches(logits, count, center->least_logit) ? 0 : count; i < count; i++) {
      if (logits[i] >= center->least_logit && logits[i] > -INFINITY) {
        int32_t label = i % classes, cell = begin + i / classes;
        center->unsorted[found++] = (struct cpu_candidate){label * cells + cell, label, logits[i]};
        ends[label + 1]++;
      }
    }
  }
  return found;
}

// Lists the candidates of a cloud by rising index. Class `k` has the candidates ends[k] to ends[k + 1] - 1. `ends` must
// be zeros before.
static int32_t list_candidates(struct center *center, int32_t cloud, int32_t ends[VX_MAX_CLASSES + 1]) {
  int32_t next[VX_MAX_CLASSES + 1];
  int32_t found = find_candidates(center, cloud, ends);
  for (int32_t label = 0; label < center->classes; label++) ends[label + 1] += ends[label];
  memcpy(next, ends, sizeof next);
  VX_EACH_ROW(center->job->stop, i, 0, found) center->listed[next[center->unsorted[i].label]++] = center->unsorted[i];
  return found;
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

static void read_values(const struct vx_input *map, int64_t first, int32_t count, float *values) {
  for (int32_t i = 0; i < count; i++) values[i] = map->rank == 0 ? 0 : cpu_map_value(map, first + i);
}

static struct vx_center_values values_at(const struct center *center, int64_t at) {
  const struct vx_input *inputs = center->job->inputs;
  struct vx_center_values values;
  read_values(&inputs[VX_CENTER], at * 2, 2, values.offset);
  read_values(&inputs[VX_HEIGHT], at, 1, &values.height);
  read_values(&inputs[VX_DIM], at * 3, 3, values.dim);
  read_values(&inputs[VX_ROT], at * 2, 2, values.rot);
  read_values(&inputs[VX_VEL], at * 2, 2, values.vel);
  return values;
}

// Decodes the best of the task's listed candidates, and adds the boxes that are valid and not outside.
static void add_boxes(struct center *center, int32_t cloud, int32_t task, int32_t begin, int32_t end) {
  struct vx_counts *counts = &center->job->counts;
  int32_t count = end - begin, objects = at_most(count, center->params->max_objects);
  VX_EACH_ROW(center->job->stop, i, 0, count)
    center->keys[i] = (struct cpu_keyed){vx_rank_key(center->listed[begin + i].logit), (int32_t)(begin + i)};
  const struct cpu_keyed *sorted = cpu_sort(center->job->stop, center->keys, center->spare, count, 32);
  counts->over_max_objects += count - objects;
  VX_EACH_ROW(center->job->stop, i, 0, objects) {
    const struct cpu_candidate *candidate = &center->listed[sorted[i].number];
    int64_t cell = candidate->index % center->cells, width = center->sizes.width;
    float box[VX_MOVING_BOX_VALUES];
    struct vx_center_values values = values_at(center, ((int64_t)cloud * center->cells + cell) * center->tasks + task);
    vx_center_box(center->params, cell / width, cell % width, &values, box);
    if (!vx_is_valid_center(&values, box))
      counts->invalid++;
    else if (vx_is_outside(center->params, box))
      counts->outside++;
    else
      cpu_found_add(&center->found, candidate, box);
  }
}

// ---- all together ---------------------------------------------------------------------------------------------------

static enum vx_status decode_task(struct center *center, int32_t cloud, int32_t task, int32_t begin, int32_t end,
                                  struct error *error) {
  int64_t began = cpu_now_ns();
  add_boxes(center, cloud, task, begin, end);
  center->nms.radius = center->params->radii[center->params->num_radii > 1 ? task : 0];
  return cpu_found_suppress(&center->found, cloud, began, error);
}

static enum vx_status decode_cloud(struct center *center, int32_t cloud, struct error *error) {
  struct vx_job *job = center->job;
  int32_t ends[VX_MAX_CLASSES + 1] = {0}, label = 0;
  int64_t began = cpu_now_ns();
  int32_t found = list_candidates(center, cloud, ends);
  job->counts.below_threshold += job->point_counts[cloud] - found;
  job->stage_ns[VX_STAGE_DECODE] += cpu_now_ns() - began;
  enum vx_status status = VX_OK;
  for (int32_t task = 0; task < center->tasks && status == VX_OK; task++) {
    int32_t next = label + classes_of(center, task);
    status = decode_task(center, cloud, task, ends[label], ends[next], error);
    label = next;
  }
  return status;
}

enum vx_status cpu_decode_center(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_decode_center *params = &job->params.center;
  struct center center = {.job = job, .params = params, .sizes = vx_sizes_of(job), .nms = params->nms};
  struct cpu_arena measured = {0};
  center.cells = (int32_t)(center.sizes.height * center.sizes.width);
  center.classes = (int32_t)center.sizes.logits;
  center.tasks = (int32_t)center.sizes.tasks;
  center.least_logit = vx_least_logit(params->score_threshold, true);
  center.found = (struct cpu_found){
      .job = job, .values = center.sizes.decoded, .suppressor = {.stop = job->stop, .params = &center.nms}};
  lay_out(&center, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(&center, &lane->scratch);
  for (int32_t cloud = 0; cloud < job->num_clouds && status == VX_OK; cloud++)
    status = decode_cloud(&center, cloud, error);
  return status == VX_OK ? cpu_found_write(&center.found, error) : status;
}

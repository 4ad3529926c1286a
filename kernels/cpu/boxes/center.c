// Decoding of a centre head's maps on the CPU, cloud by cloud and task by task; see center.h. A pass over the heatmap
// finds the candidates; the best max_objects of each task become boxes.
#include "kernels/cpu/boxes/boxes.h"

#include "kernels/centers.h"
#include "kernels/cpu/base/base.h"
#include "kernels/ops.h"

struct center {
  struct vx_job *job;
  const struct vx_decode_center *params;
  struct vx_sizes sizes;
  struct vx_head_groups groups;  // the tasks
  int32_t cells, classes, tasks;
  float least_logit;           // of a candidate
  struct vx_nms nms;           // of the current task
  struct cpu_listing listing;  // class by class
  float *widened;              // [WIDENED]: logits of GROUP cells, if they are narrow
  struct cpu_found found;
};

enum {
  GROUP = 64,  // cells that are checked together
  WIDENED = GROUP * VX_MAX_CLASSES,
};

static int32_t at_most(int64_t count, int64_t limit) { return (int32_t)(count < limit ? count : limit); }

static void lay_out(struct center *center, struct cpu_arena *arena) {
  uint64_t most = (uint64_t)(center->sizes.rows / center->sizes.clouds);
  int32_t objects = at_most((int64_t)most, center->params->max_objects);
  uint64_t each = (uint64_t)at_most(objects, center->params->nms.post_max) * (uint64_t)center->tasks;
  uint64_t chosen = (each < most ? each : most) * (uint64_t)center->sizes.clouds;
  cpu_listing_lay_out(&center->listing, most, arena);
  center->widened = cpu_arena_take(arena, WIDENED, sizeof *center->widened);
  cpu_found_lay_out(&center->found, (uint64_t)objects, chosen, arena);
}

// ---- candidates -----------------------------------------------------------------------------------------------------

// Whether the class has the largest logit of its task. Of equal logits, the first class wins.
static bool is_best(const struct center *center, const float *logits, int32_t label) {
  int32_t task = center->groups.of_class[label];
  bool best = true;
  for (int32_t i = center->groups.first[task]; i < center->groups.first[task + 1]; i++)
    best = best && !(i < label ? logits[i] >= logits[label] : logits[i] > logits[label]);
  return best;
}

static void find_candidates(struct center *center, int32_t cloud) {
  const struct vx_input *map = &center->job->inputs[VX_HEATMAP];
  struct vx_stop *stop = center->job->stop;
  int32_t cells = center->cells, classes = center->classes;
  for (int32_t begin = 0; begin < cells && !vx_stopped(stop, (int64_t)GROUP * classes); begin += GROUP) {
    int32_t count = at_most(cells - begin, GROUP) * classes;
    const float *logits = cpu_map_values(map, ((int64_t)cloud * cells + begin) * classes, count, center->widened);
    for (int32_t i = cpu_any_reaches(logits, count, center->least_logit) ? 0 : count; i < count; i++) {
      int32_t label = i % classes, cell = begin + i / classes;
      bool reaches = logits[i] >= center->least_logit && logits[i] > -INFINITY;
      if (reaches && (!center->params->best_class || is_best(center, logits + (i - label), label)))
        cpu_listing_add(&center->listing, (struct cpu_candidate){label * cells + cell, label, logits[i]});
    }
  }
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
  read_values(&inputs[VX_IOU], at, 1, &values.iou);
  return values;
}

// Adds a candidate's box if it is valid, not outside and, if scores are rectified, above the threshold; else counts its
// fate.
static void add_box(struct center *center, int32_t cloud, int32_t task, struct cpu_candidate candidate) {
  const struct vx_decode_center *params = center->params;
  struct vx_counts *counts = &center->job->counts;
  int64_t cell = candidate.index % center->cells, width = center->sizes.width;
  float box[VX_MOVING_BOX_VALUES];
  struct vx_center_values values = values_at(center, ((int64_t)cloud * center->cells + cell) * center->tasks + task);
  vx_center_box(params, cell / width, cell % width, &values, box);
  if (center->found.rectified)
    candidate.logit = vx_rectified_score(params, candidate.label, candidate.logit, values.iou);
  if (!vx_is_valid_center(&values, box))
    counts->invalid++;
  else if (vx_is_outside(params, box))
    counts->outside++;
  else if (center->found.rectified && !(candidate.logit > params->rectified_threshold))
    counts->below_threshold++;
  else
    cpu_found_add(&center->found, &candidate, box);
}

// Of the task's candidates, listed[begin..end - 1], adds the boxes of the best max_objects: in order of rank or, if
// scores are rectified, of index.
static void add_boxes(struct center *center, int32_t cloud, int32_t task, int32_t begin, int32_t end) {
  int32_t count = end - begin, objects = at_most(count, center->params->max_objects);
  const struct cpu_keyed *sorted = cpu_listing_rank(&center->listing, begin, end);
  center->job->counts.over_max_objects += count - objects;
  if (center->found.rectified) sorted = cpu_listing_unrank(&center->listing, sorted, objects);
  VX_EACH_ROW(center->job->stop, i, 0, objects) add_box(center, cloud, task, center->listing.listed[sorted[i].number]);
}

// ---- all together ---------------------------------------------------------------------------------------------------

static enum vx_status decode_task(struct center *center, int32_t cloud, int32_t task, int32_t begin, int32_t end,
                                  struct error *error) {
  int64_t began = clock_ns();
  add_boxes(center, cloud, task, begin, end);
  center->nms.radius = center->params->radii[center->params->num_radii > 1 ? task : 0];
  return cpu_found_suppress(&center->found, cloud, began, error);
}

static enum vx_status decode_cloud(struct center *center, int32_t cloud, struct error *error) {
  struct vx_job *job = center->job;
  struct cpu_listing *listing = &center->listing;
  const int32_t *first = center->groups.first, *ends = listing->ends;
  int64_t began = clock_ns();
  cpu_listing_clear(listing);
  find_candidates(center, cloud);
  cpu_listing_sort(listing);
  job->counts.below_threshold += job->point_counts[cloud] - listing->count;
  job->stage_ns[VX_STAGE_DECODE] += clock_ns() - began;
  enum vx_status status = VX_OK;
  for (int32_t task = 0; task < center->tasks && status == VX_OK; task++)
    status = decode_task(center, cloud, task, ends[first[task]], ends[first[task + 1]], error);
  return status;
}

enum vx_status cpu_decode_center(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_decode_center *params = &job->params.center;
  struct center center = {.job = job, .params = params, .sizes = vx_sizes_of(job), .nms = params->nms};
  struct cpu_arena measured = {0};
  center.cells = (int32_t)(center.sizes.height * center.sizes.width);
  center.classes = (int32_t)center.sizes.logits;
  center.tasks = (int32_t)center.sizes.tasks;
  struct vx_head_tasks tasks = vx_head_tasks_of(&params->tasks, center.classes);
  center.groups = vx_head_groups_of(&tasks, VX_GROUP_TASK);
  center.listing = (struct cpu_listing){.stop = job->stop, .buckets = center.classes};
  for (int32_t label = 0; label < center.classes; label++) center.listing.bucket_of[label] = (unsigned char)label;
  center.least_logit = vx_least_logit(params->score_threshold, true);
  center.found = (struct cpu_found){.job = job,
                                    .values = center.sizes.decoded,
                                    .rectified = job->inputs[VX_IOU].rank != 0,
                                    .suppressor = {.stop = job->stop, .params = &center.nms}};
  lay_out(&center, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(&center, &lane->scratch);
  for (int32_t cloud = 0; cloud < job->num_clouds && status == VX_OK; cloud++)
    status = decode_cloud(&center, cloud, error);
  return status == VX_OK ? cpu_found_write(&center.found, error) : status;
}

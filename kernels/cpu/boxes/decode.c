// Decoding of an anchor head's maps on the CPU, cloud by cloud and group by group; see decode.h.
//
// A box is decoded when its candidate is found, since candidates with invalid boxes get no rank. It is decoded again
// for its group, so that only the best pre_max anchors of a group need memory for boxes.
#include "kernels/cpu/boxes/boxes.h"

#include <string.h>

#include "kernels/anchors.h"
#include "kernels/cpu/base/base.h"
#include "kernels/ops.h"

struct decode {
  struct vx_job *job;
  struct vx_decode params;  // `tasks` is filled
  struct vx_sizes sizes;
  struct vx_head_groups groups;
  bool shared;              // several logits of an anchor may be candidates of one group
  int32_t anchors, logits;  // A and L: of a cell
  int32_t cells;            // of a cloud
  float least_logit;        // of a candidate
  struct vx_nms nms;        // that of params; its pre_max counts boxes, not anchors
  // The best candidate of each anchor in each group. Its index is that of its logit.
  struct cpu_listing listing;
  float *widened;  // logits of the cells that are checked together, if they are narrow
  struct cpu_found found;
};

enum { GROUP = 256 };        // about this many logits are checked together
enum { OVER_PRE_MAX = -1 };  // the label of a candidate with this fate

static int32_t at_most(int64_t count, int64_t limit) { return (int32_t)(count < limit ? count : limit); }

static int32_t cells_together(const struct decode *decode) {
  return decode->logits > 0 && decode->logits < GROUP ? GROUP / decode->logits : 1;
}

// The number of boxes that an anchor may have in a group.
static int32_t boxes_of_anchor(const struct decode *decode) {
  int32_t most = 1;
  for (int32_t task = 0; decode->shared && task < decode->params.tasks.count; task++)
    most = decode->params.tasks.classes[task] > most ? decode->params.tasks.classes[task] : most;
  return most;
}

static void lay_out(struct decode *decode, struct cpu_arena *arena) {
  int64_t anchors = (int64_t)decode->cells * decode->anchors, cell_logits = decode->logits;
  bool apart = decode->params.labels == VX_LABELS_ALL && !decode->shared;
  int64_t most = at_most(anchors, decode->params.nms.pre_max) * (int64_t)boxes_of_anchor(decode);
  int64_t chosen = at_most(most, decode->params.nms.post_max) * (int64_t)decode->groups.count;
  chosen = at_most(chosen, decode->sizes.rows / decode->sizes.clouds) * decode->sizes.clouds;
  uint64_t widened = (uint64_t)(cell_logits > GROUP ? cell_logits : GROUP);
  cpu_listing_lay_out(&decode->listing, (uint64_t)(apart ? decode->cells * cell_logits : anchors), arena);
  decode->widened = cpu_arena_take(arena, widened, sizeof *decode->widened);
  cpu_found_lay_out(&decode->found, (uint64_t)most, (uint64_t)chosen, arena);
}

static int32_t first_largest(const float *values, int32_t count, float *largest) {
  int32_t first = 0;
  *largest = -INFINITY;
  for (int32_t i = 0; i < count; i++) {
    if (values[i] > *largest) {
      *largest = values[i];
      first = i;
    }
  }
  return first;
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

static int32_t bin_of(const struct decode *decode, int64_t anchor) {
  float largest, widened[VX_MAX_DIR_BINS];
  int32_t bins = decode->params.dir_bins;
  const float *logits = cpu_map_values(&decode->job->inputs[VX_DIR_CLS_PREDS], anchor * bins, bins, widened);
  return first_largest(logits, bins, &largest);
}

static void make_box(const struct decode *decode, int32_t cloud, int32_t anchor, float box[VX_MOVING_BOX_VALUES]) {
  const struct vx_decode *params = &decode->params;
  int64_t cell = anchor / decode->anchors, flat = (int64_t)cloud * decode->cells * decode->anchors + anchor;
  float x = vx_anchor_place(params, 0, cell % decode->sizes.width, decode->sizes.width);
  float y = vx_anchor_place(params, 1, cell / decode->sizes.width, decode->sizes.height);
  float moves[VX_MAX_CODE_VALUES] = {0};
  for (int64_t i = 0, values = vx_code_values(params); i < values; i++)
    moves[i] = cpu_map_value(&decode->job->inputs[VX_BOX_PREDS], flat * values + i);
  vx_decode_box(params, anchor % decode->anchors, x, y, moves, box);
  if (decode->job->inputs[VX_DIR_CLS_PREDS].rank != 0) box[6] = vx_turn_heading(params, box[6], bin_of(decode, flat));
}

// ---- candidates -----------------------------------------------------------------------------------------------------

static bool is_candidate(const struct decode *decode, float logit) {
  return logit >= decode->least_logit && logit > -INFINITY;
}

static int32_t count_candidates(const struct decode *decode, const float *logits, int32_t count) {
  int32_t candidates = 0;
  for (int32_t i = 0; i < count; i++) candidates += is_candidate(decode, logits[i]);
  return candidates;
}

// Adds the candidates of an anchor; `first`: index of its first logit in the cloud. Counts those with an invalid box.
// Returns the number of candidates.
static int32_t find_of_anchor(struct decode *decode, int32_t cloud, int32_t number, const struct vx_anchor *anchor,
                              int32_t first, const float *logits) {
  float box[VX_MOVING_BOX_VALUES], best;
  bool all = decode->params.labels == VX_LABELS_ALL;
  int32_t count = count_candidates(decode, logits, anchor->num_classes), own = all ? count : count > 0;
  if (own == 0) return 0;
  make_box(decode, cloud, number, box);
  if (!vx_is_valid_anchor(box)) {
    decode->job->counts.invalid += own;
    return own;
  }
  int32_t i = all && !decode->shared ? 0 : first_largest(logits, anchor->num_classes, &best);
  int32_t end = all && !decode->shared ? anchor->num_classes : i + 1;
  for (; i < end; i++)
    if (is_candidate(decode, logits[i]))
      cpu_listing_add(&decode->listing, (struct cpu_candidate){first + i, anchor->first_class + i, logits[i]});
  return own;
}

static int32_t find_of_cell(struct decode *decode, int32_t cloud, int32_t cell, const float *logits) {
  int32_t found = 0;
  for (int32_t logit = 0; logit < decode->logits;) {
    struct vx_anchor anchor = vx_anchor_of(&decode->params, logit);
    found += find_of_anchor(decode, cloud, cell * decode->anchors + anchor.number, &anchor,
                            cell * decode->logits + logit, logits + logit);
    logit += anchor.num_classes;
  }
  return found;
}

// Lists the candidates. Counts the items below the threshold.
static void find_candidates(struct decode *decode, int32_t cloud) {
  const struct vx_input *map = &decode->job->inputs[VX_CLS_PREDS];
  struct vx_stop *stop = decode->job->stop;
  int32_t cells = decode->cells, logits = decode->logits, step = cells_together(decode), found = 0;
  for (int32_t begin = 0; begin < cells && !vx_stopped(stop, (int64_t)step * logits); begin += step) {
    int32_t count = at_most(cells - begin, step);
    const float *values =
        cpu_map_values(map, ((int64_t)cloud * cells + begin) * logits, count * logits, decode->widened);
    for (int32_t i = cpu_any_reaches(values, count * logits, decode->least_logit) ? 0 : count; i < count; i++)
      found += find_of_cell(decode, cloud, begin + i, values + (int64_t)i * logits);
  }
  decode->job->counts.below_threshold += decode->job->point_counts[cloud] - found;
}

// ---- groups ---------------------------------------------------------------------------------------------------------

// Adds the boxes of a ranked anchor, unless `count_only`. Returns their number.
static int32_t add_boxes(struct decode *decode, int32_t cloud, const struct cpu_candidate *best, bool count_only) {
  int32_t cell = best->index / decode->logits, added = 0;
  struct vx_anchor anchor = vx_anchor_of(&decode->params, best->index % decode->logits);
  int64_t first = ((int64_t)cloud * decode->cells + cell) * decode->logits + anchor.first;
  struct cpu_candidate own = {cell * decode->anchors + anchor.number, best->label, best->logit};
  float box[VX_MOVING_BOX_VALUES];
  if (!count_only) make_box(decode, cloud, own.index, box);
  for (int32_t i = 0; i < (decode->shared ? anchor.num_classes : 1); i++) {
    if (decode->shared) {
      own.label = anchor.first_class + i;
      own.logit = cpu_map_value(&decode->job->inputs[VX_CLS_PREDS], first + i);
    }
    if (!is_candidate(decode, own.logit)) continue;
    if (!count_only) cpu_found_add(&decode->found, &own, box);
    added++;
  }
  return added;
}

// Marks the anchors of a group that rank after pre_max others.
static void mark_over_pre_max(struct decode *decode, int32_t begin, int32_t end) {
  const struct cpu_keyed *ranked = cpu_listing_rank(&decode->listing, begin, end);
  VX_EACH_ROW(decode->job->stop, i, decode->params.nms.pre_max, end - begin)
    decode->listing.listed[ranked[i].number].label = OVER_PRE_MAX;
}

static enum vx_status decode_group(struct decode *decode, int32_t cloud, int32_t group, struct error *error) {
  int32_t begin = decode->listing.ends[group], end = decode->listing.ends[group + 1];
  int64_t began = clock_ns();
  if (end - begin > decode->params.nms.pre_max) mark_over_pre_max(decode, begin, end);
  VX_EACH_ROW(decode->job->stop, i, begin, end) {
    const struct cpu_candidate *best = &decode->listing.listed[i];
    bool over = best->label == OVER_PRE_MAX;
    int32_t boxes = add_boxes(decode, cloud, best, over);
    decode->job->counts.over_pre_max += over ? boxes : 0;
  }
  return cpu_found_suppress(&decode->found, cloud, began, error);
}

static enum vx_status decode_cloud(struct decode *decode, int32_t cloud, struct error *error) {
  int64_t began = clock_ns();
  enum vx_status status = VX_OK;
  cpu_listing_clear(&decode->listing);
  find_candidates(decode, cloud);
  cpu_listing_sort(&decode->listing);
  decode->job->stage_ns[VX_STAGE_DECODE] += clock_ns() - began;
  for (int32_t group = 0; group < decode->groups.count && status == VX_OK; group++)
    status = decode_group(decode, cloud, group, error);
  return status;
}

static struct decode decode_of(struct vx_job *job) {
  struct decode decode = {.job = job, .sizes = vx_sizes_of(job)};
  decode.params = vx_with_tasks(&job->params.decode, decode.sizes.logits);
  decode.groups = vx_head_groups_of(&decode.params.tasks, (enum vx_nms_groups)decode.params.nms_groups);
  decode.shared = decode.params.labels == VX_LABELS_ALL && decode.params.nms_groups == VX_GROUP_TASK;
  decode.anchors = vx_cell_anchors(&decode.params);
  decode.logits = (int32_t)decode.sizes.logits;
  decode.cells = decode.sizes.rows == 0 ? 0 : (int32_t)(decode.sizes.height * decode.sizes.width);
  decode.least_logit = vx_least_logit(decode.params.score_threshold, false);
  decode.nms = decode.params.nms;
  decode.nms.pre_max *= boxes_of_anchor(&decode);
  decode.listing = (struct cpu_listing){.stop = job->stop, .buckets = decode.groups.count};
  memcpy(decode.listing.bucket_of, decode.groups.of_class, sizeof decode.listing.bucket_of);
  return decode;
}

enum vx_status cpu_decode(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct decode decode = decode_of(job);
  struct cpu_arena measured = {0};
  decode.found = (struct cpu_found){
      .job = job, .values = decode.sizes.decoded, .suppressor = {.stop = job->stop, .params = &decode.nms}};
  lay_out(&decode, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(&decode, &lane->scratch);
  for (int32_t cloud = 0; cloud < job->num_clouds && status == VX_OK; cloud++)
    status = decode_cloud(&decode, cloud, error);
  return status == VX_OK ? cpu_found_write(&decode.found, error) : status;
}

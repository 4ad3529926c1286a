// Decoding of an anchor head's maps on the CPU, cloud by cloud; see decode.h. A first pass over the logits finds the
// candidates. Only the candidates become boxes.
#include "kernels/cpu/boxes/boxes.h"

#include "kernels/anchors.h"
#include "kernels/cpu/base/base.h"
#include "kernels/ops.h"

struct decode {
  struct vx_job *job;
  const struct vx_decode *params;
  struct vx_sizes sizes;
  int32_t anchors, classes;  // A and K: anchors and classes of a cell
  int64_t cells;             // of a cloud
  float least_logit;         // of a candidate
  float *widened;            // the widened logits of a group, or of an anchor's directions; [WIDENED]
  struct cpu_found found;
};

enum {
  GROUP = 64,  // anchors whose logits are checked together
  WIDENED = GROUP * VX_MAX_CLASSES,
};
_Static_assert((int)WIDENED >= (int)VX_MAX_DIR_BINS, "an anchor's directions fit");

static void lay_out(struct decode *decode, struct cpu_arena *arena) {
  uint64_t most = (uint64_t)(decode->cells * decode->anchors), post_max = (uint64_t)decode->params->nms.post_max;
  uint64_t chosen = (most < post_max ? most : post_max) * (uint64_t)decode->sizes.clouds;
  decode->widened = cpu_arena_take(arena, WIDENED, sizeof *decode->widened);
  cpu_found_lay_out(&decode->found, most, chosen, arena);
}

// ---- candidates -----------------------------------------------------------------------------------------------------

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

// Lists the anchors of a cloud that reach the threshold, and returns how many there are.
static int32_t list_candidates(struct decode *decode, int32_t cloud) {
  const struct vx_input *map = &decode->job->inputs[VX_CLS_PREDS];
  struct vx_stop *stop = decode->job->stop;
  int32_t total = (int32_t)(decode->cells * decode->anchors), listed = 0, classes = decode->classes;
  for (int32_t begin = 0; begin < total && !vx_stopped(stop, (int64_t)GROUP * classes); begin += GROUP) {
    int32_t count = total - begin < GROUP ? total - begin : GROUP;
    const float *logits =
        cpu_map_values(map, ((int64_t)cloud * total + begin) * classes, count * classes, decode->widened);
    for (int32_t i = cpu_any_reaches(logits, count * classes, decode->least_logit) ? 0 : count; i < count; i++) {
      struct cpu_candidate candidate = {.index = begin + i};
      candidate.label = first_largest(logits + (int64_t)i * classes, classes, &candidate.logit);
      if (candidate.logit >= decode->least_logit && candidate.logit > -INFINITY)
        decode->found.candidates[listed++] = candidate;
    }
  }
  return listed;
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

static int32_t bin_of(const struct decode *decode, int64_t anchor) {
  float largest;
  int32_t bins = decode->params->dir_bins;
  const float *logits = cpu_map_values(&decode->job->inputs[VX_DIR_CLS_PREDS], anchor * bins, bins, decode->widened);
  return first_largest(logits, bins, &largest);
}

static void make_box(const struct decode *decode, int32_t cloud, int32_t anchor, float box[VX_MOVING_BOX_VALUES]) {
  const struct vx_decode *params = decode->params;
  int64_t cell = anchor / decode->anchors, flat = cloud * decode->cells * decode->anchors + anchor;
  float x = vx_anchor_place(params, 0, cell % decode->sizes.width, decode->sizes.width);
  float y = vx_anchor_place(params, 1, cell / decode->sizes.width, decode->sizes.height);
  float moves[VX_MOVING_BOX_VALUES] = {0};
  for (int64_t i = 0, values = decode->sizes.decoded; i < values; i++)
    moves[i] = cpu_map_value(&decode->job->inputs[VX_BOX_PREDS], flat * values + i);
  vx_decode_box(params, anchor % decode->anchors, x, y, moves, box);
  if (decode->job->inputs[VX_DIR_CLS_PREDS].rank != 0) box[6] = vx_turn_heading(params, box[6], bin_of(decode, flat));
}

// Makes boxes of the listed candidates, and adds the valid boxes. The candidates of valid boxes stay in the list,
// without gaps.
static void add_boxes(struct decode *decode, int32_t cloud, int32_t candidates) {
  VX_EACH_ROW(decode->job->stop, i, 0, candidates) {
    float box[VX_MOVING_BOX_VALUES];
    make_box(decode, cloud, decode->found.candidates[i].index, box);
    if (vx_is_valid_anchor(box)) cpu_found_add(&decode->found, &decode->found.candidates[i], box);
  }
  decode->job->counts.invalid += candidates - decode->found.count;
}

// Decodes the listed candidates and adds the valid boxes. The valid candidates move together in the list.

static enum vx_status decode_cloud(struct decode *decode, int32_t cloud, struct error *error) {
  int64_t began = cpu_now_ns();
  int32_t candidates = list_candidates(decode, cloud);
  add_boxes(decode, cloud, candidates);
  decode->job->counts.below_threshold += decode->job->point_counts[cloud] - candidates;
  return cpu_found_suppress(&decode->found, cloud, began, error);
}

enum vx_status cpu_decode(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_decode *params = &job->params.decode;
  struct decode decode = {.job = job, .params = params, .sizes = vx_sizes_of(job)};
  struct cpu_arena measured = {0};
  decode.anchors = params->num_sizes * params->num_rotations;
  decode.classes = (int32_t)(decode.sizes.logits / decode.anchors);
  decode.cells = decode.sizes.height * decode.sizes.width;
  decode.least_logit = vx_least_logit(params->score_threshold, false);
  decode.found = (struct cpu_found){
      .job = job, .values = decode.sizes.decoded, .suppressor = {.stop = job->stop, .params = &params->nms}};
  lay_out(&decode, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(&decode, &lane->scratch);
  for (int32_t cloud = 0; cloud < job->num_clouds && status == VX_OK; cloud++)
    status = decode_cloud(&decode, cloud, error);
  return status == VX_OK ? cpu_found_write(&decode.found, error) : status;
}

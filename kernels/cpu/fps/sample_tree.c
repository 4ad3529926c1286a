// Builds the tree of sample_tree.h: a k-d tree that cuts a cloud into up to eight parts at once.
//
// Cuts are estimated from a sample of the points. They affect the speed of the sampling, not its result.
#include "kernels/cpu/fps/sample_tree.h"

#include <math.h>
#include <string.h>

#include "kernels/half.h"

enum {
  LANES = CPU_SAMPLE_LANES,
  LEAF_AIM = 80,  // most points of a leaf, if cuts were exact
  MOST_PROBES = 32,
  MOST_POOR = 4,  // after this many poor cuts from the root, points are cut by their order alone
  CHUNK = 128,    // points handled together: their number fits in a byte
  FEW_SAMPLES = 48,
};

struct box {
  float low[3], high[3];
};

// sampler.points[side][begin..end - 1], after `poor` poor cuts from the root. A cut into two is poor if a part gets
// over three quarters of the points, any other cut if a part gets over half.
struct part {
  int32_t begin, end;
  int side, poor;
  int levels;  // how often the part is still to be halved
};

// Seven cuts as a heap: from cut i, a point below the cut goes on to cut 2i + 1, another point to 2i + 2.
struct cuts {
  float at[LANES - 1];
  int axis[LANES - 1];
};

void cpu_sampler_lay_out(struct cpu_sampler *sampler, struct cpu_arena *arena, int32_t num_points) {
  uint64_t points = (uint64_t)num_points;
  uint64_t leaves = points / CPU_SAMPLE_LEAF_MIN + 1;
  *sampler = (struct cpu_sampler){0};
  for (int side = 0; side < 2; side++)
    sampler->points[side] = cpu_arena_take(arena, points, sizeof *sampler->points[side]);
  sampler->codes = cpu_arena_take(arena, points, sizeof *sampler->codes);
  sampler->blocks = cpu_arena_take(arena, points / LANES + leaves, sizeof *sampler->blocks);
  sampler->leaves = cpu_arena_take(arena, leaves, sizeof *sampler->leaves);
  // A node has two or more children, except a root above a single leaf.
  sampler->nodes = cpu_arena_take(arena, leaves, sizeof *sampler->nodes);
}

static void widen(struct box *box, const float xyz[3]) {
  for (int axis = 0; axis < 3; axis++) {
    box->low[axis] = xyz[axis] < box->low[axis] ? xyz[axis] : box->low[axis];
    box->high[axis] = xyz[axis] > box->high[axis] ? xyz[axis] : box->high[axis];
  }
}

static const struct box nothing = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

static int longest_side(const struct box *box) {
  int longest = 0;
  for (int axis = 1; axis < 3; axis++)
    longest = box->high[axis] - box->low[axis] > box->high[longest] - box->low[longest] ? axis : longest;
  return longest;
}

// Moves the lower half of the points to the front.
static void halve(struct cpu_sample_point *points, int32_t count, int axis) {
  int32_t middle = count / 2, low = 0, high = count - 1;
  while (low < high) {
    float pivot = points[(low + high) / 2].xyz[axis];
    int32_t i = low, j = high;
    while (i <= j) {
      while (points[i].xyz[axis] < pivot) i++;
      while (points[j].xyz[axis] > pivot) j--;
      if (i <= j) {
        struct cpu_sample_point moved = points[i];
        points[i++] = points[j];
        points[j--] = moved;
      }
    }
    if (middle <= j)
      high = j;
    else if (middle >= i)
      low = i;
    else
      break;
  }
}

// Cuts the probes at their median along the longest side of their box, then each half, `levels` deep.
static void choose_cuts(struct cuts *cuts, int cut, int levels, struct cpu_sample_point *probes, int32_t count) {
  if (levels == 0) return;
  struct box box = nothing;
  for (int32_t i = 0; i < count; i++) widen(&box, probes[i].xyz);
  int axis = longest_side(&box);
  halve(probes, count, axis);
  float at = probes[count / 2].xyz[axis], low = box.low[axis], high = box.high[axis];
  if (at <= low) {  // no point is below this cut
    at = low / 2 + high / 2;
    at = at <= low ? high : at;
  }
  cuts->at[cut] = at;
  cuts->axis[cut] = axis;
  choose_cuts(cuts, 2 * cut + 1, levels - 1, probes, count / 2);
  choose_cuts(cuts, 2 * cut + 2, levels - 1, probes + count / 2, count - count / 2);
}

static void probe(const struct cpu_sampler *sampler, const struct part *part, int levels, struct cuts *cuts) {
  struct cpu_sample_point probes[MOST_PROBES];
  int32_t points = part->end - part->begin, count = points / 16 < MOST_PROBES ? points / 16 : MOST_PROBES;
  count = count < LANES ? LANES : count;
  for (int32_t i = 0; i < count; i++)
    probes[i] = sampler->points[part->side][part->begin + (int32_t)((int64_t)points * i / count)];
  for (int i = 0; i < LANES - 1; i++) {
    cuts->axis[i] = 0;
    cuts->at[i] = INFINITY;  // no cut: every point is below
  }
  choose_cuts(cuts, 0, levels, probes, count);
}

// ---- Cutting --------------------------------------------------------------------------------------------------------

// Writes each point's part, 0 to 7. Compares every point with every cut, so that the compiler can use vectors.
static void code_chunk(const struct cuts *cuts, const struct cpu_sample_point *points, int32_t count,
                       unsigned char *codes) {
  float xyz[3][CHUNK];
  for (int32_t i = 0; i < count; i++) {
    xyz[0][i] = points[i].xyz[0];
    xyz[1][i] = points[i].xyz[1];
    xyz[2][i] = points[i].xyz[2];
  }
  const float *on[LANES - 1];
  float at[LANES - 1];
  for (int i = 0; i < LANES - 1; i++) {
    on[i] = xyz[cuts->axis[i]];
    at[i] = cuts->at[i];
  }
  int32_t code[CHUNK];
  for (int32_t i = 0; i < count; i++) {
    // 0 or -1: a condition would become a branch.
    int32_t first = -(on[0][i] >= at[0]), left = -(on[1][i] >= at[1]), right = -(on[2][i] >= at[2]);
    int32_t second = (first & right) | (~first & left);
    int32_t under = (left & -(on[4][i] >= at[4])) | (~left & -(on[3][i] >= at[3]));
    int32_t over = (right & -(on[6][i] >= at[6])) | (~right & -(on[5][i] >= at[5]));
    code[i] = (first & 4) | (second & 2) | (((first & over) | (~first & under)) & 1);
  }
  for (int32_t i = 0; i < count; i++) codes[i] = (unsigned char)code[i];
}

static bool classify(struct cpu_sampler *sampler, const struct part *part, const struct cuts *cuts,
                     int32_t counts[LANES]) {
  memset(counts, 0, LANES * sizeof *counts);
  for (int32_t begin = part->begin; begin < part->end; begin += CHUNK) {
    int32_t count = part->end - begin < CHUNK ? part->end - begin : CHUNK;
    unsigned char *codes = sampler->codes + begin;
    code_chunk(cuts, sampler->points[part->side] + begin, count, codes);
    uint64_t counted = 0;  // a byte for each code
    for (int32_t i = 0; i < count; i++) counted += UINT64_C(1) << 8 * codes[i];
    for (int code = 0; code < LANES; code++) counts[code] += (int32_t)(counted >> 8 * code & 0xFF);
    if (vx_stopped(sampler->stop, count)) return false;
  }
  return true;
}

// Joins neighbouring parts until each group has enough points for a leaf. Returns the number of groups.
static int join(const int32_t counts[LANES], int group[LANES], int32_t sizes[LANES]) {
  int groups = 0;
  int32_t size = 0;
  for (int code = 0; code < LANES; code++) {
    group[code] = groups;
    size += counts[code];
    if (size >= CPU_SAMPLE_LEAF_MIN) {
      sizes[groups++] = size;
      size = 0;
    }
  }
  if (size > 0 || group[LANES - 1] == groups) {  // a rest that is too small joins the last group
    sizes[groups - 1] += size;
    for (int code = 0; code < LANES; code++) group[code] = group[code] == groups ? groups - 1 : group[code];
  }
  return groups;
}

// Moves the points to the other side, group by group. The points of a group keep their order.
static bool scatter(struct cpu_sampler *sampler, const struct part *part, const int group[LANES],
                    const int32_t sizes[LANES], int groups) {
  struct cpu_sample_point *to[LANES];
  const struct cpu_sample_point *from = sampler->points[part->side];
  to[0] = sampler->points[!part->side] + part->begin;
  for (int i = 1; i < groups; i++) to[i] = to[i - 1] + sizes[i - 1];
  VX_EACH_ROW(sampler->stop, i, part->begin, part->end) *to[group[sampler->codes[i]]]++ = from[i];
  return !sampler->stop->has_stopped;
}

// Cuts by coordinates, into at most 2^levels parts. Returns their number; 0 if the part stays whole, -1 if stopped.
static int cut_in_space(struct cpu_sampler *sampler, struct part *part, int levels, int32_t sizes[LANES]) {
  struct cuts cuts;
  int32_t counts[LANES];
  int group[LANES];
  probe(sampler, part, levels, &cuts);
  if (!classify(sampler, part, &cuts, counts)) return -1;
  int groups = join(counts, group, sizes);
  if (groups < 2) return 0;
  if (!scatter(sampler, part, group, sizes, groups)) return -1;
  part->side = !part->side;
  int32_t points = part->end - part->begin, most = levels == 1 ? points - points / 4 : points / 2;
  for (int i = 0; i < groups; i++) {
    if (sizes[i] > most) {
      part->poor++;
      break;
    }
  }
  return groups;
}

static int cut_in_order(const struct part *part, int levels, int32_t sizes[LANES]) {
  int32_t left = part->end - part->begin;
  for (int i = 0; i < 1 << levels; i++) {
    sizes[i] = left / ((1 << levels) - i);
    left -= sizes[i];
  }
  return 1 << levels;
}

// ---- The tree -------------------------------------------------------------------------------------------------------

static void make_leaf(struct cpu_sampler *sampler, const struct part *part, int32_t parent, int lane, struct box *box) {
  int32_t count = part->end - part->begin;
  const struct cpu_sample_point *points = sampler->points[part->side] + part->begin;
  struct cpu_sample_leaf *leaf = &sampler->leaves[sampler->num_leaves++];
  leaf->first_block = sampler->num_blocks;
  leaf->num_blocks = (count + LANES - 1) / LANES;
  leaf->parent = parent;
  leaf->lane = lane;
  memcpy(leaf->pending[0], sampler->task->points + (int64_t)sampler->task->start * sampler->task->columns,
         sizeof leaf->pending[0]);
  leaf->num_pending = 1;
  sampler->num_blocks += leaf->num_blocks;
  struct cpu_sample_block *block = &sampler->blocks[leaf->first_block];
  *box = nothing;
  for (int32_t i = 0; i < leaf->num_blocks * LANES; i++) {
    const struct cpu_sample_point *point = &points[i < count ? i : count - 1];
    int at = i % LANES;
    widen(box, point->xyz);
    for (int axis = 0; axis < 3; axis++) block[i / LANES].xyz[axis][at] = point->xyz[axis];
    block[i / LANES].distance[at] = i < count ? INFINITY : -1.0f;
    block[i / LANES].index[at] = point->index;
  }
}

static int levels_of(int32_t points) {
  int levels = 0;
  while (points >> levels > LEAF_AIM) levels++;
  return levels;
}

static bool fits_leaf(const struct part *part) {
  int32_t points = part->end - part->begin;
  return points <= (part->levels > 0 ? LEAF_AIM / 2 : CPU_SAMPLE_LEAF_MAX);
}

static struct cpu_sample_node *make_node(struct cpu_sampler *sampler, int32_t parent, int lane) {
  struct cpu_sample_node *node = &sampler->nodes[sampler->num_nodes++];
  for (int i = 0; i < LANES; i++) {
    for (int axis = 0; axis < 3; axis++) node->low[axis][i] = node->high[axis][i] = 0.0f;
    node->farthest[i] = -1.0f;
    node->key[i] = INT64_MIN;
    node->leaf[i] = node->child[i] = 0;
  }
  node->parent = parent;
  node->lane = lane;
  return node;
}

static void hang(struct cpu_sample_node *node, int lane, int32_t child, const struct box *box) {
  for (int axis = 0; axis < 3; axis++) {
    node->low[axis][lane] = box->low[axis];
    node->high[axis][lane] = box->high[axis];
  }
  node->child[lane] = child;
}

// With 2^31 points, recursion stays below CPU_SAMPLE_DEPTH: a cut into two that is not poor leaves at most 3/4 of the
// points in a part, any other at most 1/2. Parts of 64 points or more get no two cuts into two in a row, so two cuts
// leave at most 3/8. Cuts by order leave no larger parts.
static bool grow(struct cpu_sampler *sampler, struct part part, int32_t parent, int lane, struct box *box) {
  int32_t points = part.end - part.begin, sizes[LANES] = {points};
  int32_t number = sampler->num_nodes;
  struct cpu_sample_node *node = make_node(sampler, parent, lane);
  // Top nodes may have fewer children, so that most nodes are full.
  int left = part.levels > 0 ? part.levels : levels_of(points), levels = (left - 1) % 3 + 1, parts = 0;
  while (levels > 1 && points >> levels < CPU_SAMPLE_LEAF_MIN) levels--;
  part.levels = left - levels;
  if (number == 0 && points <= LEAF_AIM)
    parts = 1;
  else if (part.poor < MOST_POOR)
    parts = cut_in_space(sampler, &part, levels, sizes);
  if (parts < 0) return false;
  if (parts == 0) parts = cut_in_order(&part, levels, sizes);
  *box = nothing;
  for (int i = 0; i < parts; i++) {
    struct box inner;
    part.end = part.begin + sizes[i];
    int32_t child = ~sampler->num_leaves;
    if (fits_leaf(&part)) {
      make_leaf(sampler, &part, number, i, &inner);
      if (vx_stopped(sampler->stop, sizes[i])) return false;
    } else {
      child = sampler->num_nodes;
      if (!grow(sampler, part, number, i, &inner)) return false;
    }
    hang(node, i, child, &inner);
    widen(box, inner.low);
    widen(box, inner.high);
    part.begin = part.end;
  }
  return true;
}

bool cpu_sample_build(struct cpu_sampler *sampler) {
  const struct cpu_sample_task *task = sampler->task;
  struct part all = {0};
  VX_EACH_ROW(sampler->stop, i, 0, task->num_points) {
    const float *xyz = task->points + i * task->columns;
    sampler->points[0][all.end] = (struct cpu_sample_point){{xyz[0], xyz[1], xyz[2]}, (int32_t)i};
    // The next point overwrites a point that is not finite.
    all.end += vx_are_finite(xyz[0], xyz[1], xyz[2]);
  }
  if (sampler->stop->has_stopped) return false;
  // For few samples, cuts by coordinates cost more than they save.
  all.poor = task->num_samples < FEW_SAMPLES ? MOST_POOR : 0;
  sampler->num_blocks = sampler->num_leaves = sampler->num_nodes = 0;
  struct box box;
  return grow(sampler, all, -1, 0, &box);
}

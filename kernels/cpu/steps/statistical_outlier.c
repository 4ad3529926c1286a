// Statistical outlier on the CPU (kernels/step_statistical_outlier.h), cloud by cloud: builds the same tree of boxes as
// farthest point sampling, then searches it for each point's neighbours, leaf by leaf.
#include <string.h>

#include "kernels/cpu/fps/sample_tree.h"
#include "kernels/cpu/steps/steps.h"
#include "kernels/parallel_for.h"
#include "kernels/step_statistical_outlier.h"

enum {
  LANES = CPU_SAMPLE_LANES,
  GROUP = 4,                                           // distances that move together
  MOST_NEAREST = (VX_MAX_MEAN_K / GROUP + 1) * GROUP,  // at least VX_MAX_MEAN_K + 1
  TASK_LEAVES = 8,                                     // leaves whose points a task searches around
  STACK = (LANES - 1) * CPU_SAMPLE_DEPTH + LANES,      // maximum nodes and leaves that wait during a walk
};

// `largest`: rows of the largest cloud.
struct statistical_outlier {
  const struct cpu_chain *chain;
  const struct vx_statistical_outlier *params;
  struct vx_stop *stop;
  struct cpu_sampler tree;
  float *distances;    // [largest]: by row, set if the row is left; line_up packs them
  double *sums;        // [largest / VX_DEVIATION_GROUP + 1]: of groups
  int32_t begin, end;  // rows of the present cloud
  int32_t points;      // those of these rows that are left
};

// ---- search ---------------------------------------------------------------------------------------------------------

struct waiting {
  int32_t child;  // a node's number, or the complement of a leaf's
  float square;   // the squared distance to its box
};

struct search {
  const struct cpu_sampler *tree;
  int32_t mean_k;
  float at[3];
  // [MOST_NEAREST], ascending; nearest[-1] is -1. The first mean_k + 1 are the least squared distances so far, with
  // that of the point itself.
  float *nearest;
  float memory[GROUP + MOST_NEAREST];
  int32_t num_waiting;
  struct waiting waiting[STACK];
};

typedef float floats __attribute__((vector_size(GROUP * sizeof(float))));
typedef int32_t masks __attribute__((vector_size(GROUP * sizeof(int32_t))));

static floats choose(masks mask, floats a, floats b) { return (floats)((mask & (masks)a) | (~mask & (masks)b)); }

// Inserts a distance and drops the last, a group at a time, without branches.
static void add(struct search *own, float square) {
  for (int32_t begin = own->mean_k / GROUP * GROUP; begin >= 0; begin -= GROUP) {
    floats here, before, added = square - (floats){0};
    memcpy(&here, own->nearest + begin, sizeof here);
    memcpy(&before, own->nearest + begin - 1, sizeof before);
    added = choose(before > added, before, added);
    here = choose(here < added, here, added);
    memcpy(own->nearest + begin, &here, sizeof here);
  }
}

static void search_leaf(struct search *own, const struct cpu_sample_leaf *leaf) {
  const struct cpu_sample_block *block = &own->tree->blocks[leaf->first_block];
  for (const struct cpu_sample_block *end = block + leaf->num_blocks; block < end; block++) {
    float squares[LANES];
    for (int i = 0; i < LANES; i++) {
      float dx = own->at[0] - block->xyz[0][i], dy = own->at[1] - block->xyz[1][i], dz = own->at[2] - block->xyz[2][i];
      float square = (dx * dx + dy * dy) + dz * dz;
      squares[i] = block->distance[i] < 0.0f ? INFINITY : square;  // a lane without a point
    }
    for (int i = 0; i < LANES; i++)
      if (squares[i] < own->nearest[own->mean_k]) add(own, squares[i]);
  }
}

// Adds the node's children that may have neighbours, the nearest last.
static void search_node(struct search *own, const struct cpu_sample_node *node) {
  float squares[LANES];
  for (int i = 0; i < LANES; i++) {
    const float low[3] = {node->low[0][i], node->low[1][i], node->low[2][i]};
    const float high[3] = {node->high[0][i], node->high[1][i], node->high[2][i]};
    float square = vx_squared_distance_to_box(own->at, low, high);
    squares[i] = node->child[i] == 0 ? INFINITY : square;  // a lane without a child
  }
  int32_t first = own->num_waiting;
  for (int i = 0; i < LANES; i++) {
    if (!(squares[i] < own->nearest[own->mean_k])) continue;
    int32_t place = own->num_waiting++;
    for (; place > first && own->waiting[place - 1].square < squares[i]; place--)
      own->waiting[place] = own->waiting[place - 1];
    own->waiting[place] = (struct waiting){node->child[i], squares[i]};
  }
}

// A bound for the search around `at`, which also reaches the points that the last search found. At first infinite.
static float bound_of(const struct search *own, const float at[3]) {
  float last = own->nearest[own->mean_k];
  return vx_nearest_bound(sqrtf(last) + sqrtf(vx_squared_distance(own->at, at)));
}

// Returns the number of visited nodes and leaves.
static int32_t search_tree(struct search *own, float bound) {
  int32_t visited = 0;
  for (int i = 0; i < MOST_NEAREST; i++) own->nearest[i] = bound;
  own->waiting[0] = (struct waiting){0, 0.0f};
  own->num_waiting = 1;
  while (own->num_waiting > 0) {
    struct waiting next = own->waiting[--own->num_waiting];
    if (!(next.square < own->nearest[own->mean_k])) continue;
    visited++;
    if (next.child < 0)
      search_leaf(own, &own->tree->leaves[~next.child]);
    else
      search_node(own, &own->tree->nodes[next.child]);
  }
  return visited;
}

static void search_for_leaf(const struct statistical_outlier *own, struct search *search, struct vx_stop *stop,
                            const struct cpu_sample_leaf *leaf) {
  const struct cpu_sample_block *blocks = &own->tree.blocks[leaf->first_block];
  for (int32_t i = 0, visited = 0; i < leaf->num_blocks * LANES && !vx_stopped(stop, (int64_t)visited * LANES); i++) {
    const struct cpu_sample_block *block = &blocks[i / LANES];
    const float at[3] = {block->xyz[0][i % LANES], block->xyz[1][i % LANES], block->xyz[2][i % LANES]};
    visited = 0;
    if (block->distance[i % LANES] < 0.0f) continue;
    float bound = bound_of(search, at);
    memcpy(search->at, at, sizeof at);
    visited = search_tree(search, bound);
    own->distances[block->index[i % LANES]] = vx_mean_distance(search->nearest, search->mean_k, own->points);
  }
}

static enum vx_status search_leaves(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct statistical_outlier *own = ctx;
  int64_t begin = (int64_t)task * TASK_LEAVES;
  int64_t end = own->tree.num_leaves - begin < TASK_LEAVES ? own->tree.num_leaves : begin + TASK_LEAVES;
  struct search search;
  search.tree = &own->tree;
  search.mean_k = own->params->mean_k;
  search.nearest = search.memory + GROUP;
  search.nearest[-1] = -1.0f;
  search.nearest[search.mean_k] = INFINITY;
  memset(search.at, 0, sizeof search.at);
  VX_EACH_ROW(worker->stop, i, begin, end) search_for_leaf(own, &search, worker->stop, &own->tree.leaves[i]);
  return vx_stop_status(worker->stop, error);
}

// ---- mean and deviation ---------------------------------------------------------------------------------------------

// The sum of vx_deviation_term over all points, group by group.
static double sum(const struct statistical_outlier *own, bool squared, double mean) {
  int32_t count = 0;
  for (int32_t begin = 0; begin < own->points && !vx_stopped(own->stop, VX_DEVIATION_GROUP); count++) {
    int32_t end = own->points - begin < VX_DEVIATION_GROUP ? own->points : begin + VX_DEVIATION_GROUP;
    own->sums[count] = vx_deviation_term(own->distances[begin], squared, mean);
    while (++begin < end) own->sums[count] += vx_deviation_term(own->distances[begin], squared, mean);
  }
  while (count > 1) {
    int32_t groups = 0;
    for (int32_t begin = 0; begin < count; groups++) {
      int32_t end = count - begin < VX_DEVIATION_GROUP ? count : begin + VX_DEVIATION_GROUP;
      double group = own->sums[begin];
      while (++begin < end) group += own->sums[begin];
      own->sums[groups] = group;
    }
    count = groups;
  }
  return own->sums[0];
}

// Packs the distances at the front, without gaps for dropped rows.
static void line_up(const struct statistical_outlier *own) {
  int32_t points = 0;
  VX_EACH_ROW(own->stop, row, own->begin, own->end)
    if (cpu_row_left(own->chain, row)) own->distances[points++] = own->distances[row - own->begin];
}

static void drop(const struct statistical_outlier *own) {
  line_up(own);
  double mean = sum(own, false, 0.0) / own->points;
  double bound = vx_distance_bound(own->params, mean, sum(own, true, mean), own->points);
  const float *distance = own->distances;
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    if (!cpu_row_left(own->chain, row)) continue;
    if ((double)*distance++ > bound) cpu_drop(own->chain, row, VX_FATE_STATISTICAL_OUTLIER);
  }
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void count_points(struct statistical_outlier *own, int32_t *first) {
  own->points = 0;
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    if (!cpu_row_left(own->chain, row)) continue;
    if (own->points++ == 0) *first = (int32_t)row - own->begin;
  }
}

static enum vx_status judge_cloud(struct statistical_outlier *own, struct error *error) {
  const struct cpu_chain *chain = own->chain;
  struct cpu_sample_task task = {.points = chain->rows + (int64_t)own->begin * chain->columns,
                                 .columns = chain->columns,
                                 .num_points = own->end - own->begin,
                                 .num_samples = INT32_MAX,
                                 .stop = own->stop};
  count_points(own, &task.start);
  if (own->points < 2) return vx_stop_status(own->stop, error);
  own->tree.task = &task;
  own->tree.stop = own->stop;
  if (!cpu_sample_build(&own->tree)) return vx_stop_status(own->stop, error);
  const struct vx_tasks tasks = {(own->tree.num_leaves + TASK_LEAVES - 1) / TASK_LEAVES, search_leaves, own};
  enum vx_status status = vx_parallel_for(chain->job, chain->lane, &tasks, error);
  if (status != VX_OK) return status;
  drop(own);
  return vx_stop_status(own->stop, error);
}

static void lay_out(struct statistical_outlier *own, int32_t largest, struct cpu_arena *arena) {
  cpu_sampler_lay_out(&own->tree, arena, largest);
  own->distances = cpu_arena_take(arena, (uint64_t)largest, sizeof *own->distances);
  own->sums = cpu_arena_take(arena, (uint64_t)largest / VX_DEVIATION_GROUP + 1, sizeof *own->sums);
}

enum vx_status cpu_step_statistical_outlier(struct cpu_chain *chain, const struct vx_step *step, struct error *error) {
  struct statistical_outlier own = {
      .chain = chain, .params = &step->params.statistical_outlier, .stop = chain->job->stop};
  struct cpu_arena measured = {0};
  int32_t largest = cpu_largest_cloud(chain);
  lay_out(&own, largest, &measured);
  enum vx_status status = cpu_arena_reserve(&chain->lane->scratch, &measured, chain->job, error);
  if (status == VX_OK) lay_out(&own, largest, &chain->lane->scratch);
  for (int32_t cloud = 0; cloud < chain->job->num_clouds && status == VX_OK; cloud++) {
    own.begin = own.end;
    own.end += chain->job->point_counts[cloud];
    status = judge_cloud(&own, error);
  }
  return status;
}

// Radius outlier on the CPU (kernels/step_radius_outlier.h), cloud by cloud: sorts the points by cell, which gives each
// a place, then searches around each cell with few points.
//
// A block is eight cells, two along each axis: a search looks up 27 blocks, not 125 cells, and tests all their points.
#include <string.h>

#include "kernels/cpu/steps/steps.h"
#include "kernels/near.h"
#include "kernels/parallel_for.h"

enum {
  CHUNK = 256,        // rows whose cache misses overlap
  TASK_BLOCKS = 512,  // blocks that a task searches around
  NEAR_BLOCKS = 27,   // a block and those around it
  LANES = 16          // points that are tested together
};
#define NO_BLOCK UINT32_MAX

struct block {
  int32_t at[3];  // the block's coordinates, counted in blocks
  int32_t begin;  // the place of its first point
  // Of its cells: at first the number of points, in place_points the place of the next point, at last the end.
  int32_t ends[8];
};

// `largest`: rows of the largest cloud.
struct radius_outlier {
  const struct cpu_chain *chain;
  const struct vx_radius_outlier *params;
  struct vx_near_map map;
  struct vx_stop *stop;
  int32_t begin, end;    // the cloud's rows
  uint32_t *table;       // [slots]: numbers of blocks, or NO_BLOCK
  uint64_t mask;         // slots - 1
  struct block *blocks;  // [largest]
  int32_t num_blocks;
  int32_t *block_of;       // [largest]: of each row, or -1
  unsigned char *cell_of;  // [largest]: of each row, 0 to 7 in its block
  // By place, for the points that are left:
  float *x, *y, *z;  // [largest]; z is 0 if map.flat
  int32_t *row;      // [largest]
};

// ---- blocks ---------------------------------------------------------------------------------------------------------

// The slot at which the search for a block begins. The lane's seed keeps a client from choosing blocks that collide.
static uint64_t home_of(const struct radius_outlier *own, const int32_t at[3]) {
  __extension__ typedef unsigned __int128 wide;
  const uint64_t *seed = own->chain->lane->seed;
  wide product = (wide)(((uint64_t)(uint32_t)at[0] << 32 | (uint32_t)at[1]) ^ seed[0]) * (seed[1] | 1);
  product = (wide)(((uint64_t)product ^ (uint64_t)(product >> 64)) + (uint32_t)at[2]) * (seed[0] | 1);
  return ((uint64_t)product ^ (uint64_t)(product >> 64)) & own->mask;
}

// The slot of a block, or the free slot where it belongs. At least half of the slots are free.
static uint64_t slot_of(const struct radius_outlier *own, const int32_t at[3], uint64_t slot) {
  while (own->table[slot] != NO_BLOCK && memcmp(own->blocks[own->table[slot]].at, at, sizeof(int32_t[3])) != 0)
    slot = (slot + 1) & own->mask;
  return slot;
}

static int32_t add_block(struct radius_outlier *own, const int32_t at[3], uint64_t home) {
  uint64_t slot = slot_of(own, at, home);
  if (own->table[slot] == NO_BLOCK) {
    own->table[slot] = (uint32_t)own->num_blocks;
    own->blocks[own->num_blocks++] = (struct block){.at = {at[0], at[1], at[2]}};
  }
  return (int32_t)own->table[slot];
}

static void find_blocks(struct radius_outlier *own) {
  const struct cpu_chain *chain = own->chain;
  for (int32_t begin = own->begin, count; begin < own->end && !vx_stopped(own->stop, CHUNK); begin += count) {
    int32_t at[CHUNK][3], places[CHUNK], found = 0;  // of the rows that are left
    uint64_t home[CHUNK];
    count = own->end - begin < CHUNK ? own->end - begin : CHUNK;
    for (int32_t i = begin; i < begin + count; i++) {
      const float *left = cpu_row_left(chain, i);
      int32_t place = i - own->begin, cell[3];
      own->block_of[place] = -1;
      if (!left) continue;
      vx_near_cell(&own->map, left, cell);
      own->cell_of[place] = (unsigned char)((cell[0] & 1) << 2 | (cell[1] & 1) << 1 | (cell[2] & 1));
      for (int axis = 0; axis < 3; axis++) at[found][axis] = cell[axis] >> 1;
      home[found] = home_of(own, at[found]);
      __builtin_prefetch(&own->table[home[found]]);
      places[found++] = place;
    }
    for (int32_t i = 0; i < found; i++) {
      int32_t block = own->block_of[places[i]] = add_block(own, at[i], home[i]);
      own->blocks[block].ends[own->cell_of[places[i]]]++;
    }
  }
}

static void place_points(struct radius_outlier *own) {
  int32_t before = 0;
  VX_EACH_ROW(own->stop, i, 0, own->num_blocks) {
    struct block *block = &own->blocks[i];
    block->begin = before;
    for (int cell = 0; cell < 8; cell++) {
      int32_t points = block->ends[cell];
      block->ends[cell] = before;
      before += points;
    }
  }
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    int32_t block = own->block_of[row - own->begin];
    if (block < 0) continue;
    const float *point = own->chain->rows + row * own->chain->columns;
    int32_t place = own->blocks[block].ends[own->cell_of[row - own->begin]]++;
    own->x[place] = point[0];
    own->y[place] = point[1];
    own->z[place] = own->map.flat ? 0.0f : point[2];
    own->row[place] = (int32_t)row;
  }
}

// ---- searches -------------------------------------------------------------------------------------------------------

// Offsets of the blocks around a block: first those that share a face with it, where most neighbours are, then an edge,
// then a corner.
static const signed char around[NEAR_BLOCKS - 1][3] = {
    {1, 0, 0},   {-1, 0, 0}, {0, 1, 0},  {0, -1, 0},  {0, 0, 1},   {0, 0, -1},  {1, 1, 0},   {1, -1, 0},   {-1, 1, 0},
    {-1, -1, 0}, {1, 0, 1},  {1, 0, -1}, {-1, 0, 1},  {-1, 0, -1}, {0, 1, 1},   {0, 1, -1},  {0, -1, 1},   {0, -1, -1},
    {1, 1, 1},   {1, 1, -1}, {1, -1, 1}, {1, -1, -1}, {-1, 1, 1},  {-1, 1, -1}, {-1, -1, 1}, {-1, -1, -1},
};

// Fills `near` with the blocks around a block, itself first.
static int32_t blocks_near(const struct radius_outlier *own, const struct block *block,
                           const struct block *near[NEAR_BLOCKS]) {
  uint64_t home[NEAR_BLOCKS - 1];
  int32_t at[NEAR_BLOCKS - 1][3], count = 1;
  near[0] = block;
  for (int i = 0; i < NEAR_BLOCKS - 1; i++) {
    for (int axis = 0; axis < 3; axis++) at[i][axis] = block->at[axis] + around[i][axis];
    home[i] = home_of(own, at[i]);
    __builtin_prefetch(&own->table[home[i]]);
  }
  for (int i = 0; i < NEAR_BLOCKS - 1; i++) {
    uint32_t number = own->table[slot_of(own, at[i], home[i])];
    if (number != NO_BLOCK) near[count++] = &own->blocks[number];
  }
  return count;
}

// Whether more than min_neighbors points are near the point at `place`, which itself counts.
static bool has_neighbors(const struct radius_outlier *own, int32_t place, const struct block *const *near,
                          int32_t num_near) {
  const float x = own->x[place], y = own->y[place], z = own->z[place];
  const float most = own->params->radius * own->params->radius;
  int32_t found = 0;
  for (int32_t i = 0; i < num_near; i++)
    for (int32_t begin = near[i]->begin, end = near[i]->ends[7]; begin < end; begin += LANES) {
      int32_t count = end - begin < LANES ? end - begin : LANES;
      for (int32_t k = 0; k < count; k++) {
        float dx = x - own->x[begin + k], dy = y - own->y[begin + k], dz = z - own->z[begin + k];
        found += (dx * dx + dy * dy) + dz * dz <= most;
      }
      if (found > own->params->min_neighbors) return true;
    }
  return false;
}

static void search(const struct radius_outlier *own, struct vx_stop *stop, const struct block *block) {
  const struct block *near[NEAR_BLOCKS];
  int32_t num_near = 0;
  for (int cell = 0, begin = block->begin; cell < 8; begin = block->ends[cell++]) {
    if (block->ends[cell] == begin || block->ends[cell] - begin > own->params->min_neighbors) continue;
    if (num_near == 0) num_near = blocks_near(own, block, near);
    for (int32_t place = begin; place < block->ends[cell] && !vx_stopped(stop, NEAR_BLOCKS); place++)
      if (!has_neighbors(own, place, near, num_near)) cpu_drop(own->chain, own->row[place], VX_FATE_RADIUS_OUTLIER);
  }
}

static enum vx_status search_blocks(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct radius_outlier *own = ctx;
  int64_t begin = (int64_t)task * TASK_BLOCKS;
  int64_t end = own->num_blocks - begin < TASK_BLOCKS ? own->num_blocks : begin + TASK_BLOCKS;
  VX_EACH_ROW(worker->stop, i, begin, end) search(own, worker->stop, &own->blocks[i]);
  return vx_stop_status(worker->stop, error);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static enum vx_status judge_cloud(struct radius_outlier *own, struct error *error) {
  uint64_t slots = 2;
  while (slots < 2 * (uint64_t)(own->end - own->begin)) slots *= 2;
  own->mask = slots - 1;
  own->num_blocks = 0;
  vx_fill(own->stop, own->table, -1, slots * sizeof *own->table);
  find_blocks(own);
  place_points(own);
  enum vx_status status = vx_stop_status(own->stop, error);
  const struct vx_tasks tasks = {(own->num_blocks + TASK_BLOCKS - 1) / TASK_BLOCKS, search_blocks, own};
  return status == VX_OK ? vx_parallel_for(own->chain->job, own->chain->lane, &tasks, error) : status;
}

static void lay_out(struct radius_outlier *own, uint64_t largest, struct cpu_arena *arena) {
  own->table = cpu_arena_take(arena, 4 * largest + 2, sizeof *own->table);
  own->blocks = cpu_arena_take(arena, largest, sizeof *own->blocks);
  own->block_of = cpu_arena_take(arena, largest, sizeof *own->block_of);
  own->cell_of = cpu_arena_take(arena, largest, sizeof *own->cell_of);
  own->x = cpu_arena_take(arena, largest, sizeof *own->x);
  own->y = cpu_arena_take(arena, largest, sizeof *own->y);
  own->z = cpu_arena_take(arena, largest, sizeof *own->z);
  own->row = cpu_arena_take(arena, largest, sizeof *own->row);
}

enum vx_status cpu_step_radius_outlier(struct cpu_chain *chain, const struct vx_step *step, struct error *error) {
  const struct vx_radius_outlier *params = &step->params.radius_outlier;
  struct radius_outlier own = {
      .chain = chain, .params = params, .map = vx_near_map_of(params), .stop = chain->job->stop};
  struct cpu_arena measured = {0};
  uint64_t largest = (uint64_t)cpu_largest_cloud(chain);
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

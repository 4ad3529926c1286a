// Downsample on the CPU (kernels/step_downsample.h), cloud by cloud. The first pass finds each row's cell and the row
// that represents it, unless the mean decides that. The second pass drops the other rows.
#include <string.h>

#include "kernels/cpu/base/sums.h"
#include "kernels/cpu/steps/steps.h"
#include "kernels/near.h"
#include "kernels/random.h"

enum { CHUNK = 256 };  // rows whose cache misses overlap

struct downsample {
  const struct cpu_chain *chain;
  const struct vx_downsample *params;
  struct vx_stop *stop;
  int32_t begin, end;  // rows of the current cloud
  // Of the current cloud. `largest`: rows of the largest cloud.
  struct cpu_cell_index cells;
  int32_t *cell_of;  // [largest]: number of each row's cell, or -1
  int32_t *heads;    // [largest]: the row that represents each cell
  uint64_t *ranks;   // [largest]: the ranks of the rows in `heads`, if the least rank decides
  int32_t *list;     // [largest]: rows, cell by cell, if there are means
  int32_t *next;     // [largest]: where the next row of each cell goes in the list
};

// The cells of a chunk. Always computed for a whole chunk, since the vectorizer needs a constant trip count.
struct located {
  int32_t count;        // rows in the lattice
  int32_t at[CHUNK];    // these rows, within the chunk
  uint64_t key[CHUNK];  // their cells
};

static bool has_ranks(const struct vx_downsample *params) {
  return params->method == VX_DOWNSAMPLE_CENTER || params->method == VX_DOWNSAMPLE_RANDOM;
}

static bool has_means(const struct vx_downsample *params) {
  return params->method == VX_DOWNSAMPLE_CENTROID || params->method == VX_DOWNSAMPLE_NEAREST_CENTROID;
}

// Takes `params` by value and `cells` as a constant, so that the loop has no branch.
static inline void locate_on_axis(struct vx_downsample params, enum vx_lattice_cells cells, int axis, const float *p,
                                  int32_t *cell, int32_t *inside) {
  params.cells = cells;
  for (int32_t i = 0; i < CHUNK; i++) inside[i] &= vx_lattice_on_axis(&params, axis, p[i], &cell[i]);
}

static void locate(const struct downsample *own, const float *rows, int32_t count, struct located *located) {
  int64_t columns = own->chain->columns;
  float xyz[3][CHUNK] = {{0}};
  int32_t cell[3][CHUNK], inside[CHUNK], num = 0;
  for (int32_t i = 0; i < count; i++)
    for (int axis = 0; axis < 3; axis++) xyz[axis][i] = rows[i * columns + axis];
  for (int32_t i = 0; i < CHUNK; i++) inside[i] = 1;
  for (int axis = 0; axis < 3; axis++)
    if (own->params->cells == VX_CELLS_NEAREST)
      locate_on_axis(*own->params, VX_CELLS_NEAREST, axis, xyz[axis], cell[axis], inside);
    else
      locate_on_axis(*own->params, VX_CELLS_FLOOR, axis, xyz[axis], cell[axis], inside);
  for (int32_t i = 0; i < count; i++) {
    located->at[num] = i;
    located->key[num] = vx_lattice_key(cell[0][i], cell[1][i], cell[2][i]);
    num += inside[i];  // the next row overwrites a row outside
  }
  located->count = num;
}

static void drop_outside(const struct downsample *own, int32_t begin, int32_t count, const struct located *located) {
  for (int32_t i = 0, next = 0; i < count; i++)
    if (next < located->count && located->at[next] == i)
      next++;
    else if (cpu_row_left(own->chain, begin + i))
      cpu_drop(own->chain, begin + i, VX_FATE_OUT_OF_LATTICE);
}

static uint64_t rank_of(const struct downsample *own, int32_t row, uint64_t key) {
  if (own->params->method == VX_DOWNSAMPLE_RANDOM) return vx_random_of_row((uint64_t)own->params->seed, (uint64_t)row);
  float centre[3];
  vx_lattice_centre(own->params, key, centre);
  return vx_float_bits(vx_squared_distance(own->chain->rows + (int64_t)row * own->chain->columns, centre));
}

// The first row of a cell, or the row with the least rank so far, represents the cell.
static void add(struct downsample *own, struct cpu_cell_index *cells, int32_t row, uint64_t key, uint32_t home) {
  int32_t known = cells->count, number = cpu_cell_index_add(cells, key, home);
  own->cell_of[row - own->begin] = number;
  if (!own->ranks) {
    if (number == known) own->heads[number] = row;
    return;
  }
  uint64_t rank = rank_of(own, row, key);
  if (number == known || rank < own->ranks[number]) {
    own->ranks[number] = rank;
    own->heads[number] = row;
  }
}

static void find_cells(struct downsample *own) {
  struct cpu_cell_index cells = own->cells;  // a copy, which the compiler can keep in registers
  cpu_seed_index(own->chain->lane, own->end - own->begin, &cells);
  cpu_cell_index_start(&cells, own->end - own->begin, VX_LATTICE_KEY_BITS);
  vx_fill(own->stop, own->cell_of, -1, (size_t)(own->end - own->begin) * sizeof *own->cell_of);
  for (int32_t begin = own->begin, count; begin < own->end && !vx_stopped(own->stop, CHUNK); begin += count) {
    struct located located;
    uint32_t home[CHUNK];
    count = own->end - begin < CHUNK ? own->end - begin : CHUNK;
    locate(own, own->chain->rows + (int64_t)begin * own->chain->columns, count, &located);
    for (int32_t i = 0; i < located.count; i++) {
      home[i] = cpu_cell_index_home(&cells, located.key[i]);
      __builtin_prefetch(&cells.table[home[i]]);
    }
    for (int32_t i = 0; i < located.count; i++) add(own, &cells, begin + located.at[i], located.key[i], home[i]);
    if (located.count < count) drop_outside(own, begin, count, &located);
  }
  own->cells = cells;
}

// ---- means ----------------------------------------------------------------------------------------------------------

static void list_rows(const struct downsample *own) {
  int32_t before = 0;
  VX_EACH_ROW(own->stop, number, 0, own->cells.count) {
    own->next[number] = before;
    before += own->cells.entries[number].hits;
  }
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    int32_t number = own->cell_of[row - own->begin];
    if (number >= 0) own->list[own->next[number]++] = (int32_t)row;
  }
}

static int32_t nearest_to(const struct downsample *own, const float *place, const int32_t *list, int32_t count) {
  const struct cpu_chain *chain = own->chain;
  uint32_t least = UINT32_MAX;
  int32_t nearest = list[0];
  for (int32_t i = 0; i < count; i++) {
    float distance = vx_squared_distance(chain->rows + (int64_t)list[i] * chain->columns, place);
    uint32_t rank = vx_float_bits(vx_canonical(distance));  // the mean may be NaN
    if (rank < least) {
      least = rank;
      nearest = list[i];
    }
  }
  return nearest;
}

// Lets the row nearest to the mean of a cell's rows represent the cell, or replaces its first row by the mean.
static void use_mean(const struct downsample *own, int32_t number, const int32_t *list, int32_t count) {
  const struct cpu_chain *chain = own->chain;
  bool nearest = own->params->method == VX_DOWNSAMPLE_NEAREST_CENTROID;
  int32_t columns = nearest || own->params->average == VX_AVERAGE_XYZ ? 3 : chain->columns;
  const struct cpu_summands rows = {chain->rows, chain->columns, columns, true};
  float mean[VX_MAX_FEATURES];
  cpu_sum_rows(&rows, list, count, mean);
  for (int32_t c = 0; c < columns; c++) mean[c] = vx_canonical(mean[c] / (float)count);
  if (nearest) {
    own->heads[number] = nearest_to(own, mean, list, count);
    return;
  }
  memcpy(chain->rows + (int64_t)list[0] * chain->columns, mean, (size_t)columns * sizeof *mean);
  if (!vx_are_finite(mean[0], mean[1], mean[2])) cpu_drop(chain, list[0], VX_FATE_NOT_FINITE);
}

static void use_means(const struct downsample *own) {
  int32_t begin = 0;
  list_rows(own);
  VX_EACH_ROW(own->stop, number, 0, own->cells.count) {
    int32_t count = own->cells.entries[number].hits;
    if (count >= own->params->min_points) use_mean(own, (int32_t)number, own->list + begin, count);
    begin += count;
  }
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void drop_others(const struct downsample *own) {
  const struct cpu_chain *chain = own->chain;
  bool all = own->params->method == VX_DOWNSAMPLE_ALL;
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    int32_t number = own->cell_of[row - own->begin];
    if (number < 0) continue;
    if (own->cells.entries[number].hits < own->params->min_points)
      cpu_drop(chain, row, VX_FATE_SPARSE_VOXEL);
    else if (!all && own->heads[number] != row)
      cpu_merge(chain, row, own->heads[number]);
  }
}

static void keep_every(const struct downsample *own) {
  int32_t rank = 0;
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    if (!cpu_row_left(own->chain, row)) continue;
    if (rank != 0) cpu_drop(own->chain, row, VX_FATE_SKIPPED);
    rank = rank + 1 == own->params->every ? 0 : rank + 1;
  }
}

static void thin_cells(struct downsample *own) {
  find_cells(own);
  if (has_means(own->params)) use_means(own);
  drop_others(own);
}

static void lay_out(struct downsample *own, uint64_t largest, struct cpu_arena *arena) {
  uint64_t slots = cpu_cell_index_slots((int64_t)largest, VX_LATTICE_KEY_BITS);
  own->cells.table = cpu_arena_take(arena, slots, sizeof *own->cells.table);
  own->cells.entries = cpu_arena_take(arena, largest, sizeof *own->cells.entries);
  own->cell_of = cpu_arena_take(arena, largest, sizeof *own->cell_of);
  own->heads = cpu_arena_take(arena, largest, sizeof *own->heads);
  if (has_ranks(own->params)) own->ranks = cpu_arena_take(arena, largest, sizeof *own->ranks);
  if (has_means(own->params)) {
    own->list = cpu_arena_take(arena, largest, sizeof *own->list);
    own->next = cpu_arena_take(arena, largest, sizeof *own->next);
  }
}

static enum vx_status take_scratch(struct downsample *own, struct error *error) {
  const struct cpu_chain *chain = own->chain;
  struct cpu_arena measured = {0};
  uint64_t largest = (uint64_t)cpu_largest_cloud(chain);
  lay_out(own, largest, &measured);
  enum vx_status status = cpu_arena_reserve(&chain->lane->scratch, &measured, chain->job, error);
  if (status == VX_OK) lay_out(own, largest, &chain->lane->scratch);
  return status;
}

enum vx_status cpu_step_downsample(struct cpu_chain *chain, const struct vx_step *step, struct error *error) {
  struct downsample own = {.chain = chain, .params = &step->params.downsample, .stop = chain->job->stop};
  bool by_cells = own.params->every == 0;
  enum vx_status status = by_cells ? take_scratch(&own, error) : VX_OK;
  for (int32_t cloud = 0; cloud < chain->job->num_clouds && status == VX_OK; cloud++) {
    own.begin = own.end;
    own.end += chain->job->point_counts[cloud];
    if (by_cells)
      thin_cells(&own);
    else
      keep_every(&own);
    status = vx_stop_status(own.stop, error);
  }
  return status;
}

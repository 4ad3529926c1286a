// The block filter: a row stays if the heights of the kept points around it span more than `low` and less than `high`.
//
// A cell index finds the blocks that have rows. When they are sorted by key, the blocks in one column of a window are
// neighbours. Two tabulated stretches of 2^k blocks cover them, so a block takes one step per column of its window.
#include "kernels/cpu/voxelize/voxelize.h"

#include <math.h>

static void include(struct cpu_heights *heights, float min, float max) {
  heights->min = min < heights->min ? min : heights->min;
  heights->max = max > heights->max ? max : heights->max;
}

static void collect_heights(struct cpu_run *run, const struct cpu_row *rows, int32_t num_rows) {
  int32_t factor = run->params->block_filter.factor;
  cpu_cell_index_start(&run->blocks, num_rows, run->block_key.bits);
  VX_EACH_ROW(run->stop, i, 0, num_rows) {
    int32_t cell[3];
    vx_cell_of_key(run->map.key, rows[i].key, cell);
    uint64_t key = vx_key(run->block_key, cell[0] / factor, cell[1] / factor, 0);
    int32_t block = cpu_cell_index_add(&run->blocks, key, cpu_cell_index_home(&run->blocks, key));
    if (run->blocks.entries[block].hits == 1)
      run->heights[block] = (struct cpu_heights){.min = INFINITY, .max = -INFINITY};
    for (int32_t j = rows[i].first; j < rows[i].first + rows[i].kept; j++) {
      float z = run->points[(int64_t)run->list[j] * run->columns + 2];
      include(&run->heights[block], z, z);
    }
    run->block_of[i] = block;
  }
}

static const struct cpu_keyed *sort_blocks(struct cpu_run *run) {
  int32_t num_blocks = run->blocks.count;
  VX_EACH_ROW(run->stop, block, 0, num_blocks)
    run->sorting[block] = (struct cpu_keyed){.key = run->blocks.entries[block].key, .number = (int32_t)block};
  return cpu_sort(run->stop, run->sorting, run->sorting + run->largest_rows, num_blocks, run->block_key.bits);
}

// Fills stretch_heights[k][i] with the heights of the sorted blocks i .. i + 2^k - 1, for all k that fit a window.
static void tabulate_stretches(struct cpu_run *run, const struct cpu_keyed *sorted) {
  int32_t num_blocks = run->blocks.count;
  VX_EACH_ROW(run->stop, i, 0, num_blocks) run->stretch_heights[0][i] = run->heights[sorted[i].number];
  for (int k = 1; (1 << k) <= run->params->block_filter.size; k++) {
    const struct cpu_heights *half = run->stretch_heights[k - 1];
    VX_EACH_ROW(run->stop, i, 0, num_blocks - (1 << k) + 1) {
      struct cpu_heights heights = half[i];
      include(&heights, half[i + (1 << (k - 1))].min, half[i + (1 << (k - 1))].max);
      run->stretch_heights[k][i] = heights;
    }
  }
}

// Adds the heights of the sorted blocks begin .. end - 1, from two stretches of 2^k blocks, which may overlap.
static void include_stretch(const struct cpu_run *run, int32_t begin, int32_t end, struct cpu_heights *heights) {
  if (begin < end) {
    int k = 31 - __builtin_clz((unsigned)(end - begin));
    const struct cpu_heights *first = &run->stretch_heights[k][begin], *last = &run->stretch_heights[k][end - (1 << k)];
    include(heights, first->min, first->max);
    include(heights, last->min, last->max);
  }
}

// The part of a window in the grid, on one axis: blocks begin .. end - 1. The grid's lower edge cuts off `offset`
// blocks.
struct window {
  int32_t begin, end, offset;
};

static struct window window_around(int32_t block, int32_t size, int32_t num_blocks) {
  int32_t below = size / 2, above = size - size / 2;
  int32_t offset = block < below ? below - block : 0;
  return (struct window){
      .begin = block - below + offset,
      .end = num_blocks - block < above ? num_blocks : block + above,
      .offset = offset,
  };
}

// The blocks of one column of a window: sorted blocks begin .. end - 1.
struct stretch {
  int32_t begin, end;
};

static void advance(struct stretch *blocks, const struct cpu_keyed *sorted, int32_t num_blocks, uint64_t first_key,
                    uint64_t last_key) {
  while (blocks->begin < num_blocks && sorted[blocks->begin].key < first_key) blocks->begin++;
  while (blocks->end < num_blocks && sorted[blocks->end].key <= last_key) blocks->end++;
}

enum { CHUNK = 64 };  // blocks between two checks for a stop; each block takes a step per column

// Decides which blocks stay, in one pass. From block to block, the d-th column of the window moves only to larger keys,
// so its stretch only advances.
static void judge_blocks(struct cpu_run *run, const struct cpu_keyed *sorted) {
  const struct vx_block_filter *filter = &run->params->block_filter;
  struct stretch columns[VX_MAX_BLOCK_SIZE] = {{0, 0}};
  for (int32_t i = 0; i < run->blocks.count; i++) {
    if (i % CHUNK == 0 && vx_stopped(run->stop, (int64_t)CHUNK * filter->size)) return;
    int32_t block[3];
    vx_cell_of_key(run->block_key, sorted[i].key, block);
    struct window xs = window_around(block[0], filter->size, run->grid_blocks[0]);
    struct window ys = window_around(block[1], filter->size, run->grid_blocks[1]);
    struct cpu_heights heights = run->stretch_heights[0][i];
    for (int32_t x = xs.begin, d = xs.offset; x < xs.end; x++, d++) {
      advance(&columns[d], sorted, run->blocks.count, vx_key(run->block_key, x, ys.begin, 0),
              vx_key(run->block_key, x, ys.end - 1, 0));
      include_stretch(run, columns[d].begin, columns[d].end, &heights);
    }
    float span = heights.max - heights.min;
    run->block_stays[sorted[i].number] = span > filter->low && span < filter->high;
  }
}

static void count_filtered(struct cpu_run *run, const struct cpu_row *row) {
  struct vx_counts *counts = &run->job->counts;
  int32_t hits = run->cells.entries[row->number].hits;
  counts->kept -= row->kept;
  counts->over_voxel_cap -= hits - row->kept;
  counts->block_filtered += hits;
  counts->voxels_kept--;
  counts->voxels_block_filtered++;
}

void cpu_filter_blocks(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct cpu_row *rows = run->rows + cloud->first_row;
  int32_t num_rows = run->num_rows - cloud->first_row;
  collect_heights(run, rows, num_rows);
  const struct cpu_keyed *sorted = sort_blocks(run);
  tabulate_stretches(run, sorted);
  judge_blocks(run, sorted);
  int32_t stay = 0;
  VX_EACH_ROW(run->stop, i, 0, num_rows)
    if (run->block_stays[run->block_of[i]])
      rows[stay++] = rows[i];
    else
      count_filtered(run, &rows[i]);
  run->num_rows = cloud->first_row + stay;
}

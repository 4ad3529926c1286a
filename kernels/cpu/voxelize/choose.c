// Chooses what the caps keep, unless they keep what comes first (struct vx_choice). Gives the chosen voxels the lowest
// numbers, and moves the chosen points to the front of their lists, so that other stages need not differ.
#include "kernels/cpu/voxelize/voxelize.h"

#include "kernels/random.h"

// ---- voxels ---------------------------------------------------------------------------------------------------------

// All voxels of a lower rank stay, and the first `ties` voxels of this rank.
struct last_voxel {
  uint32_t rank;
  int32_t ties;
};

static void rank_voxels(struct cpu_run *run) {
  VX_EACH_ROW(run->stop, number, 0, run->cells.count) {
    const struct cpu_cell_entry *entry = &run->cells.entries[number];
    int32_t cell[3];
    vx_cell_of_key(run->map.key, entry->key, cell);
    run->voxel_ranks[number] = vx_voxel_rank(run->params->choice.voxels_by, &run->map, cell, (uint32_t)entry->hits);
  }
}

// Finds the rank digit by digit, the highest first. Expects more than max_voxels voxels.
static struct last_voxel find_last(const struct cpu_run *run) {
  enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, RANK_BITS = 32 };
  uint64_t rank = 0;
  int32_t left = run->params->max_voxels;
  for (int shift = RANK_BITS - DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
    int32_t voxels[DIGITS] = {0}, digit = 0;
    VX_EACH_ROW(run->stop, number, 0, run->cells.count) {
      uint64_t upto = run->voxel_ranks[number] >> shift;
      if (upto >> DIGIT_BITS == rank) voxels[upto % DIGITS]++;
    }
    for (; digit < DIGITS - 1 && left > voxels[digit]; digit++) left -= voxels[digit];
    rank = rank << DIGIT_BITS | (uint64_t)digit;
  }
  return (struct last_voxel){(uint32_t)rank, left};
}

void cpu_choose_voxels(struct cpu_run *run) {
  struct cpu_cell_entry *entries = run->cells.entries;
  int32_t stay = 0, go = run->params->max_voxels;
  struct last_voxel last = {UINT32_MAX, INT32_MAX};
  rank_voxels(run);
  if (run->cells.count > go) last = find_last(run);
  VX_EACH_ROW(run->stop, number, 0, run->cells.count) {
    uint32_t rank = run->voxel_ranks[number];
    bool tied = rank == last.rank, stays = tied ? last.ties > 0 : rank < last.rank;
    int32_t place = stays ? stay++ : go++;
    last.ties -= tied;
    run->new_numbers[number] = place;
    run->other_entries[place] = entries[number];
  }
  run->cells.entries = run->other_entries;
  run->other_entries = entries;
}

void cpu_renumber_points(struct cpu_run *run) {
  VX_EACH_ROW(run->stop, i, 0, run->num_inside) run->voxel_of[i] = run->new_numbers[run->voxel_of[i]];
}

// ---- points ---------------------------------------------------------------------------------------------------------

static uint64_t rank_of(const struct cpu_run *run, int32_t point) {
  return vx_random_of_row((uint64_t)run->params->choice.seed, (uint64_t)point);
}

// The cap-th least rank in a list of more than `cap` points. A heap has the `cap` least ranks so far, the largest on
// top.
static uint64_t last_rank(const struct cpu_run *run, const int32_t *list, int32_t hits) {
  uint64_t heap[VX_MAX_POINTS_PER_VOXEL];
  int32_t cap = run->cap;
  memset(heap, 0xFF, (size_t)cap * sizeof *heap);
  VX_EACH_ROW(run->stop, i, 0, hits) {
    uint64_t rank = rank_of(run, list[i]);
    if (rank >= heap[0]) continue;
    int32_t at = 0;
    for (int32_t below = 1; below < cap; below = 2 * at + 1) {
      below += below + 1 < cap && heap[below + 1] > heap[below];
      if (heap[below] <= rank) break;
      heap[at] = heap[below];
      at = below;
    }
    heap[at] = rank;
  }
  return heap[0];
}

static void choose_points_of(const struct cpu_run *run, int32_t *list, int32_t hits) {
  uint64_t last = last_rank(run, list, hits);
  int32_t stay = 0, go = 0;
  VX_EACH_ROW(run->stop, i, 0, hits) {
    int32_t point = list[i];
    if (rank_of(run, point) <= last)
      list[stay++] = point;
    else
      run->dropped[go++] = point;
  }
  vx_copy(run->stop, list + stay, run->dropped, (size_t)go * sizeof *list);
}

void cpu_choose_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  VX_EACH_ROW(run->stop, i, cloud->first_row, run->num_rows) {
    const struct cpu_row *row = &run->rows[i];
    int32_t hits = run->cells.entries[row->number].hits;
    if (hits > row->kept) choose_points_of(run, run->list + row->first, hits);
  }
}

// From points to voxels.
//
// The slots of a chunk's cells are prefetched before they are looked up, so the cache misses of a chunk overlap.
//
// A sensor often hits one cell several times in a row. A chunk with many such runs is looked up run by run, which saves
// hashes and mispredicted branches. Other chunks, and dense indexes, which do not hash, are faster point by point.
#include "kernels/cpu/voxelize/voxelize.h"

#include <string.h>

#include "kernels/cpu/voxelize/locate.h"

enum {
  SAMPLED = 7,  // one of this many points is checked for runs; odd, so that no beam is missed all the time
  FILLED = 8    // voxel numbers written at a time
};

// Whether more than a third of the points, judged by a sample, share the previous point's cell.
static bool have_runs(const struct cpu_located *located) {
  int32_t sampled = 0, same = 0;
  for (int32_t i = 1; i < located->num_inside; i += SAMPLED) {
    sampled++;
    same += located->key[i] == located->key[i - 1];
  }
  return same * 3 > sampled;
}

// Keeps one key per run of points in one cell, and fills `ends`. Returns the number of runs.
static int32_t join_runs(struct cpu_located *located, int32_t *ends) {
  uint64_t key = located->key[0];
  int32_t runs = 0;
  for (int32_t i = 1; i < located->num_inside; i++) {
    located->key[runs] = key;
    ends[runs] = i;
    runs += located->key[i] != key;  // the same run gets a later end
    key = located->key[i];
  }
  located->key[runs] = key;
  ends[runs] = located->num_inside;
  return runs + 1;
}

static void find_homes(const uint64_t *key, int32_t count, const struct cpu_cell_index *shared_index, uint32_t *home) {
  struct cpu_cell_index index = *shared_index;  // a copy, which the compiler can keep in registers
  for (int32_t i = 0; i < count; i++) {
    home[i] = cpu_cell_index_home(&index, key[i]);
    __builtin_prefetch(&index.table[home[i]]);
  }
}

static void look_up(const struct cpu_located *located, int32_t begin, struct cpu_cell_index *shared_index,
                    int32_t *inside, int32_t *voxel_of) {
  struct cpu_cell_index index = *shared_index;
  uint32_t home[CPU_CHUNK];
  find_homes(located->key, located->num_inside, shared_index, home);
  for (int32_t i = 0; i < located->num_inside; i++) {
    inside[i] = begin + located->at[i];
    voxel_of[i] = cpu_cell_index_add(&index, located->key[i], home[i]);
  }
  shared_index->count = index.count;
}

// The same, run by run. Writes voxel numbers FILLED at a time, so beyond the end of a run; the next run overwrites
// these.
static void look_up_runs(struct cpu_located *located, int32_t begin, struct cpu_cell_index *shared_index,
                         int32_t *inside, int32_t *voxel_of) {
  struct cpu_cell_index index = *shared_index;
  uint32_t home[CPU_CHUNK];
  int32_t ends[CPU_CHUNK], voxels[CPU_CHUNK + FILLED], runs = join_runs(located, ends);
  find_homes(located->key, runs, shared_index, home);
  for (int32_t run = 0, i = 0; run < runs; i = ends[run++]) {
    int32_t voxel = cpu_cell_index_add_many(&index, located->key[run], home[run], ends[run] - i);
    for (; i < ends[run]; i += FILLED)
      for (int k = 0; k < FILLED; k++) voxels[i + k] = voxel;
  }
  for (int32_t i = 0; i < located->num_inside; i++) inside[i] = begin + located->at[i];
  memcpy(voxel_of, voxels, (size_t)located->num_inside * sizeof *voxel_of);
  shared_index->count = index.count;
}

void cpu_look_up_points(const struct cpu_run *run, struct vx_stop *stop, int32_t begin, int32_t end,
                        struct cpu_lookup *lookup) {
  cpu_locate *locate = cpu_locate_here();
  struct cpu_located located;
  int32_t num_inside = 0, not_finite = 0;
  for (; begin < end && !vx_stopped(stop, CPU_CHUNK); begin += CPU_CHUNK) {
    int32_t left = end - begin, count = left < CPU_CHUNK ? left : CPU_CHUNK;
    locate(&run->map, run->points + (int64_t)begin * run->columns, run->columns, count, &located);
    int32_t *inside = lookup->inside + num_inside, *voxel_of = lookup->voxel_of + num_inside;
    if (!lookup->index.dense && have_runs(&located))
      look_up_runs(&located, begin, &lookup->index, inside, voxel_of);
    else
      look_up(&located, begin, &lookup->index, inside, voxel_of);
    num_inside += located.num_inside;
    not_finite += located.not_finite;
  }
  lookup->num_inside = num_inside;
  lookup->not_finite = not_finite;
}

void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct vx_counts *counts = &run->job->counts;
  struct cpu_lookup lookup = {.index = run->cells, .inside = run->inside, .voxel_of = run->voxel_of};
  cpu_cell_index_start(&lookup.index, cloud->end - cloud->begin, run->map.key.bits);
  cpu_look_up_points(run, run->stop, cloud->begin, cloud->end, &lookup);
  run->cells = lookup.index;
  run->num_inside = lookup.num_inside;
  counts->not_finite += lookup.not_finite;
  counts->out_of_range += cloud->end - cloud->begin - lookup.num_inside - lookup.not_finite;
}

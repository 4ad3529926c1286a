// From points to voxels: the one pass over a cloud that looks at coordinates.
//
// Points are handled in chunks. First the cells of a chunk are computed, with vectors if the processor has them
// (locate.h). Then the slots of all its cells are prefetched, and after that looked up, so the cache misses of a chunk
// overlap.
#include "kernels/cpu/voxelize/points.h"

#include "kernels/cpu/voxelize/locate.h"

static void find_homes(const struct cpu_located *located, const struct cpu_cell_index *shared_index, uint32_t *home) {
  struct cpu_cell_index index = *shared_index;  // a copy, which the compiler can keep in registers
  for (int32_t i = 0; i < located->num_inside; i++) {
    home[i] = cpu_cell_index_home(&index, located->key[i]);
    __builtin_prefetch(&index.table[home[i]]);
  }
}

static void look_up(const struct cpu_located *located, const uint32_t *home, int32_t begin,
                    struct cpu_cell_index *shared_index, int32_t *inside, int32_t *voxel_of) {
  struct cpu_cell_index index = *shared_index;
  for (int32_t i = 0; i < located->num_inside; i++) {
    inside[i] = begin + located->at[i];
    voxel_of[i] = cpu_cell_index_add(&index, located->key[i], home[i]);
  }
  shared_index->count = index.count;
}

void cpu_look_up_points(const struct cpu_run *run, int32_t begin, int32_t end, struct cpu_lookup *lookup) {
  cpu_locate *locate = cpu_locate_here();
  struct cpu_located located;
  uint32_t home[CPU_CHUNK];
  int32_t num_inside = 0, not_finite = 0;
  for (; begin < end; begin += CPU_CHUNK) {
    int32_t left = end - begin, count = left < CPU_CHUNK ? left : CPU_CHUNK;
    locate(&run->map, run->points + (int64_t)begin * run->columns, run->columns, count, &located);
    find_homes(&located, &lookup->index, home);
    look_up(&located, home, begin, &lookup->index, lookup->inside + num_inside, lookup->voxel_of + num_inside);
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
  cpu_look_up_points(run, cloud->begin, cloud->end, &lookup);
  run->cells = lookup.index;
  run->num_inside = lookup.num_inside;
  counts->not_finite += lookup.not_finite;
  counts->out_of_range += cloud->end - cloud->begin - lookup.num_inside - lookup.not_finite;
}

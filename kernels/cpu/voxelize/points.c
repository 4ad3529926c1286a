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

static void look_up(struct cpu_run *run, const struct cpu_located *located, const uint32_t *home, int32_t begin) {
  struct cpu_cell_index index = run->cells;
  int32_t *inside = run->inside + run->num_inside, *voxel_of = run->voxel_of + run->num_inside;
  for (int32_t i = 0; i < located->num_inside; i++) {
    inside[i] = begin + located->at[i];
    voxel_of[i] = cpu_cell_index_add(&index, located->key[i], home[i]);
  }
  run->num_inside += located->num_inside;
  run->cells.count = index.count;
}

void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct vx_counts *counts = &run->job->counts;
  cpu_locate *locate = cpu_locate_here();
  struct cpu_located located;
  uint32_t home[CPU_CHUNK];
  run->num_inside = 0;
  cpu_cell_index_start(&run->cells, cloud->end - cloud->begin, run->map.key.bits);
  for (int32_t begin = cloud->begin; begin < cloud->end; begin += CPU_CHUNK) {
    int32_t left = cloud->end - begin, count = left < CPU_CHUNK ? left : CPU_CHUNK;
    locate(&run->map, run->points + (int64_t)begin * run->columns, run->columns, count, &located);
    find_homes(&located, &run->cells, home);
    look_up(run, &located, home, begin);
    counts->not_finite += located.not_finite;
    counts->out_of_range += count - located.num_inside - located.not_finite;
  }
}

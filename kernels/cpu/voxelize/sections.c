// The fates of a lone cloud's points, section by section. A fate that the cloud does not have is not searched for. In a
// row's list, the points that the cap drops follow the kept points.
#include "kernels/cpu/voxelize/voxelize.h"

#include "kernels/half.h"

// The first index in run.inside whose point is at least `point`; num_inside if there is none.
static int32_t first_inside_from(const struct cpu_run *run, int32_t point) {
  int32_t low = 0, high = run->num_inside;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (run->inside[middle] < point)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int64_t count_not_finite(const struct cpu_run *run, int32_t begin, int32_t end) {
  const float *point = run->points + (int64_t)begin * run->columns;
  int64_t count = 0;
  VX_EACH_ROW(run->stop, i, begin, end) {
    count += !vx_are_finite(point[0], point[1], point[2]);
    point += run->columns;
  }
  return count;
}

// Counts the points of run.inside[begin .. end) whose voxels have no row. `filtered`: run.row_of is filled.
static void count_rowless(const struct cpu_run *run, int32_t begin, int32_t end, int32_t let_in, bool filtered,
                          struct vx_counts *counts) {
  VX_EACH_ROW(run->stop, i, begin, end) {
    int32_t number = run->voxel_of[i];
    bool dropped = number >= let_in;
    counts->over_max_voxels += dropped;
    counts->block_filtered += filtered && !dropped && run->row_of[number] < 0;
  }
}

// Moves the points over the cap from `kept` to `over_voxel_cap`. The dropped points of a row are in input order, so
// their sections ascend.
static void count_over_cap(const struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct vx_sections *sections = &run->job->sections;
  for (int32_t i = cloud->first_row; i < run->num_rows && !vx_stopped(run->stop, 1); i++) {
    const struct cpu_row *row = &run->rows[i];
    int32_t hits = run->cells.entries[row->number].hits, section = 0;
    int64_t end = cloud->begin + sections->points[0];
    for (int32_t k = row->first + row->kept; k < row->first + hits; k++) {
      while (run->list[k] >= end) end += sections->points[++section];
      sections->counts[section].over_voxel_cap++;
      sections->counts[section].kept--;
    }
  }
}

void cpu_count_sections(struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct vx_sections *sections = &run->job->sections;
  const struct vx_counts *all = &run->job->counts;
  int32_t let_in = cpu_smaller(run->cells.count, run->params->max_voxels);
  int32_t begin = cloud->begin, first = 0;
  bool filtered = all->block_filtered > 0;
  if (filtered) cpu_note_rows(run, cloud);
  for (int32_t i = 0; i < sections->count; i++) {
    int32_t end = begin + sections->points[i], last = first_inside_from(run, end);
    struct vx_counts counts = {.received = sections->points[i]};
    counts.not_finite = all->not_finite > 0 ? count_not_finite(run, begin, end) : 0;
    counts.out_of_range = counts.received - (last - first) - counts.not_finite;
    if (filtered || all->over_max_voxels > 0) count_rowless(run, first, last, let_in, filtered, &counts);
    counts.kept = last - first - counts.over_max_voxels - counts.block_filtered;
    sections->counts[i] = counts;
    begin = end;
    first = last;
  }
  if (all->over_voxel_cap > 0) count_over_cap(run, cloud);
}

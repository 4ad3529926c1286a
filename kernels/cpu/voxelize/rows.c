// From the voxels of a cloud to rows: their points, their order, the row of each point.
#include "kernels/cpu/voxelize/voxelize.h"

// The number of voxels that max_voxels allows. Voxels with lower numbers get rows.
static int32_t voxels_let_in(const struct cpu_run *run) {
  return cpu_smaller(run->cells.count, run->params->max_voxels);
}

void cpu_make_rows_of(const struct cpu_run *run, struct vx_stop *stop, const struct cpu_cloud *cloud,
                      const struct cpu_stretch *stretch, struct vx_counts *counts) {
  const struct cpu_cell_entry *entries = run->cells.entries;
  struct cpu_row *rows = run->rows + cloud->first_row;
  int32_t begin = stretch->begin, end = cpu_smaller(stretch->end, voxels_let_in(run)), listed = stretch->listed;
  *counts = (struct vx_counts){0};
  VX_EACH_ROW(stop, number, begin, end) {
    const struct cpu_cell_entry *entry = &entries[number];
    int32_t kept = cpu_smaller(entry->hits, run->cap);
    rows[number] = (struct cpu_row){entry->key, (int32_t)number, listed, kept, cloud->number};
    listed += entry->hits;
    counts->kept += kept;
    counts->over_voxel_cap += entry->hits - kept;
    counts->voxels_kept++;
  }
  VX_EACH_ROW(stop, number, begin < end ? end : begin, stretch->end) {
    counts->over_max_voxels += entries[number].hits;
    counts->voxels_dropped++;
  }
}

void cpu_add_rows(struct cpu_run *run, const struct vx_counts *counts) {
  run->num_rows += (int32_t)counts->voxels_kept;
  run->num_listed += (int32_t)(counts->kept + counts->over_voxel_cap);
  cpu_add_counts(&run->job->counts, counts);
}

void cpu_make_rows(struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct cpu_stretch all = {0, run->cells.count, run->num_listed};
  struct vx_counts counts;
  cpu_make_rows_of(run, run->stop, cloud, &all, &counts);
  cpu_add_rows(run, &counts);
}

// Also lists the points that the caps drop, so no branch depends on a point: later stages read the first `kept` points
// of a row. Points of voxels without a row go to the end of the cloud's list.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct cpu_row *rows = run->rows + cloud->first_row;
  int32_t num_rows = voxels_let_in(run);
  VX_EACH_ROW(run->stop, number, 0, num_rows) run->next[number] = rows[number].first;
  run->next[num_rows] = run->num_listed;
  VX_EACH_ROW(run->stop, i, 0, run->num_inside) {
    int32_t voxel = run->voxel_of[i];
    run->list[run->next[voxel < num_rows ? voxel : num_rows]++] = run->inside[i];
  }
}

void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct cpu_row *rows = run->rows + cloud->first_row;
  int32_t num_rows = run->num_rows - cloud->first_row;
  VX_EACH_ROW(run->stop, i, 0, num_rows) run->sorting[i] = (struct cpu_keyed){.key = rows[i].key, .number = (int32_t)i};
  const struct cpu_keyed *sorted =
      cpu_sort(run->stop, run->sorting, run->sorting + run->largest_rows, num_rows, run->map.key.bits);
  VX_EACH_ROW(run->stop, i, 0, num_rows) run->rows_in_order[i] = rows[sorted[i].number];
  vx_copy(run->stop, rows, run->rows_in_order, (size_t)num_rows * sizeof *rows);
}

void cpu_note_rows(struct cpu_run *run, const struct cpu_cloud *cloud) {
  int32_t let_in = voxels_let_in(run);
  vx_fill(run->stop, run->row_of, -1, (size_t)let_in * sizeof *run->row_of);
  VX_EACH_ROW(run->stop, row, cloud->first_row, run->num_rows) run->row_of[run->rows[row].number] = (int32_t)row;
}

void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  int32_t let_in = voxels_let_in(run);
  cpu_note_rows(run, cloud);
  vx_fill(run->stop, run->point_ids + cloud->begin, -1, (size_t)(cloud->end - cloud->begin) * sizeof *run->point_ids);
  VX_EACH_ROW(run->stop, i, 0, run->num_inside)
    if (run->voxel_of[i] < let_in) run->point_ids[run->inside[i]] = run->row_of[run->voxel_of[i]];
}

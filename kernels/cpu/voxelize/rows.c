// From the voxels of a cloud to rows of the output: the points that each row keeps, the order of the rows, the row of
// each point.
#include "kernels/cpu/voxelize/rows.h"

// Voxels of the cloud that max_voxels lets in: those numbered below this.
static int32_t voxels_let_in(const struct cpu_run *run) {
  return run->cells.count < run->params->max_voxels ? run->cells.count : run->params->max_voxels;
}

static void drop_voxels(struct cpu_run *run, int32_t first_dropped) {
  struct vx_counts *counts = &run->job->counts;
  for (int32_t number = first_dropped; number < run->cells.count; number++) {
    counts->over_max_voxels += run->cells.entries[number].hits;
  }
  counts->voxels_dropped += run->cells.count - first_dropped;
}

void cpu_make_rows(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct vx_counts *counts = &run->job->counts;
  int32_t num_rows = voxels_let_in(run);
  for (int32_t number = 0; number < num_rows; number++) {
    const struct cpu_cell_entry *entry = &run->cells.entries[number];
    int32_t kept = entry->hits < run->cap ? entry->hits : run->cap;
    run->rows[run->num_rows++] = (struct cpu_row){
        .key = entry->key, .number = number, .first = run->num_listed, .kept = kept, .cloud = cloud->number};
    run->num_listed += entry->hits;
    counts->kept += kept;
    counts->over_voxel_cap += entry->hits - kept;
  }
  drop_voxels(run, num_rows);
}

// Writes the indices of all points, voxel by voxel, each where its voxel's next one goes. Rows have room for what the
// caps drop, so that nothing depends on a point: of a row, the first `kept` are read. The points of voxels without a
// row go behind those of the cloud's rows, where there is room for all points of the cloud.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct cpu_row *rows = run->rows + cloud->first_row;
  int32_t num_rows = voxels_let_in(run);
  for (int32_t number = 0; number < num_rows; number++) {
    run->next[number] = rows[number].first;
  }
  run->next[num_rows] = run->num_listed;
  for (int32_t i = 0; i < run->num_inside; i++) {
    int32_t voxel = run->voxel_of[i];
    run->list[run->next[voxel < num_rows ? voxel : num_rows]++] = run->inside[i];
  }
}

void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct cpu_row *rows = run->rows + cloud->first_row;
  int32_t num_rows = run->num_rows - cloud->first_row;
  for (int32_t i = 0; i < num_rows; i++) {
    run->sorting[i] = (struct cpu_keyed){.key = rows[i].key, .number = i};
  }
  const struct cpu_keyed *sorted =
      cpu_sort(run->sorting, run->sorting + run->largest_rows, num_rows, run->map.key.bits);
  for (int32_t i = 0; i < num_rows; i++) {
    run->rows_in_order[i] = rows[sorted[i].number];
  }
  for (int32_t i = 0; i < num_rows; i++) {
    rows[i] = run->rows_in_order[i];
  }
}

void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  int32_t let_in = voxels_let_in(run);
  for (int32_t number = 0; number < let_in; number++) {
    run->row_of[number] = -1;  // stays so if the block filter has removed the voxel
  }
  for (int32_t row = cloud->first_row; row < run->num_rows; row++) {
    run->row_of[run->rows[row].number] = row;
  }
  for (int32_t i = cloud->begin; i < cloud->end; i++) {
    run->point_ids[i] = -1;
  }
  for (int32_t i = 0; i < run->num_inside; i++) {
    if (run->voxel_of[i] < let_in) {
      run->point_ids[run->inside[i]] = run->row_of[run->voxel_of[i]];
    }
  }
}

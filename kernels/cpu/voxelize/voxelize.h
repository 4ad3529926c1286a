// Voxelization on the CPU, and its stages. Runs on the thread that has the lane; tasks may run on helpers' threads and
// lanes.
#ifndef VOXELD_CPU_VOXELIZE_H
#define VOXELD_CPU_VOXELIZE_H

#include "kernels/cpu/voxelize/run.h"

VX_WARN_UNUSED enum vx_status cpu_voxelize(struct vx_lane *lane, struct vx_job *job, struct error *error);

// ---- memory: the scratch of a job, and the parts of the run that its tasks see --------------------------------------

// Takes the arrays for the whole job and for the current cloud.
void cpu_parts_lay_out(struct cpu_run *run, struct cpu_arena *arena);

// Makes a task's copy of the run, with the arrays for a pillar and, if `cloud`, for a cloud. Fails only on a helper.
VX_WARN_UNUSED enum vx_status cpu_parts_take(const struct cpu_run *run, const struct vx_worker *worker, bool cloud,
                                             struct cpu_run *part, struct error *error);

// Gives each cloud its part of the lists of the whole job.
void cpu_parts_place(struct cpu_run *run);
// Numbers the rows of all clouds, moves their cells and pillars together, and adds up their counts.
void cpu_parts_gather(struct cpu_run *run);

// ---- from points to voxels ------------------------------------------------------------------------------------------

struct cpu_lookup {
  struct cpu_cell_index index;     // started by the caller
  int32_t *inside;                 // [end - begin]: indices of the points in range
  int32_t *voxel_of;               // [end - begin]: the voxel's number for each of these points
  int32_t num_inside, not_finite;  // points
};

// Finds the voxels of the points begin .. end - 1.
void cpu_look_up_points(const struct cpu_run *run, struct vx_stop *stop, int32_t begin, int32_t end,
                        struct cpu_lookup *lookup);

// Fills run.cells, run.inside and run.voxel_of for the cloud; counts not_finite and out_of_range.
void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- a lone cloud, looked up by several workers ---------------------------------------------------------------------
//
// The cloud's points are cut into segments. Voxels and their numbers are those of cpu_index_points.

// The number of segments: 0 if the cloud is small, if there are several clouds, or if no worker can help.
int32_t cpu_segments_wanted(const struct cpu_run *run);

void cpu_segments_lay_out(struct cpu_run *run, struct cpu_arena *arena);

// Like cpu_index_points and cpu_make_rows; called by the run's own worker. Fills run.inside and run.voxel_of only if
// something other than the list reads them.
VX_WARN_UNUSED enum vx_status cpu_index_segments(struct cpu_run *run, const struct cpu_cloud *cloud,
                                                 struct error *error);

// Like cpu_list_points.
VX_WARN_UNUSED enum vx_status cpu_list_segments(struct cpu_run *run, const struct cpu_cloud *cloud,
                                                struct error *error);

// ---- what the caps keep, if that is not what comes first ------------------------------------------------------------

// Renumbers the voxels: those that max_voxels keeps get the lowest numbers, the others the next; both in the order of
// appearance.
// Fills run.new_numbers. Reorders run.cells, but not run.voxel_of.
void cpu_choose_voxels(struct cpu_run *run);

void cpu_renumber_points(struct cpu_run *run);

// Moves the kept points of each row to the front of its list. Kept and dropped points stay in input order.
void cpu_choose_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- from the voxels of a cloud to rows of the output ---------------------------------------------------------------

// Voxels of a cloud with consecutive numbers.
struct cpu_stretch {
  int32_t begin, end;
  int32_t listed;  // where the points of the first voxel are listed
};

// Makes a row for each voxel that max_voxels allows, with room in the list for its points. Counts the rows
// (voxels_kept), their kept points, and what the caps drop.
void cpu_make_rows_of(const struct cpu_run *run, struct vx_stop *stop, const struct cpu_cloud *cloud,
                      const struct cpu_stretch *stretch, struct vx_counts *counts);

// Adds the counted rows to the run. They lie directly after the run's rows.
void cpu_add_rows(struct cpu_run *run, const struct vx_counts *counts);

// Makes and adds the rows of all voxels of the cloud.
void cpu_make_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Lists the points of the cloud's rows. Call cpu_make_rows first.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Sorts the cloud's rows by cell.
void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Fills row_of: the row of each voxel that max_voxels allows, or -1 if the block filter has removed the row.
void cpu_note_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- the block filter -----------------------------------------------------------------------------------------------

void cpu_filter_blocks(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- the fates of a lone cloud's points, section by section ---------------------------------------------------------

// Fills the counts of the job's sections. Call it when the cloud's rows are final except for their order. Uses
// run.row_of if there is a block filter.
void cpu_count_sections(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- from the points in range to maps: maps.h of kernels/ defines them ----------------------------------------------

// Appends the cells and pillars of the cloud, from run.cells, run.inside and run.voxel_of.
void cpu_gather_maps(struct cpu_run *run, const struct cpu_cloud *cloud);

// Each writes one map of all clouds.
void cpu_write_occupancy(const struct cpu_run *run, void *out);
void cpu_write_occupancy_counts(const struct cpu_run *run, void *out);
void cpu_write_occupancy_packed(const struct cpu_run *run, void *out);
void cpu_write_max_height(const struct cpu_run *run, void *out);
void cpu_write_min_height(const struct cpu_run *run, void *out);
void cpu_write_max_intensity(const struct cpu_run *run, void *out);
void cpu_write_top_intensity(const struct cpu_run *run, void *out);
void cpu_write_density(const struct cpu_run *run, void *out);

// ---- from rows to tensors: how each tensor is written ---------------------------------------------------------------

// What one task of a writer writes: some rows, one cloud, or one whole tensor.
enum cpu_unit { CPU_ROWS, CPU_CLOUDS, CPU_TENSORS };

// A writer writes every byte of its task's part of a tensor. The run that it gets has only this part.
struct cpu_writer {
  void (*write)(const struct cpu_run *run, void *out);
  enum cpu_unit unit;
  enum vx_stage stage;
};

// `write` is NULL for tensors of other operations and for those of sampling.
extern const struct cpu_writer cpu_writers[VX_TENSOR_COUNT];
// The mean of each row: [num_rows, columns] float32.
extern const struct cpu_writer cpu_writer_of_means;

// ---- the tensors of a job, task by task -----------------------------------------------------------------------------

// Both add to the times of the stages.
//
// Writes the mean of each row: [num_rows, columns] float32.
VX_WARN_UNUSED enum vx_status cpu_write_means(const struct cpu_run *run, float *means, struct error *error);

// Writes the tensors of `layout` into `output`, except those of sampling.
VX_WARN_UNUSED enum vx_status cpu_write_tensors(struct cpu_run *run, const struct vx_layout *layout, void *output,
                                                struct error *error);

#endif

// A voxelization on the CPU, and its stages. Runs on the thread that has the lane; a task of it runs on the lane of
// the thread that helps.
#ifndef VOXELD_CPU_VOXELIZE_H
#define VOXELD_CPU_VOXELIZE_H

#include "kernels/cpu/voxelize/run.h"

VX_WARN_UNUSED enum vx_status cpu_voxelize(struct vx_lane *lane, struct vx_job *job, struct error *error);

// ---- memory: the scratch of a job, and the parts of the run that its tasks see --------------------------------------

// Lays out the run: what it needs of memory for the whole job, and for a cloud in hand.
void cpu_parts_lay_out(struct cpu_run *run, struct cpu_arena *arena);

// The run as the worker is to see it that does a task of it, with room for a cloud in hand or only for a pillar. Fails
// only for a worker that helps.
VX_WARN_UNUSED enum vx_status cpu_parts_take(const struct cpu_run *run, const struct vx_worker *worker, bool cloud,
                                             struct cpu_run *part, struct error *error);

// Gives each cloud its places in the lists of the whole job.
void cpu_parts_place(struct cpu_run *run);
// Numbers the rows of all clouds, moves together their cells and pillars, and adds up their counts.
void cpu_parts_gather(struct cpu_run *run);

// ---- from points to voxels ------------------------------------------------------------------------------------------

// Where points are looked up, and what comes of it.
struct cpu_lookup {
  struct cpu_cell_index index;     // started by the caller
  int32_t *inside;                 // [end - begin]: indices of the points in range
  int32_t *voxel_of;               // [end - begin]: the number of the voxel of each of them
  int32_t num_inside, not_finite;  // points
};

// Finds the voxel of each of the points begin .. end.
void cpu_look_up_points(const struct cpu_run *run, struct vx_stop *stop, int32_t begin, int32_t end,
                        struct cpu_lookup *lookup);

// Finds the voxel of each point of the cloud: fills run.cells, run.inside and run.voxel_of, counts not_finite and
// out_of_range.
void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- a lone cloud, looked up by several workers
// -----------------------------------------------------------------------
//
// Its points are cut into segments. What comes out are the voxels of cpu_index_points, with the same numbers: by the
// first point of the whole cloud that falls into them.

// Into how many segments the run's cloud is cut: 0 if it is small, one of several, or nobody is there to help.
int32_t cpu_segments_wanted(const struct cpu_run *run);

// Takes the arrays for run->cut.count segments.
void cpu_segments_lay_out(struct cpu_run *run, struct cpu_arena *arena);

// As cpu_index_points and cpu_make_rows, for the run's own worker and a cloud that is cut. run.inside and run.voxel_of
// are only filled if something but the list reads them.
VX_WARN_UNUSED enum vx_status cpu_index_segments(struct cpu_run *run, const struct cpu_cloud *cloud,
                                                 struct error *error);

// As cpu_list_points, likewise.
VX_WARN_UNUSED enum vx_status cpu_list_segments(struct cpu_run *run, const struct cpu_cloud *cloud,
                                                struct error *error);

// ---- from the voxels of a cloud to rows of the output ---------------------------------------------------------------

// Voxels of a cloud whose numbers follow each other.
struct cpu_stretch {
  int32_t begin, end;
  int32_t listed;  // where the points of the first are listed
};

// Makes a row for each voxel that max_voxels lets in, at the place of its number, with room in the list for its points.
// Counts the rows (voxels_kept), the points that they keep, and what the caps drop.
void cpu_make_rows_of(const struct cpu_run *run, struct vx_stop *stop, const struct cpu_cloud *cloud,
                      const struct cpu_stretch *stretch, struct vx_counts *counts);

// Adds the rows that were counted, which are those behind the run's.
void cpu_add_rows(struct cpu_run *run, const struct vx_counts *counts);

// Both, for all voxels of the cloud.
void cpu_make_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Lists the points of the rows that cpu_make_rows has made.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Puts the cloud's rows in ascending order of their cells.
void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Fills row_of: the row of each voxel that max_voxels lets in, -1 if the block filter has removed it.
void cpu_note_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Fills the cloud's point_ids.
void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- the block filter -----------------------------------------------------------------------------------------------

// Removes the rows that the block filter drops.
void cpu_filter_blocks(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- the fates of a lone cloud's points, section by section ---------------------------------------------------------

// Fills the counts of the job's sections. Called when the cloud's rows are final but for their order. Uses run.row_of
// if there is a block filter.
void cpu_count_sections(struct cpu_run *run, const struct cpu_cloud *cloud);

// ---- from the points in range to maps: maps.h of kernels/ says what they have ---------------------------------------

// Take the scratch of the maps that the job wants: for all clouds, and for the cloud in hand.
void cpu_maps_lay_out(struct cpu_run *run, struct cpu_arena *arena);
void cpu_maps_lay_out_cloud(struct cpu_run *run, struct cpu_arena *arena);

// Appends the cells and the pillars of the cloud's points, which are in run.cells, run.inside and run.voxel_of.
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

// What a task of the work has a number of.
enum cpu_unit { CPU_ROWS, CPU_CLOUDS, CPU_TENSORS };

// A writer writes what the run has from the first byte to the last, as if that were all of the tensor: some rows, which
// lie together, or one cloud, or the tensor.
struct cpu_writer {
  void (*write)(const struct cpu_run *run, void *out);
  enum cpu_unit unit;
  enum vx_stage stage;
};

// NULL instead of `write`: another operation's tensor, or one of sampling.
extern const struct cpu_writer cpu_writers[VX_TENSOR_COUNT];
// The mean of each row: [num_rows, columns] float32.
extern const struct cpu_writer cpu_writer_of_means;

// ---- the tensors of a job, task by task -----------------------------------------------------------------------------

// Both fail only if help does; see parallel_for.h. They add up the times of the stages.
//
// Writes the mean of each row: [num_rows, columns] float32.
VX_WARN_UNUSED enum vx_status cpu_write_means(const struct cpu_run *run, float *means, struct error *error);

// Writes the tensors of `layout` into `output`, except those of sampling.
VX_WARN_UNUSED enum vx_status cpu_write_tensors(struct cpu_run *run, const struct vx_layout *layout, void *output,
                                                struct error *error);

#endif

// The table of operations, and what all jobs have in common. The tables are constant. Functions that take a job without
// const are for the thread that runs it; any thread may call the others.
#ifndef VOXELD_OPS_H
#define VOXELD_OPS_H

#include "kernels/fates.h"
#include "kernels/kernels.h"
#include "kernels/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const char *const vx_stage_names[VX_STAGE_COUNT];

// What an operation gets in its first input. Fates are counted for items.
enum vx_items { VX_POINT_ITEMS, VX_BOX_ITEMS, VX_ANCHOR_ITEMS, VX_VOXEL_ITEMS, VX_CANDIDATE_ITEMS, VX_ITEMS };
extern const char *const vx_item_names[VX_ITEMS];
// VX_FATE_BITs of the fates that the job's operation and its steps can give.
uint32_t vx_fates_of_job(const struct vx_job *job);
// VX_FATE_BITs of all fates that such items can have, in any operation or step.
uint32_t vx_fates_of(enum vx_items items);

struct vx_input_row {
  const char *name;  // NULL: no more inputs
  uint32_t dtypes;   // VX_DTYPE_BITs
  enum vx_extent extents[VX_MAX_RANK];
  bool optional;
};

struct vx_operation {
  const char *name;
  enum vx_items items;
  struct vx_input_row inputs[VX_MAX_INPUTS];  // the input with the items first
  vx_tensor_set tensors;                      // that the operation can have
  enum vx_tensor map;      // of a decoder: the output of `detect` that is its first input; the other inputs follow
  uint32_t stages, fates;  // VX_STAGE_BITs and VX_FATE_BITs that the operation can have
  bool makes_voxels;
  bool chained;                 // its jobs always have a chain, perhaps of 0 steps
  bool sectioned;               // it counts the points of sections itself; otherwise a chain counts them
  bool needs_detector;          // its parameters are struct vx_detect
  bool rows_carry_cloud_index;  // each row names its cloud; the rows of a cloud need not be consecutive
  const char *rows;             // what vx_job.row_counts counts; NULL if unused
  // Adds the operation's own sizes. May be NULL.
  void (*add_sizes)(const struct vx_job *job, struct vx_sizes *sizes);
  // VX_REFUSED if the job's parameters do not fit its inputs or tensors. May be NULL.
  enum vx_status (*check)(const struct vx_job *job, struct error *error);
  size_t sampling;  // offset of the sampling in struct vx_job; 0: none
  // The maximum number of pairs of boxes that are compared in a cloud of `rows` rows. NULL: none.
  int64_t (*pairs)(const struct vx_job *job, int64_t rows);
};

extern const struct vx_operation vx_operations[VX_OPS];
// The tensors of the detector's maps that have one of these types (VX_DTYPE_BITs).
vx_tensor_set vx_map_tensors(const struct vx_detector *detector, uint32_t dtypes);
// VX_OPS: no operation has that name.
enum vx_op vx_op_find(const char *name);

// Whether the job must have a chain, perhaps of 0 steps.
bool vx_is_chained(const struct vx_job *job);

// NULL if the job does not sample.
const struct vx_sampling *vx_sampling_of(const struct vx_job *job);

// A job that may compare more pairs of boxes than this is long. A CPU takes 1 to 4 ns for a pair of boxes that lie
// apart, and 0.2 us for a pair that overlaps.
#define VX_QUICK_PAIRS (INT64_C(1) << 22)
// `point_counts`: [num_clouds]; job->point_counts need not be set yet.
enum vx_lane_use vx_lane_use_of(const struct vx_job *job, const int32_t *point_counts);

// Sizes that follow from the run come from job->counts, row_counts and report.
struct vx_sizes vx_sizes_of(const struct vx_job *job);

// Whether the input fits its row, or is an absent optional input.
bool vx_input_fits(const struct vx_input *input, const struct vx_input_row *row, const struct vx_sizes *sizes);

// Begins a run: clears what the run fills and sets counts.received. VX_REFUSED if there are too many rows, or if an
// input, the sections, the motion, the chain or a parameter does not fit.
VX_WARN_UNUSED enum vx_status vx_begin_job(struct vx_job *job, struct error *error);

// Returns VX_STOPPED, with an error that names the unfinished work. Not for a detection.
VX_WARN_UNUSED enum vx_status vx_end_stopped(const struct vx_job *job, struct error *error);

// Adds the report of the job's chain to the counts of the job and its sections, which the operation has filled. The
// operation has counted the rows that the chain dropped as not_finite; this call moves them to their own fates. Further
// calls in a run do nothing.
void vx_settle_chain(struct vx_job *job);

// Asks the caller for the memory of the job's tensors, once the operation's counts and the chain's report are final.
VX_WARN_UNUSED enum vx_status vx_take_output(struct vx_job *job, struct vx_layout *layout, void **output,
                                             struct error *error);

#ifdef __cplusplus
}
#endif
#endif

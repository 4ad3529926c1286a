// The table of operations, one row each: inputs, tensors, stages, fates and sizes. All layers read it.
#ifndef VOXELD_OPS_H
#define VOXELD_OPS_H

#include "kernels/fates.h"
#include "kernels/kernels.h"
#include "kernels/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const char *const vx_stage_names[VX_STAGE_COUNT];

// What the rows of an operation's first input are. Each row has a fate.
enum vx_items { VX_POINT_ITEMS, VX_BOX_ITEMS, VX_ANCHOR_ITEMS, VX_VOXEL_ITEMS, VX_CANDIDATE_ITEMS, VX_ITEMS };
extern const char *const vx_item_names[VX_ITEMS];
// VX_FATE_BITs of the fates that the job's items can have, from its operation and from its steps.
uint32_t vx_fates_of_job(const struct vx_job *job);
// VX_FATE_BITs of all fates that such items can have.
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
  vx_tensor_set tensors;                      // tensors that the operation can have
  enum vx_tensor map;      // of a decoder: the tensor of `detect` with its first input; its other inputs follow
  uint32_t stages, fates;  // bits of the stages and fates that the operation can have
  bool makes_voxels;
  bool chained;                 // its jobs always have a chain, perhaps of 0 steps
  bool sectioned;               // it counts the points of sections itself; otherwise only a chain counts them
  bool needs_detector;          // its parameters are struct vx_detect
  bool rows_carry_cloud_index;  // each row names its cloud, so the rows of a cloud need not be consecutive
  const char *rows;             // what vx_job.row_counts counts; NULL if unused
  // Adds the sizes that only this operation has. May be NULL.
  void (*add_sizes)(const struct vx_job *job, struct vx_sizes *sizes);
  // Refuses a job whose parameters do not fit its inputs or tensors. May be NULL.
  enum vx_status (*check)(const struct vx_job *job, struct error *error);
  size_t sampling;  // offset of the sampling in struct vx_job; 0: the operation never samples
  // The maximum number of pairs of boxes that are compared in a cloud with this many rows. NULL if the operation
  // compares no boxes.
  int64_t (*pairs)(const struct vx_job *job, int64_t rows);
};

extern const struct vx_operation vx_operations[VX_OPS];
// The tensors of the maps that the detector's network makes in one of these types (VX_DTYPE_BITs).
vx_tensor_set vx_map_tensors(const struct vx_detector *detector, uint32_t dtypes);
// Returns VX_OPS if no operation has that name.
enum vx_op vx_op_find(const char *name);

// Whether the job has a chain, perhaps of 0 steps.
bool vx_is_chained(const struct vx_job *job);

// The job's sampling; NULL if the job does not sample.
const struct vx_sampling *vx_sampling_of(const struct vx_job *job);

// A job on boxes is long if it may compare more pairs than this. A CPU takes 1 to 4 ns for a pair of boxes that lie
// apart, and 0.2 us per pair if all boxes overlap and none is suppressed.
#define VX_QUICK_PAIRS (INT64_C(1) << 22)
// The kind of lane for the job. `point_counts` has one count per cloud; job->point_counts need not be set yet.
enum vx_lane_use vx_lane_use_of(const struct vx_job *job, const int32_t *point_counts);

// The sizes that determine the shapes of the job's tensors. Sizes that only the run can tell come from job->counts.
struct vx_sizes vx_sizes_of(const struct vx_job *job);

// Whether the input has the type and the shape of its row, or is an absent optional input.
bool vx_input_fits(const struct vx_input *input, const struct vx_input_row *row, const struct vx_sizes *sizes);

// Begins a run, on every backend: clears what the run fills and counts the rows. VX_REFUSED with a reason if there are
// too many rows, or if an input, the sections, the motion, the chain or a parameter does not fit.
VX_WARN_UNUSED enum vx_status vx_begin_job(struct vx_job *job, struct error *error);

// For a job that its caller has stopped, except a detection: returns VX_STOPPED, with an error that names the
// unfinished work.
VX_WARN_UNUSED enum vx_status vx_end_stopped(const struct vx_job *job, struct error *error);

// Adds the report of the job's chain to the counts of the job and its sections. Call this when the operation has filled
// these counts. The operation has counted all rows that the chain dropped under not_finite; this call moves them to
// their own fates. Further calls in a run do nothing.
void vx_settle_chain(struct vx_job *job);

// Lays out the job's tensors and asks the caller for their memory. Call this once job->counts, and the report of its
// chain, are final.
VX_WARN_UNUSED enum vx_status vx_take_output(struct vx_job *job, struct vx_layout *layout, void **output,
                                             struct error *error);

#ifdef __cplusplus
}
#endif
#endif

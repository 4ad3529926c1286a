// Steps on the CPU. kernels/steps.h has the rules.
//
// A step is a function cpu_step_NAME in NAME.c, on the thread that has the lane. It may give tasks to helpers
// (parallel_for.h):
//
//   const struct vx_tasks tasks = {chain->num_slices, work_on_slice, &own};
//   status = vx_parallel_for(chain->job, chain->lane, &tasks, error);
//
// Tasks write only their own rows, such as a slice, and their own memory. A pass over rows asks the worker's `stop`, as
// VX_EACH_ROW does; the step returns vx_stop_status.
//
// A step has the lane's whole scratch. It lays out its arrays over an empty arena, calls
// cpu_arena_reserve(&chain->lane->scratch, &measured, chain->job, error), and lays them out again over the scratch,
// which is not cleared.
#ifndef VOXELD_CPU_STEPS_H
#define VOXELD_CPU_STEPS_H

#include "kernels/cpu/base/base.h"
#include "kernels/half.h"
#include "kernels/ops.h"

enum { CPU_SLICE = 1 << 13 };  // maximum points of a slice

// Consecutive points of one cloud and, if the job has sections, of one section.
struct cpu_slice {
  int32_t cloud, section;
  int32_t begin, end;                               // its rows
  int32_t left, before;                             // rows left after all steps: in the slice, in all slices before it
  uint32_t fates[VX_MAX_STEPS + 1][VX_FATE_COUNT];  // the slice's rows, by step and fate
};

struct cpu_chain {
  struct vx_job *job;
  struct vx_lane *lane;    // of the worker that runs the job
  float *rows;             // [num_rows, columns]
  uint8_t *fates, *steps;  // [num_rows]
  int32_t *heads;          // [num_rows], or NULL
  float *cylinder;   // [num_rows, columns + VX_CYLINDER_EXTRA]: what the operation sees in place of `rows`, or NULL
  int32_t num_rows;  // of all clouds
  int32_t columns;
  struct cpu_slice *slices;
  int32_t num_slices;
  uint32_t (*section_fates)[VX_FATE_COUNT];  // [sections]: the dropped rows of each section, by fate
  uint8_t number;                            // of the current step, from 1; 0: the operation
};

static inline int32_t cpu_largest_cloud(const struct cpu_chain *chain) {
  int32_t largest = 0;
  for (int32_t cloud = 0; cloud < chain->job->num_clouds; cloud++)
    if (chain->job->point_counts[cloud] > largest) largest = chain->job->point_counts[cloud];
  return largest;
}

// NULL: the row was dropped.
static inline float *cpu_row_left(const struct cpu_chain *chain, int64_t row) {
  float *at = chain->rows + row * chain->columns;
  return at[0] == at[0] ? at : NULL;
}

// Drops a row that is left.
static inline void cpu_drop(const struct cpu_chain *chain, int64_t row, enum vx_fate fate) {
  chain->rows[row * chain->columns] = vx_bits_float(VX_FLOAT_NAN);
  chain->fates[row] = (uint8_t)fate;
  chain->steps[row] = chain->number;
}

// Drops a row that is left. The row `head` represents it.
static inline void cpu_merge(const struct cpu_chain *chain, int64_t row, int32_t head) {
  cpu_drop(chain, row, VX_FATE_MERGED);
  if (chain->heads) chain->heads[row] = head;
}

typedef enum vx_status cpu_step(struct cpu_chain *chain, const struct vx_step *step, struct error *error);
#define X(type, name) cpu_step cpu_step_##name;
VX_STEPS(X)
#undef X

// Drops the rows whose cell is outside (kernels/serialize.h).
VX_WARN_UNUSED enum vx_status cpu_drop_outside(struct cpu_chain *chain, struct error *error);

enum { CPU_CYLINDER = 256 };  // points that are made cylindrical at once

// Makes the rows [count, columns + VX_CYLINDER_EXTRA] of up to CPU_CYLINDER points [count, columns].
void cpu_to_cylinder(const float *points, int32_t columns, int64_t count, float *rows);
// The same, with only the vectors that every processor of the architecture has.
void cpu_to_cylinder_any(const float *points, int32_t columns, int64_t count, float *rows);

typedef enum vx_status cpu_operation(struct vx_lane *lane, struct vx_job *job, struct error *error);

// The operation of a job that only has a chain.
VX_WARN_UNUSED enum vx_status cpu_points(struct vx_lane *lane, struct vx_job *job, struct error *error);

// Runs the job's chain, then the operation on the rows that are left. Fills the job's report, and writes the tensors of
// the chain. Call vx_begin_job before.
VX_WARN_UNUSED enum vx_status cpu_run_chain(struct vx_lane *lane, struct vx_job *job, cpu_operation *operation,
                                            struct error *error);

#endif

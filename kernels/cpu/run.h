// One voxelize job on its way through the stages of the CPU backend, and the stages themselves.
//
// A job goes cloud by cloud through index, list, filter, order and name; after that the rows of all clouds are known
// and the tensors are written from them. A struct cpu_run lives on the stack of one call; its arrays are the lane's
// scratch.
#ifndef VOXELD_CPU_RUN_H
#define VOXELD_CPU_RUN_H

#include "kernels/cpu/arena.h"
#include "kernels/cpu/fps/fps.h"
#include "kernels/cpu/sort.h"
#include "kernels/cpu/voxelize/cell_index.h"
#include "kernels/grid.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

// What belongs to one worker.
struct vx_lane {
  uint64_t seed[2];  // of the cell indexes
  struct cpu_arena scratch;
};

// A voxel that is kept: a row of the output tensors.
struct cpu_row {
  uint64_t key;    // its cell
  int32_t number;  // by first appearance, within its cloud
  int32_t first;   // its kept points are run.list[first .. first + kept), in input order
  int32_t kept;
  int32_t cloud;
};

// The cloud in hand.
struct cpu_cloud {
  int32_t number;      // in the batch
  int32_t begin, end;  // its points
  int32_t first_row;   // its rows are run.rows[first_row .. run.num_rows)
};

enum { CPU_STRETCHES = 6 };  // lengths 1, 2, 4, ... VX_MAX_BLOCK_SIZE
_Static_assert(1 << (CPU_STRETCHES - 1) == VX_MAX_BLOCK_SIZE, "the longest stretch is as long as a window");

struct cpu_heights {
  float min, max;  // z
};

// Arrays that a job does not need are given no room and are not touched.
struct cpu_run {
  // What the job asks for.
  struct vx_job *job;
  const struct vx_voxelize *params;
  const struct vx_sampling *sampling;  // NULL if nothing is sampled
  struct vx_cell_map map;
  const float *points;    // [num_points, columns]
  int32_t columns;        // C
  int32_t cap;            // points that a voxel keeps; INT32_MAX if there is no cap
  bool lists_wanted;      // whether anything reads the kept points voxel by voxel
  bool ids_wanted;        // whether anything reads point_ids as rows
  int32_t num_points;     // of all clouds
  int32_t largest_cloud;  // most points of one cloud
  int32_t largest_rows;   // most rows that one cloud can have
  int32_t row_capacity;   // most rows that all clouds can have

  // Of the whole job.
  float *widened;      // [num_points, columns]: float16 input as float32
  float *means;        // [row_capacity, columns]: of each row, where they are sampled
  struct cpu_fps fps;  // the same
  int32_t *point_ids;  // [num_points]: number of the point's voxel in its cloud, later its row; -1 if dropped
  int32_t *list;       // [num_points]: indices of kept points, voxel by voxel
  int32_t num_listed;
  struct cpu_row *rows;  // [row_capacity]
  int32_t num_rows;

  // Of the cloud in hand.
  struct cpu_cell_index cells;    // its voxels
  int32_t *row_of;                // [largest_rows]: row of a voxel's number
  struct cpu_keyed *sorting;      // [2 * largest_rows]
  struct cpu_row *rows_in_order;  // [largest_rows]

  // Of the cloud in hand, for the block filter.
  struct vx_key_format block_key;
  int32_t grid_blocks[2];                              // blocks along x and y
  struct cpu_cell_index blocks;                        // those that hold a kept point
  int32_t *block_of;                                   // [largest_rows]: block of a row
  bool *block_stays;                                   // [largest_rows]
  struct cpu_heights *heights;                         // [largest_rows]: of each block
  struct cpu_heights *stretch_heights[CPU_STRETCHES];  // each [largest_rows]: of 1, 2, 4, ... sorted blocks
};

// Finds the voxel of each point of the cloud: fills run.cells and run.point_ids, counts not_finite and out_of_range.
void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Appends a row for each voxel that max_voxels lets in and lists its kept points; counts what the caps drop.
void cpu_list_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Takes out the rows that the block filter drops.
void cpu_filter_blocks(struct cpu_run *run, const struct cpu_cloud *cloud);

// Puts the cloud's rows in ascending order of their cells.
void cpu_order_rows(struct cpu_run *run, const struct cpu_cloud *cloud);

// Turns the cloud's point_ids from numbers within the cloud into rows.
void cpu_name_points(struct cpu_run *run, const struct cpu_cloud *cloud);

// Writes the mean of each row: [num_rows, columns] float32.
void cpu_write_means(const struct cpu_run *run, float *means);

// Writes the tensors of `layout` into `output`, but for those that are sampled.
void cpu_write_tensors(const struct cpu_run *run, const struct vx_layout *layout, void *output);

// All of a job.
VX_WARN_UNUSED enum vx_status cpu_voxelize(struct vx_lane *lane, struct vx_job *job, struct vx_error *error);

// The job's points as float32; float16 input is widened, so that nothing after this knows of it.
const float *cpu_float_points(const struct vx_job *job, int64_t count, float *widened);

int64_t cpu_now_ns(void);

#endif

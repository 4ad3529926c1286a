// The state of one voxelize job on the CPU: on the stack of one call, with arrays in the lane's scratch.
//
// The stages of a cloud, as far as the job needs them: index (points.c), choose voxels (choose.c), make rows (rows.c),
// gather (maps.c), list (rows.c), choose points (choose.c), filter (block_filter.c), count sections (sections.c), order
// and name (rows.c). Then writers.c writes the tensors of all clouds.
//
// Clouds are tasks (parallel_for.h), and so are stretches of rows of a tensor. A task has a copy of the run, with its
// place in the job's arrays, and arrays for one cloud in the scratch of its worker's lane (parts.c).
#ifndef VOXELD_CPU_VOXELIZE_RUN_H
#define VOXELD_CPU_VOXELIZE_RUN_H

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/base/cell_index.h"
#include "kernels/cpu/fps/fps.h"
#include "kernels/cpu/scatter/scatter.h"
#include "kernels/grid.h"
#include "kernels/kernels.h"

// A kept voxel: a row of the output tensors.
struct cpu_row {
  uint64_t key;    // its cell
  int32_t number;  // of the voxel in its cloud
  int32_t first;   // its kept points are run.list[first .. first + kept), in input order
  int32_t kept;
  int32_t cloud;
};

// The current cloud.
struct cpu_cloud {
  int32_t number;      // in the batch
  int32_t begin, end;  // its points
  int32_t first_row;   // its rows are run.rows[first_row .. run.num_rows)
};

// What the stages found in a cloud. cpu_parts_gather moves the cells and pillars of all clouds together; rows stay.
struct cpu_grouped {
  int32_t begin;  // its first point; its cells and pillars are listed from there on
  int32_t place;  // its rows are run.rows[place .. place + num_rows)
  struct vx_counts counts;
  int32_t num_rows, num_filled, num_pillars;
  int32_t first_row;  // its first row in the output
};

// A cell with points, whatever their fates.
struct cpu_filled {
  int64_t line;  // line of cells along x: (cloud * nz + z) * ny + y
  int32_t x;
  int32_t points;
};

// The points of all cells with the same x and y.
struct cpu_pillar {
  int64_t place;        // (cloud * ny + y) * nx + x
  float max, min;       // heights
  float max_intensity;  // the largest finite intensity; -INFINITY if there is none
  float top_intensity;  // the intensity of the first of the highest points
  int32_t points;
};

// A stretch of a lone cloud's points (segments.c).
struct cpu_segment {
  int32_t begin, end;  // its points
  int32_t num_inside;  // points in range
  int32_t not_finite;
  int32_t num_seen;         // number of its voxels
  int32_t first_inside;     // points in range in earlier segments
  int32_t first_number;     // the number of its first new voxel
  int32_t first_listed;     // where that voxel's points are listed
  struct vx_counts counts;  // of its new voxels, as cpu_make_rows_of fills them
};

// A voxel of a segment, in the list of a bucket.
struct cpu_bucketed {
  uint64_t key;
  int32_t hits;     // points in the segment; for a new voxel, after the merge: points in the cloud
  int32_t before;   // hits in the earlier segments
  int32_t same_as;  // the place in `bucketed` where the voxel is new
  int32_t number;   // in the cloud; set where the voxel is new
};

// One segment's voxels in one bucket.
struct cpu_bucket {
  int32_t end;         // end of its voxels in `bucketed`
  int32_t num_new;     // how many of them are new
  int32_t num_points;  // the cloud's points in the new ones
};

// A lone cloud in segments. A segment's lists begin at the index of its first point. In `bucketed`, the voxels of a
// segment and bucket are consecutive, so workers that merge different buckets rarely share a cache line.
struct cpu_cut {
  int32_t count;                  // number of segments, and of buckets; 0 if the cloud is not cut
  struct cpu_segment *segments;   // [count]
  struct cpu_bucketed *bucketed;  // [num_points]: the voxels of each segment, bucket by bucket
  struct cpu_bucket *buckets;     // [segment, bucket]
  int32_t *bucketed_at;           // [num_points]: place in `bucketed` of each voxel of a segment, by appearance
  int32_t *next;                  // [num_points]: where the next point of that voxel goes in the list
  int32_t *inside;                // [num_points]: indices of the points in range of each segment
  int32_t *seen_of;               // [num_points]: the voxel of each of these points, numbered in its segment
};

enum { CPU_STRETCHES = 6 };  // of 1, 2, 4, ... VX_MAX_BLOCK_SIZE blocks of the block filter
_Static_assert(1 << (CPU_STRETCHES - 1) == VX_MAX_BLOCK_SIZE, "the longest stretch is as long as a window");

struct cpu_heights {
  float min, max;  // z
};

// Arrays that the job does not need get no memory and are not touched.
struct cpu_run {
  // What the job asks for.
  struct vx_job *job;
  struct vx_lane *lane;  // of the worker that runs the job
  struct vx_stop *stop;  // of the worker that runs the task
  const struct vx_voxelize *params;
  const struct vx_sampling *sampling;  // NULL if nothing is sampled
  struct vx_grid grid;
  struct vx_cell_map map;
  const float *points;  // [num_points, columns]
  int32_t columns;
  int32_t cap;            // maximum points that a voxel keeps; INT32_MAX without a cap
  bool lists_wanted;      // something reads the kept points voxel by voxel
  bool ids_wanted;        // the tensor point_voxel_ids is requested
  bool sectioned;         // the cloud has sections
  int32_t num_points;     // of all clouds
  int32_t largest_cloud;  // points of the largest cloud
  int32_t largest_rows;   // maximum rows that one cloud can have
  int32_t row_capacity;   // maximum rows that all clouds can have

  // For the whole job.
  struct cpu_grouped *grouped;  // [num_clouds]
  float *widened;               // [num_points, columns]: narrow input as float32
  float *means;                 // [row_capacity, columns]: mean of each row, if voxels are sampled
  struct cpu_fps fps;           // if voxels are sampled
  int32_t *list;                // [num_points]: indices of points, voxel by voxel
  int32_t num_listed;
  int32_t *point_ids;    // [num_points]: row of each point's voxel, or -1; if ids_wanted
  struct cpu_row *rows;  // [row_capacity]
  int32_t num_rows;

  // For the whole job, for maps.
  struct cpu_filled *filled;  // [num_points]
  int32_t num_filled;
  struct cpu_pillar *pillars;  // [num_points]
  int32_t num_pillars;
  unsigned char *features;  // [row_capacity, columns or encoded values] of feature_dtype, if they are scattered and
                            // no tensor has them

  // For the current pillar, if it is encoded.
  int32_t encoded_values;  // 0 if no pillar is encoded
  float *pillar_rows[2];   // each [min(cap, largest_cloud) + 1, cpu_encode_room]
  float *encoded;          // [encoded_values]

  // For the current cloud.
  struct cpu_placed *placed;    // [largest_rows]: its rows, if they are scattered
  struct cpu_cell_index cells;  // the cloud's voxels
  int32_t *inside;              // [largest_cloud]: indices of the points in range
  int32_t *voxel_of;            // [largest_cloud]: the voxel's number for each of these points
  int32_t num_inside;
  int32_t *next;                  // [largest_rows + 1]: where the next point of a voxel goes in the list
  int32_t *row_of;                // [largest_rows]: row of each voxel number
  struct cpu_keyed *sorting;      // [2 * largest_rows]
  struct cpu_row *rows_in_order;  // [largest_rows]

  // For the current cloud, if the caps do not keep what comes first (choose.c). NULL if they do.
  uint32_t *voxel_ranks;                 // [largest_cloud]: vx_voxel_rank of each voxel
  int32_t *new_numbers;                  // [largest_cloud]: of each voxel
  struct cpu_cell_entry *other_entries;  // [largest_cloud]: the entries of `cells` in another order
  int32_t *dropped;                      // [largest_cloud]: the points that one row drops

  struct cpu_cut cut;

  // For the current cloud, for maps.
  struct cpu_cell_index pillar_index;  // the cloud's pillars
  int32_t *pillar_of;                  // [largest_cloud]: pillar of each voxel number

  // For the current cloud, for the block filter.
  struct vx_key_format block_key;
  int32_t grid_blocks[2];                              // blocks along x and y
  struct cpu_cell_index blocks;                        // blocks that hold a kept point
  int32_t *block_of;                                   // [largest_rows]: block of each row
  bool *block_stays;                                   // [largest_rows]
  struct cpu_heights *heights;                         // [largest_rows]: of each block
  struct cpu_heights *stretch_heights[CPU_STRETCHES];  // each [largest_rows]: of 1, 2, 4, ... sorted blocks
};

static inline int32_t cpu_smaller(int32_t a, int32_t b) { return a < b ? a : b; }

// Every field of the counts is an int64_t that can be summed.
static inline void cpu_add_counts(struct vx_counts *to, const struct vx_counts *from) {
  enum { COUNTS = sizeof *to / sizeof to->kept };
  int64_t sums[COUNTS], more[COUNTS];
  memcpy(sums, to, sizeof sums);
  memcpy(more, from, sizeof more);
  for (int i = 0; i < COUNTS; i++) sums[i] += more[i];
  memcpy(to, sums, sizeof sums);
}

static inline size_t cpu_run_feature_bytes(const struct cpu_run *run) {
  int32_t values = run->encoded_values == 0 ? run->columns : run->encoded_values;
  return (size_t)values * vx_dtype_size(run->params->feature_dtype);
}

// The tensor whose rows become bev_features. If it is not requested, the rows are in scratch.
static inline enum vx_tensor cpu_run_feature_tensor(const struct cpu_run *run) {
  return run->encoded_values == 0 ? VX_VOXEL_FEATURES : VX_ENCODED_FEATURES;
}

static inline bool cpu_run_hides_features(const struct cpu_run *run) {
  vx_tensor_set both = VX_TENSOR_BIT(VX_BEV_FEATURES) | VX_TENSOR_BIT(cpu_run_feature_tensor(run));
  return (run->job->tensors & both) == VX_TENSOR_BIT(VX_BEV_FEATURES);
}

#endif

// One voxelize job on its way through the stages of the CPU backend.
//
// Each cloud goes through up to six stages: index (points.c), gather (maps.c), list, order and name (rows.c), filter
// (block_filter.c). Then the rows of all clouds are known, and the tensors are written from them (writers.c). A struct
// cpu_run lives on the stack of one call; its arrays are the lane's scratch.
//
// The clouds are tasks of the job (parallel_for.h), and so are stretches of rows of a large tensor. Each task has a
// copy of the run that shows it only its part: the arrays of the whole job from its place on, and those of the cloud in
// hand in the scratch of the lane that does it (parts.c). So the stages know nothing of other tasks.
#ifndef VOXELD_CPU_VOXELIZE_RUN_H
#define VOXELD_CPU_VOXELIZE_RUN_H

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/base/cell_index.h"
#include "kernels/cpu/fps/fps.h"
#include "kernels/cpu/scatter/scatter.h"
#include "kernels/grid.h"
#include "kernels/kernels.h"

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

// What the stages found in a cloud. Its rows, cells and pillars are listed apart from those of other clouds. The rows
// stay there; cpu_parts_gather moves the others together.
struct cpu_grouped {
  int32_t begin;  // its first point; its cells and its pillars are listed from there on
  int32_t place;  // its rows are run.rows[place .. place + num_rows)
  struct vx_counts counts;
  int32_t num_rows, num_filled, num_pillars;
  int32_t first_row;  // of the output
};

// A cell that points are in, whatever becomes of them.
struct cpu_filled {
  int64_t line;  // of cells along x: (cloud * nz + z) * ny + y
  int32_t x;
  int32_t points;
};

// The points in the cells that differ in z alone.
struct cpu_pillar {
  int64_t place;        // (cloud * ny + y) * nx + x
  float max, min;       // height
  float max_intensity;  // of the finite; -INFINITY if there is none
  float top_intensity;  // of the first of the highest points
  int32_t points;
};

// A stretch of the points of a lone cloud, which are looked up apart (segments.c).
struct cpu_segment {
  int32_t begin, end;       // its points
  int32_t num_inside;       // of them in range
  int32_t not_finite;       // of them
  int32_t num_seen;         // its voxels
  int32_t first_inside;     // points in range before it
  int32_t first_number;     // the number that the first of its new voxels gets
  int32_t first_listed;     // where the points of that are listed
  struct vx_counts counts;  // of its new voxels, as cpu_make_rows has them
};

// A voxel of a segment, in the list of a bucket.
struct cpu_bucketed {
  uint64_t key;
  int32_t hits;     // in the segment; where the voxel is new: in the cloud, once the buckets are merged
  int32_t before;   // in the segments before
  int32_t same_as;  // the place in `bucketed` where the voxel is new
  int32_t number;   // in the cloud, where it is new
};

// What a bucket has of a segment.
struct cpu_bucket {
  int32_t end;         // of its voxels in `bucketed`
  int32_t num_new;     // of them
  int32_t num_points;  // of the cloud, in those that are new
};

// A lone cloud in segments. What a segment has is listed from the place of its first point on. The thread that merges a
// bucket writes nothing among what is another's, so that processors do not take the same memory from each other.
struct cpu_cut {
  int32_t count;                  // of segments, and of buckets; 0 if the cloud is not cut
  struct cpu_segment *segments;   // [count]
  struct cpu_bucketed *bucketed;  // [num_points]: the voxels of each segment, bucket by bucket
  struct cpu_bucket *buckets;     // [segment, bucket]
  int32_t *bucketed_at;  // [num_points]: where in `bucketed` each voxel of a segment is, by their appearance in it
  int32_t *next;         // [num_points]: where in the list the next point of each of them goes
  int32_t *inside;       // [num_points]: indices of the points in range of each segment
  int32_t *seen_of;      // [num_points]: which of its segment's voxels each of them is in
};

enum { CPU_STRETCHES = 6 };  // lengths 1, 2, 4, ... VX_MAX_BLOCK_SIZE
_Static_assert(1 << (CPU_STRETCHES - 1) == VX_MAX_BLOCK_SIZE, "the longest stretch is as long as a window");

struct cpu_heights {
  float min, max;  // z
};

// Arrays that the job does not need get no room and are not touched.
struct cpu_run {
  // What the job asks for.
  struct vx_job *job;
  struct vx_lane *lane;  // of the job's run
  struct vx_stop *stop;  // of the worker at work; the passes ask it
  const struct vx_voxelize *params;
  const struct vx_sampling *sampling;  // NULL if nothing is sampled
  struct vx_grid grid;
  struct vx_cell_map map;
  const float *points;    // [num_points, columns]
  int32_t columns;        // C
  int32_t cap;            // points that a voxel keeps; INT32_MAX if there is no cap
  bool lists_wanted;      // something reads the kept points voxel by voxel
  bool ids_wanted;        // something reads point_ids as rows
  bool sectioned;         // the cloud has sections
  int32_t num_points;     // of all clouds
  int32_t largest_cloud;  // most points of one cloud
  int32_t largest_rows;   // most rows that one cloud can have
  int32_t row_capacity;   // most rows that all clouds can have

  // Of the whole job.
  struct cpu_grouped *grouped;  // [num_clouds]
  float *widened;               // [num_points, columns]: narrow input as float32
  float *means;                 // [row_capacity, columns]: of each row, if voxels are sampled
  struct cpu_fps fps;           // the same
  int32_t *list;                // [num_points]: indices of points, voxel by voxel
  int32_t num_listed;
  int32_t *point_ids;    // [num_points]: row of each point, -1 if dropped; if ids_wanted
  struct cpu_row *rows;  // [row_capacity]
  int32_t num_rows;

  // Of the whole job, for maps.
  struct cpu_filled *filled;  // [num_points]
  int32_t num_filled;
  struct cpu_pillar *pillars;  // [num_points]
  int32_t num_pillars;
  unsigned char *features;  // [row_capacity, columns or encoded values] of feature_dtype, if they are scattered and
                            // no tensor has them

  // Of the pillar in worker, if it is encoded.
  int32_t encoded_values;  // 0 if no pillar is encoded
  float *pillar_rows[2];   // each [cap + 1, cpu_encode_room]
  float *encoded;          // [encoded_values]

  // Of the cloud in hand.
  struct cpu_placed *placed;    // [largest_rows]: its rows, if they are scattered
  struct cpu_cell_index cells;  // its voxels
  int32_t *inside;              // [largest_cloud]: indices of its points in range
  int32_t *voxel_of;            // [largest_cloud]: the number of the voxel of each of them
  int32_t num_inside;
  int32_t *next;                  // [largest_rows + 1]: where in the list the next point of a voxel goes
  int32_t *row_of;                // [largest_rows]: row of a voxel's number
  struct cpu_keyed *sorting;      // [2 * largest_rows]
  struct cpu_row *rows_in_order;  // [largest_rows]

  struct cpu_cut cut;

  // Of the cloud in worker, for maps.
  struct cpu_cell_index pillar_index;  // its pillars
  int32_t *pillar_of;                  // [largest_cloud]: pillar of a voxel's number

  // Of the cloud in worker, for the block filter.
  struct vx_key_format block_key;
  int32_t grid_blocks[2];                              // blocks along x and y
  struct cpu_cell_index blocks;                        // that hold a kept point
  int32_t *block_of;                                   // [largest_rows]: block of a row
  bool *block_stays;                                   // [largest_rows]
  struct cpu_heights *heights;                         // [largest_rows]: of each block
  struct cpu_heights *stretch_heights[CPU_STRETCHES];  // each [largest_rows]: of 1, 2, 4, ... sorted blocks
};

static inline int32_t cpu_smaller(int32_t a, int32_t b) { return a < b ? a : b; }

// Adds counts to others: every field is a sum, an int64_t.
static inline void cpu_add_counts(struct vx_counts *to, const struct vx_counts *from) {
  enum { COUNTS = sizeof *to / sizeof to->kept };
  int64_t sums[COUNTS], more[COUNTS];
  memcpy(sums, to, sizeof sums);
  memcpy(more, from, sizeof more);
  for (int i = 0; i < COUNTS; i++) sums[i] += more[i];
  memcpy(to, sums, sizeof sums);
}

// The bytes of a row of features, as bev_features has them.
static inline size_t cpu_run_feature_bytes(const struct cpu_run *run) {
  int32_t values = run->encoded_values == 0 ? run->columns : run->encoded_values;
  return (size_t)values * vx_dtype_size(run->params->feature_dtype);
}

// The tensor that has these rows. They are in scratch if it is not wanted, but bev_features is.
static inline enum vx_tensor cpu_run_feature_tensor(const struct cpu_run *run) {
  return run->encoded_values == 0 ? VX_VOXEL_FEATURES : VX_ENCODED_FEATURES;
}

static inline bool cpu_run_hides_features(const struct cpu_run *run) {
  vx_tensor_set both = VX_TENSOR_BIT(VX_BEV_FEATURES) | VX_TENSOR_BIT(cpu_run_feature_tensor(run));
  return (run->job->tensors & both) == VX_TENSOR_BIT(VX_BEV_FEATURES);
}

#endif

// The tree of boxes for farthest point sampling: its parts, and how it is built.
//
// A leaf holds a few dozen points. A node holds eight boxes, of leaves or of further nodes, so one vector operation
// handles all boxes of a node. The tree is scratch of one cloud's sampling, on one thread.
#ifndef VOXELD_CPU_SAMPLE_TREE_H
#define VOXELD_CPU_SAMPLE_TREE_H

#include "kernels/cpu/base/base.h"
#include "kernels/stop.h"

enum {
  CPU_SAMPLE_LANES = 8,       // boxes of a node, and points of a block
  CPU_SAMPLE_PENDING = 8,     // maximum samples pending at a leaf
  CPU_SAMPLE_LEAF_MAX = 160,  // maximum points of a leaf
  CPU_SAMPLE_LEAF_MIN = 16,   // fewest points of a leaf, if the cloud has so many
  CPU_SAMPLE_DEPTH = 60,      // maximum levels of nodes
};

struct cpu_sample_point {
  float xyz[3];
  int32_t index;  // in the cloud
};

// Lanes without a point have a distance below zero: no sample changes it, and they are never chosen.
struct cpu_sample_block {
  _Alignas(32) float xyz[3][CPU_SAMPLE_LANES];
  float distance[CPU_SAMPLE_LANES];
  int32_t index[CPU_SAMPLE_LANES];
};

// The leaf's points are blocks[first_block .. first_block + num_blocks). In each lane their indices ascend.
struct cpu_sample_leaf {
  _Alignas(64) float pending[CPU_SAMPLE_PENDING][3];  // samples not yet compared with the leaf's points
  int32_t num_pending;
  int32_t first_block, num_blocks;
  int32_t parent, lane;
};

// A key is a distance and an index in one number. The farther point has the larger key; at equal distance, the point
// with the lower index. The key of a leaf or node is the largest key of its points. While samples are pending, the key
// is an upper bound. The nodes above a leaf may still have an older, larger bound. Lanes without a child have a key
// below the key of any point.
struct cpu_sample_node {
  _Alignas(64) float low[3][CPU_SAMPLE_LANES];
  float high[3][CPU_SAMPLE_LANES];
  float farthest[CPU_SAMPLE_LANES];  // the distance in the key
  int64_t key[CPU_SAMPLE_LANES];
  int32_t leaf[CPU_SAMPLE_LANES];   // the leaf with the point of the key
  int32_t child[CPU_SAMPLE_LANES];  // a node's number, or the complement of a leaf's
  int32_t parent, lane;             // -1 above the root, which is node 0
};

static inline int64_t cpu_sample_key(float distance, int32_t index) {
  union {
    float value;
    int32_t bits;  // ordered like the values, from zero on
  } as = {distance};
  return (int64_t)((uint64_t)(uint32_t)as.bits << 32 | (uint32_t)~index);
}

static inline float cpu_sample_key_distance(int64_t key) {
  union {
    int32_t bits;
    float value;
  } as = {(int32_t)(key >> 32)};
  return as.value;
}

static inline int32_t cpu_sample_key_index(int64_t key) { return (int32_t) ~(uint32_t)(uint64_t)key; }

struct cpu_sample_task {
  const float *points;  // [num_points, columns]; x, y, z come first
  int32_t columns;
  int32_t num_points;
  int32_t num_samples;  // 1..number of finite points
  int32_t start;        // a finite point: the first sample
  struct vx_stop *stop;
  int32_t *indices;  // out: [num_samples]
  float *distances;  // out: [num_samples]: squared, to the nearest sample before it; +inf for the first
};

// The arrays for sampling one cloud.
struct cpu_sampler {
  struct cpu_sample_point *points[2];  // [num_points] each: the cloud, and room to move it
  unsigned char *codes;                // [num_points]
  struct cpu_sample_block *blocks;
  struct cpu_sample_leaf *leaves;
  struct cpu_sample_node *nodes;
  int32_t num_blocks, num_leaves, num_nodes;

  const struct cpu_sample_task *task;
  struct vx_stop *stop;  // the task's
};

// Each sample counts as this many rows for `stop`, in addition to the points that are compared with it.
enum { CPU_SAMPLE_STEP = VX_STRIDE / 32 };

// Takes the arrays from the arena, for one cloud of up to num_points points.
void cpu_sampler_lay_out(struct cpu_sampler *sampler, struct cpu_arena *arena, int32_t num_points);

// Builds the tree of the task's finite points. The first sample is pending at every leaf. Returns false if stopped.
VX_WARN_UNUSED bool cpu_sample_build(struct cpu_sampler *sampler);

#endif

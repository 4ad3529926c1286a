// The tree of boxes for farthest point sampling. A leaf has a few dozen points; a node has up to eight boxes, of
// leaves or nodes, for one vector operation. A tree is scratch of one cloud's sampling, on one thread.
#ifndef VOXELD_CPU_SAMPLE_TREE_H
#define VOXELD_CPU_SAMPLE_TREE_H

#include "kernels/cpu/base/base.h"
#include "kernels/stop.h"

enum {
  CPU_SAMPLE_LANES = 8,       // boxes of a node; points of a block
  CPU_SAMPLE_PENDING = 8,     // most samples pending at a leaf
  CPU_SAMPLE_LEAF_MAX = 160,  // most points of a leaf
  CPU_SAMPLE_LEAF_MIN = 16,   // least points of a leaf, if the cloud has so many
  CPU_SAMPLE_DEPTH = 60,      // most levels of nodes
};

struct cpu_sample_point {
  float xyz[3];
  int32_t index;  // in the cloud
};

// A lane without a point has a distance below 0: samples do not change it, and it is never chosen.
struct cpu_sample_block {
  _Alignas(32) float xyz[3][CPU_SAMPLE_LANES];
  float distance[CPU_SAMPLE_LANES];
  int32_t index[CPU_SAMPLE_LANES];
};

// The points are in blocks[first_block..first_block + num_blocks - 1]. In each lane their indices ascend.
struct cpu_sample_leaf {
  _Alignas(64) float pending[CPU_SAMPLE_PENDING][3];  // not yet compared with the points
  int32_t num_pending;
  int32_t first_block, num_blocks;
  int32_t parent, lane;
};

// A key is a distance and an index in one number: larger for the farther point; at equal distances, for the lower
// index. key[lane] is the largest key of the points in that child. While samples are pending at a leaf, its key is an
// upper bound, and the keys of the nodes above may be older, larger bounds. A lane without a child has a key below all
// others.
struct cpu_sample_node {
  _Alignas(64) float low[3][CPU_SAMPLE_LANES];
  float high[3][CPU_SAMPLE_LANES];
  float farthest[CPU_SAMPLE_LANES];  // distance of the key
  int64_t key[CPU_SAMPLE_LANES];
  int32_t leaf[CPU_SAMPLE_LANES];   // with the point of the key
  int32_t child[CPU_SAMPLE_LANES];  // number of a node, or complement of a leaf's
  int32_t parent, lane;             // parent -1: this is the root, node 0
};

static inline int64_t cpu_sample_key(float distance, int32_t index) {
  union {
    float value;
    int32_t bits;  // ordered like the values, from 0 on
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
  const float *points;  // [num_points,columns]; x, y, z first
  int32_t columns;
  int32_t num_points;
  int32_t num_samples;  // 1..finite points
  int32_t start;        // the first sample: a finite point
  struct vx_stop *stop;
  int32_t *indices;  // out [num_samples]
  float *distances;  // out [num_samples]: squared, to the nearest sample before; +inf for the first
};

// Arrays for sampling one cloud.
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

// For `stop`, a sample counts as this many rows, besides the points that are compared with it.
enum { CPU_SAMPLE_STEP = VX_STRIDE / 32 };

// Takes the arrays for a cloud of up to num_points points.
void cpu_sampler_lay_out(struct cpu_sampler *sampler, struct cpu_arena *arena, int32_t num_points);

// Builds the tree of the task's finite points, with the first sample pending at every leaf. False if stopped.
VX_WARN_UNUSED bool cpu_sample_build(struct cpu_sampler *sampler);

#endif

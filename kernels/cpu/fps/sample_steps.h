// The steps of farthest point sampling in the tree of sample_tree.h. sample.c includes this file for each kind of
// vector:
//
//   WIDTH    floats of a vector
//   TARGET   attribute of the functions
//   NAME(x)  x with a suffix of the kind
//
// The vectors are the compiler's own: SSE2 or AVX2 on x86-64, NEON on arm64, with intrinsics where the compiler would
// make several instructions. The processors' min and max differ for NaNs and signs of zeros, which do not matter here:
// coordinates are finite, so dx, dy and dz are not NaN, and they are squared.
//
// A step compares the new sample with the boxes. The distance to a box is computed like that to a point, and is at most
// the computed distance to any point in the box: rounding is monotonic, and |dx| to the box is at most |dx| to the
// point. If the distance to a box is not below the farthest distance in it, the sample changes nothing there, and the
// box is skipped.
//
// Otherwise the sample is noted as pending at the leaf, whose key stays an upper bound, since distances only shrink.
// The next sample is in the leaf with the largest key. If samples are pending there, they are first compared with the
// leaf's points, in one pass; the leaf gets a new key, and the search begins again. This breaks ties as the plain loop
// does: a leaf that might hold a lower index at the same distance has the larger key. When the pending list is full,
// its samples are compared at once.

typedef float NAME(floats) __attribute__((vector_size(4 * WIDTH)));
typedef int32_t NAME(ints) __attribute__((vector_size(4 * WIDTH)));

#define floats NAME(floats)
#define ints NAME(ints)

TARGET static inline floats NAME(load)(const float *from) { return *(const floats *)from; }

TARGET static inline floats NAME(all)(float value) { return value - (floats){0}; }

// `a` where the mask is set, else `b`.
TARGET static inline ints NAME(select)(ints mask, ints a, ints b) { return (mask & a) | (~mask & b); }

TARGET static inline floats NAME(min)(floats a, floats b) {
#if defined(__x86_64__) && WIDTH == 8
  return _mm256_min_ps(a, b);
#elif defined(__x86_64__)
  return _mm_min_ps(a, b);
#elif defined(__aarch64__)
  return (floats)vminnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
  return (floats)NAME(select)(a < b, (ints)a, (ints)b);
#endif
}

TARGET static inline floats NAME(max)(floats a, floats b) {
#if defined(__x86_64__) && WIDTH == 8
  return _mm256_max_ps(a, b);
#elif defined(__x86_64__)
  return _mm_max_ps(a, b);
#elif defined(__aarch64__)
  return (floats)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b);
#else
  return (floats)NAME(select)(a > b, (ints)a, (ints)b);
#endif
}

// A bit for each lane of the mask.
TARGET static inline unsigned NAME(bits)(ints mask) {
#if defined(__x86_64__) && WIDTH == 8
  return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__x86_64__)
  return (unsigned)_mm_movemask_ps((__m128)mask);
#elif defined(__aarch64__)
  const uint32x4_t bit = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32((uint32x4_t)mask, bit));
#else
  unsigned bits = 0;
  for (int i = 0; i < WIDTH; i++) bits |= (unsigned)mask[i] & 1u << i;
  return bits;
#endif
}

// Compares the pending samples with the leaf's points. Returns the leaf's new key.
TARGET static int64_t NAME(work_off)(struct cpu_sampler *sampler, struct cpu_sample_leaf *leaf) {
  _Alignas(32) float best[CPU_SAMPLE_LANES];
  _Alignas(32) int32_t index[CPU_SAMPLE_LANES];
  const int32_t pending = leaf->num_pending, num_blocks = leaf->num_blocks;
  struct cpu_sample_block *blocks = &sampler->blocks[leaf->first_block];
  for (int l = 0; l < CPU_SAMPLE_LANES; l += WIDTH) {
    floats farthest = NAME(all)(-1.0f);
    ints farthest_index = {0};
    for (struct cpu_sample_block *block = blocks; block < blocks + num_blocks; block++) {
      floats x = NAME(load)(block->xyz[0] + l), y = NAME(load)(block->xyz[1] + l), z = NAME(load)(block->xyz[2] + l);
      floats distance = NAME(load)(block->distance + l);
      for (int32_t i = 0; i < pending; i++) {
        floats dx = x - leaf->pending[i][0], dy = y - leaf->pending[i][1], dz = z - leaf->pending[i][2];
        distance = NAME(min)(dx * dx + dy * dy + dz * dz, distance);
      }
      *(floats *)(block->distance + l) = distance;
      // Indices ascend in a lane, so the first of equal distances has the lowest index.
      ints farther = distance > farthest;
      farthest = NAME(max)(distance, farthest);
      farthest_index = NAME(select)(farther, *(const ints *)(block->index + l), farthest_index);
    }
    *(floats *)(best + l) = farthest;
    *(ints *)(index + l) = farthest_index;
  }
  leaf->num_pending = 0;
  int64_t key = cpu_sample_key(best[0], index[0]);
  for (int l = 1; l < CPU_SAMPLE_LANES; l++) {
    int64_t other = cpu_sample_key(best[l], index[l]);
    key = other > key ? other : key;
  }
  sampler->stop->rows += (int64_t)num_blocks * pending * CPU_SAMPLE_LANES;
  return key;
}

static inline int NAME(largest)(const struct cpu_sample_node *node) {
  int lane = 0;
  int64_t key = node->key[0];
  for (int l = 1; l < CPU_SAMPLE_LANES; l++) {
    lane = node->key[l] > key ? l : lane;
    key = node->key[l] > key ? node->key[l] : key;
  }
  return lane;
}

// Updates the keys of the nodes above the leaf.
TARGET static void NAME(tell)(struct cpu_sampler *sampler, const struct cpu_sample_node *node) {
  while (node->parent >= 0) {
    int best = NAME(largest)(node), lane = node->lane;
    struct cpu_sample_node *parent = &sampler->nodes[node->parent];
    if (parent->key[lane] == node->key[best] && parent->leaf[lane] == node->leaf[best]) break;
    parent->key[lane] = node->key[best];
    parent->farthest[lane] = node->farthest[best];
    parent->leaf[lane] = node->leaf[best];
    node = parent;
  }
}

TARGET static void NAME(refresh)(struct cpu_sampler *sampler, struct cpu_sample_leaf *leaf) {
  struct cpu_sample_node *node = &sampler->nodes[leaf->parent];
  int64_t key = NAME(work_off)(sampler, leaf);
  node->key[leaf->lane] = key;
  node->farthest[leaf->lane] = cpu_sample_key_distance(key);
  NAME(tell)(sampler, node);
}

// A bit for each box of the node: the sample may change something in it. `most`: the distance to the far corner of each
// box.
TARGET static inline unsigned NAME(reached)(const struct cpu_sample_node *node, const float sample[3],
                                            float most[CPU_SAMPLE_LANES]) {
  unsigned reached = 0;
  for (int l = 0; l < CPU_SAMPLE_LANES; l += WIDTH) {
    floats near[3], far[3];
    for (int axis = 0; axis < 3; axis++) {
      floats below = sample[axis] - NAME(load)(node->low[axis] + l);
      floats above = NAME(load)(node->high[axis] + l) - sample[axis];
      far[axis] = NAME(max)(below, above);
      near[axis] = NAME(min)(NAME(min)(below, above), (floats){0});
    }
    floats least = near[0] * near[0] + near[1] * near[1] + near[2] * near[2];
    *(floats *)(most + l) = far[0] * far[0] + far[1] * far[1] + far[2] * far[2];
    reached |= NAME(bits)(least < NAME(load)(node->farthest + l)) << l;
  }
  return reached;
}

// Notes the sample as pending at the leaf in that lane. `most`: no point of the leaf is farther from the sample.
TARGET static inline void NAME(note)(struct cpu_sampler *sampler, struct cpu_sample_node *node, int lane,
                                     const float sample[3], float most) {
  struct cpu_sample_leaf *leaf = &sampler->leaves[~node->child[lane]];
  memcpy(leaf->pending[leaf->num_pending++], sample, sizeof leaf->pending[0]);
  if (most < node->farthest[lane]) {
    node->farthest[lane] = most;
    node->key[lane] = cpu_sample_key(most, 0);  // index 0: no point at this distance has a larger key
  }
  if (leaf->num_pending == CPU_SAMPLE_PENDING) NAME(refresh)(sampler, leaf);
}

TARGET static bool NAME(add_sample)(struct cpu_sampler *sampler, const float sample[3]) {
  _Alignas(32) float most[CPU_SAMPLE_LANES];
  int32_t stack[STACK];
  int top = 0;
  stack[top++] = 0;
  while (top > 0) {
    struct cpu_sample_node *node = &sampler->nodes[stack[--top]];
    for (unsigned reached = NAME(reached)(node, sample, most); reached != 0; reached &= reached - 1) {
      int lane = __builtin_ctz(reached);
      if (node->child[lane] < 0) {
        NAME(note)(sampler, node, lane, sample, most[lane]);
      } else {
        __builtin_prefetch(&sampler->nodes[node->child[lane]]);
        stack[top++] = node->child[lane];
      }
    }
    if (vx_stopped(sampler->stop, 0)) return false;
  }
  return true;
}

// Compares the first sample with all points. Updates nodes from the last to the first, since children have larger
// numbers than parents. False if stopped.
TARGET static bool NAME(first_sample)(struct cpu_sampler *sampler) {
  for (int32_t i = 0; i < sampler->num_leaves; i++) {
    struct cpu_sample_leaf *leaf = &sampler->leaves[i];
    struct cpu_sample_node *node = &sampler->nodes[leaf->parent];
    node->key[leaf->lane] = NAME(work_off)(sampler, leaf);
    node->farthest[leaf->lane] = cpu_sample_key_distance(node->key[leaf->lane]);
    node->leaf[leaf->lane] = i;
    if (vx_stopped(sampler->stop, 0)) return false;
  }
  for (int32_t i = sampler->num_nodes - 1; i > 0; i--) {
    const struct cpu_sample_node *node = &sampler->nodes[i];
    struct cpu_sample_node *parent = &sampler->nodes[node->parent];
    int best = NAME(largest)(node);
    parent->key[node->lane] = node->key[best];
    parent->farthest[node->lane] = node->farthest[best];
    parent->leaf[node->lane] = node->leaf[best];
  }
  return true;
}

// The key of the farthest point. False if stopped.
TARGET static bool NAME(next_sample)(struct cpu_sampler *sampler, int64_t *key) {
  const struct cpu_sample_node *root = &sampler->nodes[0];
  while (!vx_stopped(sampler->stop, 0)) {
    int best = NAME(largest)(root);
    struct cpu_sample_leaf *leaf = &sampler->leaves[root->leaf[best]];
    const struct cpu_sample_node *node = &sampler->nodes[leaf->parent];
    if (leaf->num_pending == 0) {
      *key = root->key[best];
      return true;
    }
    if (node->key[leaf->lane] < root->key[best])
      NAME(tell)(sampler, node);  // the leaf's bound has fallen
    else
      NAME(refresh)(sampler, leaf);
  }
  return false;
}

TARGET static bool NAME(take_samples)(struct cpu_sampler *sampler) {
  const struct cpu_sample_task *task = sampler->task;
  task->indices[0] = task->start;
  task->distances[0] = INFINITY;
  bool go_on = NAME(first_sample)(sampler);
  for (int32_t i = 1; go_on && i < task->num_samples; i++) {
    int64_t key;
    go_on = NAME(next_sample)(sampler, &key);
    if (go_on) {
      task->indices[i] = cpu_sample_key_index(key);
      task->distances[i] = cpu_sample_key_distance(key);
      const float *sample = task->points + (int64_t)task->indices[i] * task->columns;
      go_on = !vx_stopped(sampler->stop, CPU_SAMPLE_STEP) && NAME(add_sample)(sampler, sample);
    }
  }
  return go_on;
}

#undef floats
#undef ints

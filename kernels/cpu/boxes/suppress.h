// What suppression of boxes needs on the CPU, one cloud at a time: ranks, rectangles, and who is struck out.
//
// It belongs to one job, and so to one thread.
#ifndef VOXELD_CPU_SUPPRESS_H
#define VOXELD_CPU_SUPPRESS_H

#include "kernels/cpu/base/arena.h"
#include "kernels/cpu/base/sort.h"
#include "kernels/kernels.h"
#include "kernels/overlap.h"

struct cpu_suppressor {
  struct vx_stop *stop;
  const struct vx_nms *params;
  const float *boxes;     // [.., 7], by number
  const int32_t *labels;  // by number; NULL if they make no difference
  // Filled by the caller: the key and number of each valid box of the cloud, by rising number; then in scratch memory.
  struct cpu_keyed *ranked, *spare;
  // Of the candidates, in the order of ranks: their rectangles; their centres, and how far from these they reach,
  // packed for a quick look at all; and which of them are struck out.
  struct vx_rectangle *rectangles;
  double *x, *y, *reach;
  unsigned char *struck;
  int32_t *near;  // numbers of those that may be suppressed by the box in hand
};

// Takes the arrays for clouds of up to `most` boxes.
void cpu_suppressor_lay_out(struct cpu_suppressor *suppressor, int32_t most, struct cpu_arena *arena);

// Ranks the `valid` boxes of a cloud and writes the numbers of those that are kept, the best first. Returns how many,
// and adds the fates of all to the counts. Pairs are the square of the boxes, and count as rows of `stop`.
int32_t cpu_suppress(struct cpu_suppressor *suppressor, int32_t valid, int32_t *kept, struct vx_counts *counts);

#endif

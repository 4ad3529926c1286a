// Suppression on the CPU; see boxes.h. For each kept box, a pass without branches lists the boxes near it, which are
// few; the exact test follows.
#include "kernels/cpu/boxes/boxes.h"

static int32_t at_most(int32_t count, int32_t limit) { return count < limit ? count : limit; }

void cpu_suppressor_lay_out(struct cpu_suppressor *suppressor, int32_t most, struct cpu_arena *arena) {
  int32_t candidates = at_most(most, suppressor->params->pre_max);
  suppressor->ranked = cpu_arena_take(arena, (uint64_t)most, sizeof *suppressor->ranked);
  suppressor->spare = cpu_arena_take(arena, (uint64_t)most, sizeof *suppressor->spare);
  suppressor->rectangles = cpu_arena_take(arena, (uint64_t)candidates, sizeof *suppressor->rectangles);
  suppressor->x = cpu_arena_take(arena, (uint64_t)candidates, sizeof *suppressor->x);
  suppressor->y = cpu_arena_take(arena, (uint64_t)candidates, sizeof *suppressor->y);
  suppressor->reach = cpu_arena_take(arena, (uint64_t)candidates, sizeof *suppressor->reach);
  suppressor->struck = cpu_arena_take(arena, (uint64_t)candidates, sizeof *suppressor->struck);
  suppressor->near = cpu_arena_take(arena, (uint64_t)candidates, sizeof *suppressor->near);
}

static void rank(struct cpu_suppressor *suppressor, int32_t valid, int32_t candidates) {
  struct cpu_keyed *sorted = cpu_sort(suppressor->stop, suppressor->ranked, suppressor->spare, valid, 32);
  if (sorted == suppressor->spare) {
    suppressor->spare = suppressor->ranked;
    suppressor->ranked = sorted;
  }
  VX_EACH_ROW(suppressor->stop, i, 0, candidates) {
    struct vx_rectangle rectangle = vx_rectangle_of(suppressor->boxes + (int64_t)sorted[i].number * VX_BOX_VALUES);
    suppressor->rectangles[i] = rectangle;
    suppressor->x[i] = rectangle.x;
    suppressor->y[i] = rectangle.y;
    suppressor->reach[i] = suppressor->params->circle ? 0 : rectangle.radius;
    suppressor->struck[i] = 0;
  }
}

// Lists candidates after `best` that are near it and not suppressed. Returns their number.
static int32_t list_near(struct cpu_suppressor *suppressor, int32_t best, int32_t candidates) {
  const double *x = suppressor->x, *y = suppressor->y, *reaches = suppressor->reach;
  const unsigned char *struck = suppressor->struck;
  double own_x = x[best], own_y = y[best];
  double own_reach = suppressor->params->circle ? (double)suppressor->params->radius : reaches[best];
  int32_t *near = suppressor->near, count = 0;
  for (int32_t i = best + 1; i < candidates; i++) {
    double along = x[i] - own_x, across = y[i] - own_y, reach = own_reach + reaches[i];
    near[count] = i;
    count += (along * along + across * across <= reach * reach) & !struck[i];
  }
  return count;
}

// Marks the later candidates that `best` suppresses.
static void strike(struct cpu_suppressor *suppressor, int32_t best, int32_t candidates) {
  const struct vx_rectangle *rectangles = suppressor->rectangles;
  const int32_t *labels = suppressor->labels;
  const struct cpu_keyed *ranked = suppressor->ranked;
  int32_t count = list_near(suppressor, best, candidates);
  for (int32_t n = 0; n < count; n++) {
    int32_t i = suppressor->near[n];
    bool other = labels && labels[ranked[i].number] != labels[ranked[best].number];
    suppressor->struck[i] = !other && vx_suppresses(&rectangles[best], &rectangles[i], suppressor->params);
  }
}

int32_t cpu_suppress(struct cpu_suppressor *suppressor, int32_t valid, int32_t *kept, struct vx_counts *counts) {
  int32_t candidates = at_most(valid, suppressor->params->pre_max), num_kept = 0, struck = 0;
  rank(suppressor, valid, candidates);
  for (int32_t i = 0; i < candidates && num_kept < suppressor->params->post_max; i++) {
    bool stays = !suppressor->struck[i];
    if (vx_stopped(suppressor->stop, stays ? candidates - i : 1)) break;
    struck += !stays;
    if (stays) {
      kept[num_kept++] = suppressor->ranked[i].number;
      strike(suppressor, i, candidates);
    }
  }
  counts->over_pre_max += valid - candidates;
  counts->suppressed += struck;
  counts->over_post_max += candidates - struck - num_kept;
  counts->kept += num_kept;
  return num_kept;
}

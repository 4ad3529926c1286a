// Ring outlier on the CPU (kernels/step_ring_outlier.h), cloud by cloud: sorts the rows by ring, then walks around each
// ring.
#include <string.h>

#include "kernels/cpu/steps/steps.h"
#include "kernels/number.h"

enum { RINGS = VX_NO_RING + 1 };

// `largest`: rows of the largest cloud.
struct ring_outlier {
  const struct cpu_chain *chain;
  const struct vx_ring_outlier *params;
  struct vx_stop *stop;
  int32_t begin, end;     // rows of the current cloud
  int32_t num_rows;       // rows that are left
  int32_t *rows;          // [largest]: these rows
  int16_t *ring_of;       // [largest]: the ring of each of them
  int32_t ends[RINGS];    // where each ring ends in the list
  int32_t *list;          // [largest]: rows, ring by ring
  struct vx_ringed *at;   // [largest + 1]: points of the current ring; a circle's first point is repeated at the end
  unsigned char *linked;  // [largest]: whether each point is linked to the next
};

// ---- rings ----------------------------------------------------------------------------------------------------------

// Whether a turn begins at this row. The body still has all rows as they were before the first step. `first`: the
// cloud's first row.
static bool turns_at(const struct vx_input *body, int64_t first, int64_t row) {
  int64_t at = row * body->dims[1];
  return row > first &&
         vx_is_turn(vx_load(body->dtype, body->data, (uint64_t)(at - body->dims[1] + 1)),
                    vx_load(body->dtype, body->data, (uint64_t)at), vx_load(body->dtype, body->data, (uint64_t)at + 1));
}

static void note_row(struct ring_outlier *own, int64_t row, int32_t ring) {
  own->rows[own->num_rows] = (int32_t)row;
  own->ring_of[own->num_rows++] = (int16_t)ring;
  own->ends[ring]++;
}

static void find_rings(struct ring_outlier *own) {
  const struct vx_input *body = &own->chain->job->inputs[VX_POINTS];
  int32_t column = own->params->column, turns = 0;
  VX_EACH_ROW(own->stop, row, own->begin, own->end) {
    if (column == VX_KITTI_RINGS && turns < VX_NO_RING) turns += turns_at(body, own->begin, row);
    const float *left = cpu_row_left(own->chain, row);
    if (left) note_row(own, row, column == VX_KITTI_RINGS ? turns : vx_ring_of(left[column]));
  }
}

static void list_rows(struct ring_outlier *own) {
  int32_t next[RINGS], before = 0;
  for (int32_t ring = 0; ring < RINGS; ring++) {
    next[ring] = before;
    before += own->ends[ring];
    own->ends[ring] = before;
  }
  VX_EACH_ROW(own->stop, i, 0, own->num_rows) own->list[next[own->ring_of[i]]++] = own->rows[i];
}

// ---- a ring ---------------------------------------------------------------------------------------------------------

// Fills `at` with the points of a ring. Returns how many of the first `links` points are linked to the next point.
static int32_t link_points(struct ring_outlier *own, const int32_t *list, int32_t count, int32_t links) {
  const struct vx_ring_outlier params = *own->params;
  struct vx_ringed *at = own->at;
  int32_t sum = 0;
  VX_EACH_ROW(own->stop, i, 0, count) {
    const float *row = own->chain->rows + (int64_t)list[i] * own->chain->columns;
    at[i] = vx_ringed_of(row[0], row[1], row[2]);
  }
  at[count] = at[0];
  VX_EACH_ROW(own->stop, i, 0, links) {
    own->linked[i] = vx_are_linked(&params, &at[i], &at[i + 1]);
    sum += own->linked[i];
  }
  return sum;
}

// Drops the walk of `length` points that ends at place `last`, unless it stays. On a circle, place 0 follows the ring's
// last place.
static void judge(const struct ring_outlier *own, const int32_t *list, int32_t count, int32_t last, int32_t length) {
  int32_t first = last - length + 1 < 0 ? last - length + 1 + count : last - length + 1;
  if (vx_walk_stays(own->params, &own->at[first], &own->at[last], length)) return;
  for (int32_t i = 0, place = first; i < length; i++, place = place + 1 == count ? 0 : place + 1)
    cpu_drop(own->chain, list[place], VX_FATE_RING_OUTLIER);
}

static void walk(struct ring_outlier *own, const int32_t *list, int32_t count) {
  int32_t links = count >= 3 ? count : count - 1, length = 0;
  if (count == 0 || (link_points(own, list, count, links) == links && links == count)) return;
  while (links == count && length < count - 1 && own->linked[count - 1 - length])
    length++;  // the points of the circle's end that are linked to its first point
  int32_t before = length;
  VX_EACH_ROW(own->stop, i, 0, count - before) {
    length++;
    if (i < links && own->linked[i]) continue;
    judge(own, list, count, (int32_t)i, length);
    length = 0;
  }
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void judge_cloud(struct ring_outlier *own) {
  own->num_rows = 0;
  memset(own->ends, 0, sizeof own->ends);
  find_rings(own);
  list_rows(own);
  for (int32_t ring = 0, begin = 0; ring < VX_NO_RING; begin = own->ends[ring++])
    walk(own, own->list + begin, own->ends[ring] - begin);
  VX_EACH_ROW(own->stop, i, own->ends[VX_NO_RING - 1], own->num_rows)
    cpu_drop(own->chain, own->list[i], VX_FATE_NO_RING);
}

static void lay_out(struct ring_outlier *own, uint64_t largest, struct cpu_arena *arena) {
  own->rows = cpu_arena_take(arena, largest, sizeof *own->rows);
  own->ring_of = cpu_arena_take(arena, largest, sizeof *own->ring_of);
  own->list = cpu_arena_take(arena, largest, sizeof *own->list);
  own->at = cpu_arena_take(arena, largest + 1, sizeof *own->at);
  own->linked = cpu_arena_take(arena, largest, sizeof *own->linked);
}

enum vx_status cpu_step_ring_outlier(struct cpu_chain *chain, const struct vx_step *step, struct error *error) {
  struct ring_outlier own = {.chain = chain, .params = &step->params.ring_outlier, .stop = chain->job->stop};
  struct cpu_arena measured = {0};
  uint64_t largest = (uint64_t)cpu_largest_cloud(chain);
  lay_out(&own, largest, &measured);
  enum vx_status status = cpu_arena_reserve(&chain->lane->scratch, &measured, chain->job, error);
  if (status == VX_OK) lay_out(&own, largest, &chain->lane->scratch);
  for (int32_t cloud = 0; cloud < chain->job->num_clouds && status == VX_OK; cloud++) {
    own.begin = own.end;
    own.end += chain->job->point_counts[cloud];
    judge_cloud(&own);
    status = vx_stop_status(own.stop, error);
  }
  return status;
}

// See tracks.h.
#include "kernels/tracks.h"

enum { UNDECIDED = 0, NEW = -1 };  // in place of an id

static const float *box_at(const struct vx_sweep_boxes *sweep, int64_t number) {
  return sweep->boxes + number * sweep->values;
}

static double velocity_of(const struct vx_sweep_boxes *sweep, int64_t number, int axis) {
  return sweep->values > VX_BOX_VALUES ? (double)box_at(sweep, number)[VX_BOX_VALUES + axis] : 0;
}

struct vx_sweep_boxes vx_sweep_boxes_of(const struct vx_layout *layout, const void *block) {
  const unsigned char *at = block;
  const struct vx_shape *boxes = &layout->shape[VX_DECODED_BOXES];
  return (struct vx_sweep_boxes){.count = boxes->dims[0],
                                 .values = boxes->dims[1],
                                 .boxes = (const void *)(at + layout->offset[VX_DECODED_BOXES]),
                                 .scores = (const void *)(at + layout->offset[VX_DECODED_SCORES]),
                                 .labels = (const void *)(at + layout->offset[VX_DECODED_LABELS])};
}

// ---- matching -------------------------------------------------------------------------------------------------------

static void see(const struct vx_sweep_boxes *sweep, struct vx_tracks *tracks) {
  const double *r = sweep->rotation, *t = sweep->translation;
  for (int64_t i = 0; i < tracks->count; i++) {
    struct vx_track *track = &tracks->track[i];
    const double *at = track->centre, w[3] = {at[0] - t[0], at[1] - t[1], at[2] - t[2]};
    for (int a = 0; a < 2; a++) track->seen[a] = (r[a] * w[0] + r[3 + a] * w[1]) + r[6 + a] * w[2];
    track->taken = false;
  }
}

// The undecided box with the highest score.
static int64_t best_box(const struct vx_sweep_boxes *sweep, const int64_t *ids) {
  int64_t best = -1;
  for (int64_t i = 0; i < sweep->count; i++)
    if (ids[i] == UNDECIDED && (best < 0 || sweep->scores[i] > sweep->scores[best])) best = i;
  return best;
}

// NULL: no track is near enough.
static struct vx_track *nearest(const struct vx_track_terms *terms, const struct vx_sweep_boxes *sweep, int64_t number,
                                double dt, struct vx_tracks *tracks) {
  int32_t label = sweep->labels[number];
  double x = (double)box_at(sweep, number)[0] - velocity_of(sweep, number, 0) * dt;
  double y = (double)box_at(sweep, number)[1] - velocity_of(sweep, number, 1) * dt;
  double most = (double)terms->max_distance[terms->num_distances > 1 ? label : 0], least = most * most;
  struct vx_track *nearest = NULL;
  for (int64_t i = 0; i < tracks->count; i++) {
    struct vx_track *track = &tracks->track[i];
    if (track->taken || track->label != label) continue;
    double dx = track->seen[0] - x, dy = track->seen[1] - y, square = dx * dx + dy * dy;
    if (!(nearest ? square < least : square <= least)) continue;
    nearest = track;
    least = square;
  }
  return nearest;
}

static void match(const struct vx_track_terms *terms, const struct vx_sweep_boxes *sweep, double dt,
                  struct vx_tracks *tracks, struct vx_stop *stop, int64_t *ids) {
  for (int64_t i = 0; i < sweep->count; i++) ids[i] = UNDECIDED;
  for (int64_t i = 0; i < sweep->count && !vx_stopped(stop, sweep->count + tracks->count); i++) {
    int64_t number = best_box(sweep, ids);
    struct vx_track *track = nearest(terms, sweep, number, dt, tracks);
    ids[number] = track ? track->id : NEW;
    if (track) track->taken = true;
  }
}

// ---- the tracks after the sweep -------------------------------------------------------------------------------------

static struct vx_track track_of(const struct vx_sweep_boxes *sweep, int64_t number, int64_t id) {
  const double *r = sweep->rotation;
  const float *box = box_at(sweep, number);
  double vx = velocity_of(sweep, number, 0), vy = velocity_of(sweep, number, 1);
  struct vx_track track = {.id = id, .label = sweep->labels[number]};
  for (int a = 0; a < 3; a++, r += 3) {
    track.centre[a] = ((r[0] * (double)box[0] + r[1] * (double)box[1]) + r[2] * (double)box[2]) + sweep->translation[a];
    track.velocity[a] = r[0] * vx + r[1] * vy;
  }
  return track;
}

static void add_boxes(const struct vx_sweep_boxes *sweep, int64_t *ids, struct vx_tracks *after,
                      struct vx_track_counts *counts) {
  for (int64_t i = 0; i < sweep->count; i++) {
    bool is_new = ids[i] == NEW;
    if (is_new) ids[i] = after->next_id++;
    *(is_new ? &counts->started : &counts->matched) += 1;
    after->track[after->count++] = track_of(sweep, i, ids[i]);
  }
}

static void add_missed(const struct vx_tracks *before, int32_t max_age, double dt, struct vx_tracks *after,
                       struct vx_track_counts *counts) {
  for (int64_t i = 0; i < before->count; i++) {
    struct vx_track track = before->track[i];
    if (track.taken) continue;
    track.missed += dt > 0;
    bool ends = track.missed > max_age || after->count == VX_MAX_TRACKS;
    *(ends ? &counts->ended : &counts->missed) += 1;
    if (ends) continue;
    for (int a = 0; a < 3; a++) track.centre[a] += track.velocity[a] * dt;
    after->track[after->count++] = track;
  }
}

void vx_follow(const struct vx_track_terms *terms, const struct vx_sweep_boxes *sweep, struct vx_tracks *before,
               struct vx_stop *stop, struct vx_tracks *after, int64_t *ids, struct vx_track_counts *counts) {
  double dt = sweep->time - before->time;
  struct vx_tracks none = {.count = 0};
  bool begins = before->next_id == 0 || dt < 0;
  struct vx_tracks *seen = begins ? &none : before;
  *counts = (struct vx_track_counts){.begun = begins || (sweep->repeated && before->begun)};
  *after =
      (struct vx_tracks){.time = sweep->time, .next_id = before->next_id ? before->next_id : 1, .begun = counts->begun};
  see(sweep, seen);
  match(terms, sweep, dt, seen, stop, ids);
  add_boxes(sweep, ids, after, counts);
  add_missed(seen, terms->max_age, dt, after, counts);
}

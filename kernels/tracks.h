// Tracks: the boxes of one sensor, matched from sweep to sweep, so that an object keeps its id.
//
// The greedy matching of CenterPoint's tracker, in binary64, in the order below, without contraction. A sum of three
// products is (a + b) + c. The boxes of a sweep are in its frame; `rotation` R and `translation` T are the pose of this
// frame in a fixed frame, in which tracks are kept.
//
//   1. dt is the time of the sweep minus the time of the tracks. If dt is below 0, or if there are no tracks yet, all
//      tracks begin with this sweep. Ids continue from the last one.
//   2. Each track is seen in the frame of the sweep. With w = centre - T, its x (a = 0) and y (a = 1) are
//      (R[0][a] * w[0] + R[1][a] * w[1]) + R[2][a] * w[2].
//   3. The boxes take turns by falling score; of equal scores, the first box. Each box is moved back by its velocity:
//      x - vx * dt, y - vy * dt. A box without a velocity stays where it is.
//   4. The box takes, of the tracks that have its label and that no box has taken, the track with the smallest
//      dx * dx + dy * dy; of equal sums, the first. The sum may be at most max_distance * max_distance.
//   5. A box that has taken a track gets the track's id. The other boxes get new ids, in the order of the boxes: 1 for
//      the first ever, then one more each time.
//   6. Each box becomes a track, in the order of the boxes: its centre is R * (x, y, z) + T, its velocity
//      R * (vx, vy, 0), or 0. The tracks that no box took follow, in their order. If dt is above 0, such a track has
//      missed a sweep: it ends if it has missed more than max_age sweeps in a row. If it stays, its centre moves by
//      velocity * dt. Tracks beyond the first VX_MAX_TRACKS end.
//
// A sweep that is sent again finds its own tracks, since dt is 0. If the tracks began with that sweep, counts->begun is
// set again, because the client may not have received the first answer. Pure functions over the caller's memory. Any
// thread.
#ifndef VOXELD_TRACKS_H
#define VOXELD_TRACKS_H

#include "kernels/detect.h"
#include "kernels/stop.h"
#include "kernels/tensor.h"

struct vx_track {
  int64_t id;
  int32_t label;
  int32_t missed;                 // sweeps in a row without a box
  double centre[3], velocity[3];  // in the fixed frame; metres, metres per second
  double seen[2];                 // during a call: the centre in the frame of the sweep
  bool taken;                     // during a call: a box has taken the track
};

struct vx_tracks {
  double time;      // seconds
  int64_t next_id;  // 0: the tracks have not begun
  bool begun;       // the tracks began with the last sweep
  int64_t count;
  struct vx_track track[];
};

// The boxes of a sweep, as a detection writes them.
struct vx_sweep_boxes {
  int64_t count, values;  // 0..VX_MAX_TRACKS boxes of VX_BOX_VALUES or VX_MOVING_BOX_VALUES
  const float *boxes, *scores;
  const int32_t *labels;
  double time;                           // seconds
  bool repeated;                         // it was sent again
  const double *rotation, *translation;  // [9] row by row, [3]
};

// The boxes in the output of a detection. The caller fills the members from `time` on.
struct vx_sweep_boxes vx_sweep_boxes_of(const struct vx_layout *layout, const void *block);

// The most tracks after a sweep with `boxes` boxes.
static inline int64_t vx_tracks_most(const struct vx_tracks *tracks, int64_t boxes) {
  return tracks->count < VX_MAX_TRACKS - boxes ? tracks->count + boxes : VX_MAX_TRACKS;
}
static inline size_t vx_tracks_bytes(int64_t count) {
  return sizeof(struct vx_tracks) + (size_t)count * sizeof(struct vx_track);
}

// Writes the ids of the boxes, and the tracks after the sweep to `after`, which has room for vx_tracks_most. Of
// `before`, only `seen` and `taken` change. If `stop` is stopped, ids and tracks are incomplete.
void vx_follow(const struct vx_track_terms *terms, const struct vx_sweep_boxes *sweep, struct vx_tracks *before,
               struct vx_stop *stop, struct vx_tracks *after, int64_t *ids, struct vx_track_counts *counts);

#endif

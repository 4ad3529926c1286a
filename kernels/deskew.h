// De-skew: moves each point of a sweep from the sensor's frame at the point's time to its frame at one reference time.
//
// In each segment of the motion the sensor has a constant velocity `v` and a constant angular velocity `w`, both in its
// own frame. api/params/motion.h makes the segments in double and rounds them once.
//
// A job with a struct vx_deskew moves its float32 points before its chain. Times outside the motion are clamped to it.
// A point without a finite time gets NaN as its x, so that it counts as not finite.
//
// IEEE binary32, in the order written here: compile it with -ffp-contract=off or --fmad=false.
#ifndef VOXELD_DESKEW_H
#define VOXELD_DESKEW_H

#include "kernels/half.h"
#include "kernels/stop.h"

enum { VX_MAX_SEGMENTS = 64 };
#define VX_MOTION_MARGIN 0.1  // seconds before and after a motion in which its first and its last velocity continue
#define VX_SEGMENT_TURN 0.2   // radians; the maximum turn of a segment, for which the series of vx_deskew suffice

struct vx_segment {
  float start;       // seconds from the reference
  float pose[12];    // 3 x 4, row by row: from the sensor's frame at `start` to its frame at the reference
  float v[3], w[3];  // metres and radians per second
};

struct vx_motion {
  int32_t count;                                // 0: not known; points stay
  float first, last;                            // times outside are clamped
  struct vx_segment segments[VX_MAX_SEGMENTS];  // ascending by start
};

struct vx_deskew {
  const float *times;              // [N]: seconds from the reference; caller's memory
  const struct vx_motion *motion;  // caller's memory
  int64_t moved, clamped;          // out: points that moved, and those of them with a clamped time
};

VX_SHARED void vx_cross(const float a[3], const float b[3], float out[3]) {
  out[0] = a[1] * b[2] - a[2] * b[1];
  out[1] = a[2] * b[0] - a[0] * b[2];
  out[2] = a[0] * b[1] - a[1] * b[0];
}

// The index of the last segment with start <= t, or 0. The search begins at index `near`.
VX_SHARED int32_t vx_segment_at(const struct vx_segment *segments, int32_t count, float t, int32_t near) {
  while (near + 1 < count && segments[near + 1].start <= t) near++;
  while (near > 0 && segments[near].start > t) near--;
  return near;
}

// Moves a point that was measured at `t` in the segment: q = exp(dt (v, w)) p, then the segment's pose. A coordinate
// that overflows to NaN gets the bits VX_FLOAT_NAN.
VX_SHARED void vx_deskew(const struct vx_segment *segment, float t, float point[3]) {
  const float *v = segment->v, *w = segment->w, *m = segment->pose;
  float dt = t - segment->start;
  float z = ((w[0] * w[0] + w[1] * w[1]) + w[2] * w[2]) * (dt * dt);
  float a = (1 + z * (-1.0f / 6 + z * (1.0f / 120))) * dt;
  float b = (1.0f / 2 + z * (-1.0f / 24 + z * (1.0f / 720))) * (dt * dt);
  float c = (1.0f / 6 + z * (-1.0f / 120 + z * (1.0f / 5040))) * ((dt * dt) * dt);
  float wp[3], wwp[3], wv[3], wwv[3], q[3];
  vx_cross(w, point, wp);
  vx_cross(w, wp, wwp);
  vx_cross(w, v, wv);
  vx_cross(w, wv, wwv);
  for (int axis = 0; axis < 3; axis++) {
    float turned = a * wp[axis] + b * wwp[axis], shifted = (dt * v[axis] + b * wv[axis]) + c * wwv[axis];
    q[axis] = point[axis] + (turned + shifted);
  }
  for (int row = 0; row < 3; row++, m += 4)
    point[row] = vx_canonical(((m[0] * q[0] + m[1] * q[1]) + m[2] * q[2]) + m[3]);
}

#ifdef __cplusplus
extern "C" {
#endif

// Moves points in place, on the CPU. Adds to the counts. rows: [points, columns].
void vx_deskew_rows(struct vx_deskew *deskew, int32_t columns, int64_t points, struct vx_stop *stop, float *rows);

#ifdef __cplusplus
}
#endif
#endif

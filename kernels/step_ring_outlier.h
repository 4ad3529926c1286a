// Ring outlier, a step: drops points that hang in the air between the surfaces that a beam of the sensor meets.
//
// A point without a ring (rings.h) has the fate no_ring.
//
// The points of a ring in one cloud, in the order of rows, form a circle if they are three or more, else a line. With
// d = sqrt((x*x + y*y) + z*z), two neighbours i and j are linked if
//   max(di, dj) < min(di, dj) * ratio,  dot > 0  and  |cross| <= tangent * dot,
//   where dot = xi*xj + yi*yj and cross = xi*yj - yi*xj.
// If all neighbours of a circle are linked, its points stay. Otherwise the circle or the line is cut between neighbours
// that are not linked, and each part is a walk. A walk stays if its ends are at least `length` apart (near.h), or if it
// has more than `most` points. The points of other walks have the fate ring_outlier. All arithmetic is in float32.
#ifndef VOXELD_STEP_RING_OUTLIER_H
#define VOXELD_STEP_RING_OUTLIER_H

#include <math.h>

#include "kernels/half.h"
#include "kernels/rings.h"
#include "kernels/step.h"

struct vx_ring_outlier {
  int32_t column;  // of the rings; or VX_KITTI_RINGS
  float ratio;
  float length;   // metres
  float degrees;  // the largest angle, in x and y, between linked neighbours
  float tangent;  // of the angle `degrees`
  int32_t most;   // INT32_MAX: the number of points does not matter
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct vx_step_row vx_step_ring_outlier;
#ifdef __cplusplus
}
#endif

struct vx_ringed {
  float x, y, z, d;
};

VX_SHARED struct vx_ringed vx_ringed_of(float x, float y, float z) {
  struct vx_ringed at = {x, y, z, vx_distance_of(x, y, z)};
  return at;
}

VX_SHARED bool vx_are_linked(const struct vx_ring_outlier *params, const struct vx_ringed *a,
                             const struct vx_ringed *b) {
  float far = a->d < b->d ? b->d : a->d, near = a->d < b->d ? a->d : b->d;
  float dot = a->x * b->x + a->y * b->y, cross = a->x * b->y - a->y * b->x;
  return (far < near * params->ratio) & (dot > 0.0f) & (fabsf(cross) <= params->tangent * dot);
}

VX_SHARED bool vx_walk_stays(const struct vx_ring_outlier *params, const struct vx_ringed *first,
                             const struct vx_ringed *last, int64_t points) {
  float dx = last->x - first->x, dy = last->y - first->y, dz = last->z - first->z;
  return (dx * dx + dy * dy) + dz * dz >= params->length * params->length || points > params->most;
}

#endif

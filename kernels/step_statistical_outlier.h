// Statistical outlier, a step: drops points whose nearest neighbours are unusually far away.
//
// The distance of a point is the mean distance to its k nearest other points in its cloud, where
// k = min(mean_k, points of the cloud - 1). The square roots of the squared distances (near.h) are added in double,
// from the nearest on. The sum is divided by k and rounded to float32.
//
// The mean and the deviation of a cloud are taken over the distances of its points, in double: sums in the order of
// rows, in groups of VX_DEVIATION_GROUP, then the groups' sums in such groups, and so on. The variance is the sum of
// (distance - mean) squared, divided by one less than the number of points. A point whose distance is above
// mean + std_mul * deviation has the fate statistical_outlier. If this bound is NaN, since distances overflow, all
// points stay. A lone point stays.
#ifndef VOXELD_STEP_STATISTICAL_OUTLIER_H
#define VOXELD_STEP_STATISTICAL_OUTLIER_H

#include <math.h>

#include "kernels/near.h"
#include "kernels/step.h"

enum { VX_MAX_MEAN_K = 128, VX_DEVIATION_GROUP = 64 };

struct vx_statistical_outlier {
  int32_t mean_k;  // 1 .. VX_MAX_MEAN_K
  float std_mul;   // 0 or more
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct vx_step_row vx_step_statistical_outlier;
#ifdef __cplusplus
}
#endif

// The squared distance from a point to a box. Each operation rounds monotonically, so the result is at most the squared
// distance to any point in the box.
VX_SHARED float vx_squared_distance_to_box(const float at[3], const float low[3], const float high[3]) {
  float d[3];
  for (int axis = 0; axis < 3; axis++) {
    float below = low[axis] - at[axis], above = at[axis] - high[axis];
    d[axis] = below > above ? below : above;
    d[axis] = d[axis] > 0.0f ? d[axis] : 0.0f;
  }
  return (d[0] * d[0] + d[1] * d[1]) + d[2] * d[2];
}

// A bound above the squared distance from a point to its mean_k-th nearest other point, if at least mean_k other points
// are within `reach`, a float32, of it. The margin is above all rounding.
VX_SHARED float vx_nearest_bound(float reach) { return reach * reach * 1.0001f + 1e-30f; }

// `points`: of the cloud, 2 or more. `squares`: the least squared distances, ascending; the first is the distance from
// the point to itself.
VX_SHARED float vx_mean_distance(const float *squares, int32_t mean_k, int32_t points) {
  int32_t k = mean_k < points - 1 ? mean_k : points - 1;
  double sum = sqrt((double)squares[1]);
  for (int32_t i = 2; i <= k; i++) sum += sqrt((double)squares[i]);
  return (float)(sum / k);
}

// A term of the sum for the mean or, if `squared`, for the deviation.
VX_SHARED double vx_deviation_term(float distance, bool squared, double mean) {
  double term = (double)distance - (squared ? mean : 0.0);
  return squared ? term * term : term;
}

VX_SHARED double vx_distance_bound(const struct vx_statistical_outlier *params, double mean, double squares,
                                   int32_t points) {
  return mean + (double)params->std_mul * sqrt(squares / (points - 1));
}

#endif

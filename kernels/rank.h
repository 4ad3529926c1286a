// The order of scores and the validity of boxes.
//
// Pure functions for C and CUDA.
#ifndef VOXELD_RANK_H
#define VOXELD_RANK_H

#include "kernels/boxes.h"
#include "kernels/exact.h"
#include "kernels/half.h"

// A key that rises as the score falls. -0 and 0 have the same key. The score must not be NaN.
VX_SHARED uint32_t vx_rank_key(float score) {
  uint32_t bits;
  score = score + 0.0f;  // -0 becomes 0
  memcpy(&bits, &score, sizeof bits);
  return (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffu;
}

// The score of a key. The sign of 0 is lost.
VX_SHARED float vx_score_of_key(uint32_t key) {
  uint32_t bits = (key >> 31) != 0 ? key : ~key & 0x7fffffffu;
  float score;
  memcpy(&score, &bits, sizeof score);
  return score;
}

VX_SHARED bool vx_is_valid_box(const float box[VX_BOX_VALUES], float score) {
  bool valid = vx_is_finite(score);
  for (int i = 0; i < VX_BOX_VALUES; i++) valid = valid & vx_is_finite(box[i]);
  return valid & (box[3] >= 0) & (box[4] >= 0) & (box[5] >= 0) & (fabsf(box[6]) <= VX_MOST_RADIANS);
}

#endif

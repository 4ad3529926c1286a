// Long lists of inputs for the arithmetic of kernels/, and a hash of the results that does not depend on their order.
//
// The unit test exact checks the hash of a part of each list, cuda-exhaustive those of the whole lists, on the CPU and
// on a GPU. Pure functions for C and CUDA.
#ifndef VOXELD_TESTS_EXHAUSTIVE_H
#define VOXELD_TESTS_EXHAUSTIVE_H

#include "kernels/overlap.h"

enum exhaustive {
  EXHAUSTIVE_EXP,
  EXHAUSTIVE_SIGMOID,
  EXHAUSTIVE_SINCOS,
  EXHAUSTIVE_OVERLAP,
  EXHAUSTIVE_ATAN2,
  EXHAUSTIVE_POWER,
  EXHAUSTIVES
};

struct exhaustive_row {
  const char *name, *inputs;
  uint64_t count;   // of the inputs
  uint64_t stride;  // the part takes every stride-th input
  uint64_t part_hash, hash;
};

// By enum exhaustive. Hashes by gcc on x86-64.
static const struct exhaustive_row exhaustive_rows[EXHAUSTIVES] = {
    {"exp", "floats", UINT64_C(1) << 32, 4099, 0xa208ab5d109bee38u, 0x2153e4e36352d518u},
    {"sigmoid", "floats", UINT64_C(1) << 32, 4099, 0xbbe0e5dd77d9a113u, 0xa30bf2436ccbbd04u},
    {"sincos", "floats within 65536", UINT64_C(2) * 0x47800001, 4099, 0xfbea566a2e1b0d8fu, 0x3db9223305844024u},
    {"overlap", "pairs of boxes", 20000000, 101, 0xcb8869ace2d96481u, 0xe2c647ccc1a9d9e0u},
    {"atan2", "points", 20000000, 101, 0x72732c62a2a94826u, 0x7f1ca3a66ed8c0dau},
    {"power", "pairs of numbers", 20000000, 101, 0xe2d3278cd507ca82u, 0x052c1d56f500ec0eu},
};

struct exhaustive_sum {
  uint64_t hash;
  uint64_t falls;  // inputs of sigmoid whose neighbour above has a lower result
};

// Sebastiano Vigna's splitmix64, in the public domain.
VX_SHARED uint64_t exhaustive_mix(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

VX_SHARED uint64_t exhaustive_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

VX_SHARED float exhaustive_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

// Value number `place` of input `number`, from `least` to `most`.
VX_SHARED float exhaustive_within(uint64_t number, int place, double least, double most) {
  uint64_t bits = exhaustive_mix(number * 16 + (uint64_t)place) >> 11;
  return (float)(least + (most - least) * ((double)bits * 0x1p-53));
}

// Finite, of any size.
VX_SHARED float exhaustive_any(uint64_t number, int place) {
  uint32_t bits = (uint32_t)exhaustive_mix(number * 16 + (uint64_t)place);
  return exhaustive_float((bits & 0x7f800000u) == 0x7f800000u ? bits ^ 0x40000000u : bits);
}

// Rises with `order`, from negative NaNs over -inf and +inf to NaNs.
VX_SHARED float exhaustive_ordered(uint32_t order) {
  return exhaustive_float(order >> 31 != 0 ? order ^ 0x80000000u : ~order);
}

// Pairs of several kinds: near each other; equal, or equal but for half a turn; on a coarse lattice, so that edges and
// corners touch; of any size, also 0, and turned by any angle.
VX_SHARED void exhaustive_boxes(uint64_t number, float a[VX_BOX_VALUES], float b[VX_BOX_VALUES]) {
  int kind = (int)(number % 8);
  for (int i = 0; i < VX_BOX_VALUES; i++) {
    double least = i < 3 ? -3 : i < 6 ? 0.1 : -3.2, most = i < 3 ? 3 : i < 6 ? 6 : 3.2;
    a[i] = exhaustive_within(number, i, least, most);
    b[i] = exhaustive_within(number, 8 + i, least, most);
    if (kind == 4) {
      b[i] = a[i];
    } else if (kind == 5 || kind == 6) {
      a[i] = floorf(a[i] * 2) / 2;
      b[i] = floorf(b[i] * 2) / 2;
    }
  }
  if (kind == 4) {
    b[6] = number % 16 == 4 ? a[6] : a[6] + 3.14159265f;
  } else if (kind == 5) {
    a[6] = b[6] = 0;
  } else if (kind == 7) {
    for (int i = 3; i < 5; i++) {
      a[i] = fabsf(exhaustive_any(number, i));
      b[i] = number % 16 == 7 ? 0 : a[7 - i];
    }
    a[6] = exhaustive_within(number, 6, -VX_MOST_RADIANS, VX_MOST_RADIANS);
  }
}

// ---- results --------------------------------------------------------------------------------------------------------

VX_SHARED uint64_t exhaustive_overlap(uint64_t number) {
  float a[VX_BOX_VALUES], b[VX_BOX_VALUES];
  exhaustive_boxes(number, a, b);
  struct vx_rectangle first = vx_rectangle_of(a), second = vx_rectangle_of(b);
  struct vx_nms nms;  // has the members that vx_suppresses reads
  nms.iou_threshold = 0.1f;
  nms.circle = 0;
  uint64_t bits = exhaustive_bits(vx_overlap(&first, &second));
  return exhaustive_mix(bits) ^ (uint64_t)vx_suppresses(&second, &first, &nms);
}

VX_SHARED uint64_t exhaustive_atan2(uint64_t number) {
  bool any = number % 2 == 0;
  double y = any ? exhaustive_any(number, 0) : exhaustive_within(number, 0, -2, 2);
  double x = any ? exhaustive_any(number, 1) : exhaustive_within(number, 1, -2, 2);
  switch (number % 32) {
    case 0: x = y; break;
    case 1: x = -y; break;
    case 2: x = 0; break;
    case 3: y = 0; break;
    default: break;
  }
  return exhaustive_bits(vx_atan2(y, x));
}

// Bases from 0 to 1: half of them uniform, half of any exponent.
VX_SHARED uint64_t exhaustive_power(uint64_t number) {
  float x = exhaustive_within(number, 0, 0, 1), power = exhaustive_within(number, 1, 0, 16);
  if (number % 2 == 0) x = fabsf(exhaustive_any(number, 0));
  if (x > 1) x = 1 / x;
  return exhaustive_bits(vx_power(x, number % 32 < 2 ? floorf(power) : power));
}

VX_SHARED uint64_t exhaustive_sincos(uint64_t number) {
  float magnitude = exhaustive_float((uint32_t)(number >> 1));
  double sine, cosine;
  vx_sincos((number & 1) != 0 ? -magnitude : magnitude, &sine, &cosine);
  return exhaustive_bits(sine) + exhaustive_mix(exhaustive_bits(cosine));
}

// Adds the result of one input.
VX_SHARED void exhaustive_add(enum exhaustive which, uint64_t number, struct exhaustive_sum *sum) {
  uint32_t order = (uint32_t)number;
  uint64_t result = 0;
  float score;
  switch (which) {
    case EXHAUSTIVE_EXP: result = exhaustive_bits(vx_exp_float(exhaustive_float(order))); break;
    case EXHAUSTIVE_SIGMOID:
      score = vx_sigmoid(exhaustive_ordered(order));
      result = exhaustive_bits(score);
      // Without the NaNs, at both ends of the order.
      sum->falls += order >= 0x007fffffu && order < 0xff800000u && vx_sigmoid(exhaustive_ordered(order + 1)) < score;
      break;
    case EXHAUSTIVE_SINCOS: result = exhaustive_sincos(number); break;
    case EXHAUSTIVE_OVERLAP: result = exhaustive_overlap(number); break;
    case EXHAUSTIVE_ATAN2: result = exhaustive_atan2(number); break;
    case EXHAUSTIVE_POWER: result = exhaustive_power(number); break;
    default: break;
  }
  sum->hash += exhaustive_mix(result ^ exhaustive_mix(number));
}

#endif

// What both backends compute before they decode; see decode.h. Pure functions: any thread may call them.
#include "kernels/decode.h"

#include "kernels/exact.h"

// Maps 0 .. 2^32 - 1 to all floats in rising order, from -inf to +inf. The NaNs are at both ends.
static float float_of_order(uint32_t order) {
  uint32_t bits = order >> 31 != 0 ? order ^ 0x80000000u : ~order;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float vx_least_logit(float score_threshold, bool strict) {
  uint32_t low = 0x007fffffu, high = 0xff800001u;  // -inf, and the NaN after +inf
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    float score = vx_sigmoid(float_of_order(middle));
    if (strict ? score > score_threshold : score >= score_threshold)
      high = middle;
    else
      low = middle + 1;
  }
  return float_of_order(low);
}

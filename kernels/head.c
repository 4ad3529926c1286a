// See head.h.
#include "kernels/head.h"

#include "kernels/exact.h"

// Maps 0 .. 2^32 - 1 to all floats in rising order, with NaNs at both ends.
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

struct vx_head_tasks vx_head_tasks_of(const struct vx_head_tasks *given, int64_t classes) {
  classes = classes < 1 ? 1 : classes < VX_MAX_CLASSES ? classes : VX_MAX_CLASSES;
  return given->count > 0 ? *given : (struct vx_head_tasks){.count = 1, .classes = {(int32_t)classes}};
}

struct vx_head_groups vx_head_groups_of(const struct vx_head_tasks *tasks, enum vx_nms_groups kind) {
  struct vx_head_groups groups = {.count = 0};
  int32_t label = 0;
  for (int32_t task = 0; task < tasks->count; task++) {
    for (int32_t i = 0; i < tasks->classes[task]; i++) {
      if (i == 0 || kind == VX_GROUP_CLASS) groups.first[groups.count++] = label;
      groups.task[groups.count - 1] = (unsigned char)task;
      groups.of_class[label++] = (unsigned char)(groups.count - 1);
    }
  }
  groups.first[groups.count] = label;
  return groups;
}

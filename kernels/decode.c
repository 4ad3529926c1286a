// See decode.h. Pure functions. Any thread.
#include "kernels/decode.h"

int64_t vx_cell_logits(const struct vx_decode *decode, int64_t channels) {
  int64_t anchors = vx_cell_anchors(decode), logits = 0;
  if (decode->tasks.count == 0) return anchors == 0 ? 0 : channels / anchors * anchors;
  for (int32_t task = 0; task < decode->tasks.count; task++)
    logits += (int64_t)decode->task_sizes[task] * decode->num_rotations * decode->tasks.classes[task];
  return logits;
}

struct vx_decode vx_with_tasks(const struct vx_decode *decode, int64_t logits) {
  struct vx_decode whole = *decode;
  int64_t anchors = vx_cell_anchors(decode);
  whole.tasks = vx_head_tasks_of(&decode->tasks, anchors == 0 ? 0 : logits / anchors);
  if (decode->tasks.count == 0) whole.task_sizes[0] = decode->num_sizes;
  return whole;
}

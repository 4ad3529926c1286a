// What both kinds of head have: classes in tasks, groups of classes, and the least logit of a candidate.
//
// Classes are numbered through all tasks. They are also divided into groups: a group is a task, or one class. Each
// group has its own ranks, limits and suppression, as boxes.h says for a cloud. The kept boxes of a cloud are listed
// group by group.
//
// Pure functions. Any thread.
#ifndef VOXELD_HEAD_H
#define VOXELD_HEAD_H

#include "kernels/boxes.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VX_MAX_TASKS = 32, VX_MAX_CLASSES = 64 };

struct vx_head_tasks {
  int32_t count;                  // 0: one task has all classes
  int32_t classes[VX_MAX_TASKS];  // 1 or more each, at most VX_MAX_CLASSES together
};

enum vx_nms_groups { VX_GROUP_TASK, VX_GROUP_CLASS };

struct vx_head_groups {
  int32_t count;
  int32_t first[VX_MAX_CLASSES + 1];       // first class of each group, then the number of classes
  unsigned char task[VX_MAX_CLASSES];      // task of each group
  unsigned char of_class[VX_MAX_CLASSES];  // group of each class
};

// The given tasks or, if there are none, one task with `classes` classes, clamped to 1..VX_MAX_CLASSES.
struct vx_head_tasks vx_head_tasks_of(const struct vx_head_tasks *given, int64_t classes);
// `tasks` has at least one task.
struct vx_head_groups vx_head_groups_of(const struct vx_head_tasks *tasks, enum vx_nms_groups kind);

// The least logit whose sigmoid is at least the threshold (`strict`: above it); NaN if there is none.
float vx_least_logit(float score_threshold, bool strict);

#ifdef __cplusplus
}
#endif
#endif

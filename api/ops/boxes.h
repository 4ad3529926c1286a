// Parameter rows that operations on boxes share.
#ifndef VOXELD_API_BOXES_H
#define VOXELD_API_BOXES_H

#include "api/ops/rows.h"

extern const char *const no_yes_words[];  // 0, 1

#define PARAM_BOX_COUNTS                                                                                               \
  {                                                                                                                    \
    .name = "box_counts", .type = &value_counts, .offset = FIELD(point_counts), .second = FIELD(num_clouds),           \
    .most = VX_MAX_CLOUDS, .allowed = "1 to 1024 whole numbers that add up to the boxes of the body",                  \
    .doc = "splits the boxes into a batch of clouds; boxes of different clouds do not meet",                           \
  }
#define PARAM_NMS_PRE_MAX(member)                                                                                      \
  {                                                                                                                    \
    .name = "nms_pre_max", .type = &value_int, .offset = FIELD(member), .least = 1, .most = VX_MAX_RANKED,             \
    .initial = "4096", .doc = "boxes of a cloud that are compared at most: those with the highest scores",             \
  }
#define PARAM_NMS_POST_MAX(member)                                                                                     \
  {                                                                                                                    \
    .name = "nms_post_max", .type = &value_int, .offset = FIELD(member), .least = 1, .most = VX_MAX_RANKED,            \
    .initial = "500", .doc = "boxes of a cloud that are kept at most",                                                 \
  }
#define PARAM_CLASS_AGNOSTIC(member)                                                                                   \
  {                                                                                                                    \
    .name = "class_agnostic", .type = &value_word, .offset = FIELD(member), .words = no_yes_words, .initial = "yes",   \
    .doc = "whether a box suppresses those with other labels too",                                                     \
  }

#endif

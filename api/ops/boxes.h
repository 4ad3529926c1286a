// Parameter rows and checks that operations on boxes share. The rows are constant. Any thread.
#ifndef VOXELD_API_BOXES_H
#define VOXELD_API_BOXES_H

#include "api/ops/rows.h"

extern const char *const no_yes_words[];  // 0, 1

#define PARAM_BOX_COUNTS                                                                                               \
  {                                                                                                                    \
    .name = "box_counts", .type = &value_clouds, .offset = FIELD(point_counts), .second = FIELD(num_clouds),           \
    .most = VX_MAX_CLOUDS, .allowed = "1 to 1024 whole numbers that add up to the boxes of the body",                  \
    .doc = "splits the boxes into a batch of clouds; boxes of different clouds are not compared",                      \
  }
// `start` is the default; NULL if the model has the default.
#define PARAM_NMS_PRE_MAX(member, start, whose)                                                                        \
  {                                                                                                                    \
    .name = "nms_pre_max", .type = &value_int, .offset = FIELD(member), .least = 1, .most = VX_MAX_RANKED,             \
    .initial = (start), .doc = "maximum number of boxes to compare per " whose ": those with the highest scores",      \
  }
#define PARAM_NMS_POST_MAX(member, start, whose)                                                                       \
  {                                                                                                                    \
    .name = "nms_post_max", .type = &value_int, .offset = FIELD(member), .least = 1, .most = VX_MAX_RANKED,            \
    .initial = (start), .doc = "maximum number of boxes to keep per " whose,                                           \
  }
#define PARAM_CLASS_AGNOSTIC(member, start)                                                                            \
  {                                                                                                                    \
    .name = "class_agnostic", .type = &value_word, .offset = FIELD(member), .words = no_yes_words, .initial = (start), \
    .doc = "whether a box also suppresses boxes with other labels",                                                    \
  }

// ---- decoders: the operations of POST /v1/decode --------------------------------------------------------------------

#define TASK_OR_CLASS "task, or per class with nms_groups=class"

// Chooses the decoder, and so the table of the other parameters; it is read before them.
extern const struct param param_head;
extern const struct param param_class_names;
extern const struct result_row decoded_results[];

#define PARAM_TASK_CLASSES(member, number)                                                                             \
  {                                                                                                                    \
    .name = "task_classes", .type = &value_counts, .offset = FIELD(member), .second = FIELD(number),                   \
    .most = VX_MAX_TASKS, .allowed = "1 to 32 whole numbers, each 1 or more, that add up to the number of classes",    \
    .doc = "number of classes of each task; without it one task has all classes",                                      \
  }
#define PARAM_MAPS_RANGE(member)                                                                                       \
  {                                                                                                                    \
    .name = "point_cloud_range", .type = &value_floats, .offset = FIELD(member), .least = 6,                           \
    .allowed = "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max", .unit = "metres",                \
    .doc = "the range that the maps cover",                                                                            \
  }
#define PARAM_SCORE_THRESHOLD(member, start)                                                                           \
  {                                                                                                                    \
    .name = "score_threshold", .type = &value_float, .to = 1, .offset = FIELD(member), .initial = (start),             \
    .doc = "boxes with a lower score are dropped; a centre head also drops boxes with exactly this score",             \
  }
#define PARAM_MAX_OBJECTS(member, start)                                                                               \
  {                                                                                                                    \
    .name = "max_objects", .type = &value_int, .offset = FIELD(member), .least = 1, .most = VX_MAX_RANKED,             \
    .initial = (start),                                                                                                \
    .doc = "maximum number of candidates per task that become boxes: those with the highest scores",                   \
  }
#define PARAM_NMS_THRESHOLD(member, start)                                                                             \
  {                                                                                                                    \
    .name = "nms_threshold", .type = &value_float, .to = 1, .offset = FIELD(member), .initial = (start),               \
    .doc = "the same as iou_threshold of /v1/nms",                                                                     \
  }

// ---- tracks: of a model, or of a request for a detection ------------------------------------------------------------

#define PARAM_TRACK_MAX_DISTANCE(member, count)                                                                        \
  {                                                                                                                    \
    .name = "track_max_distance", .type = &value_rows, .offset = FIELD(member), .second = FIELD(count), .least = 1,    \
    .most = VX_MAX_CLASSES, .allowed = "a number above 0, or one for each class", .unit = "metres",                    \
    .doc = "how far a box, moved by velocity, may be from its track",                                                  \
  }
#define PARAM_TRACK_MAX_AGE(member)                                                                                    \
  {                                                                                                                    \
    .name = "track_max_age", .type = &value_int, .offset = FIELD(member), .most = VX_MAX_TRACK_AGE,                    \
    .doc = "sweeps that a track survives without a box",                                                               \
  }
// Checks that there is one distance, or one for each class, and that each is above 0. False with an error.
VX_WARN_UNUSED bool track_terms_check(const struct vx_track_terms *terms, const char *class_names, struct error *error);

// ---- checks ---------------------------------------------------------------------------------------------------------

// These return false with an error. `needed` ends with a NULL.
VX_WARN_UNUSED bool boxes_check_given(const struct job_request *request, const char *const *needed,
                                      struct error *error);
VX_WARN_UNUSED bool boxes_check_range(const char *name, const float min[3], const float max[3], struct error *error);
VX_WARN_UNUSED bool boxes_check_tasks(const struct vx_head_tasks *tasks, struct error *error);
// Checks that class_names, if given, has as many names as the maps have classes, `classes`. Sets num_clouds, and fills
// point_counts with the number of items of each cloud.
VX_WARN_UNUSED bool boxes_count(struct job_request *request, int64_t classes, struct error *error);
// Checks that the first map has 4 dimensions, and 1 to VX_MAX_CLOUDS clouds.
VX_WARN_UNUSED bool boxes_check_maps(const struct job_request *request, struct error *error);

#endif

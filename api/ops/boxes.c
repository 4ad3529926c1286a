// See boxes.h.
#include "api/ops/boxes.h"

#include <string.h>

#include "api/base/json_write.h"

const char *const no_yes_words[] = {"no", "yes", NULL};

// ---- rows -----------------------------------------------------------------------------------------------------------

static const char *head_of(const void *record) {
  const struct job_request *request = record;
  return operations[request->job.op]->head;
}

static bool read_head(const struct param *param, const char *value, const char *end, void *record) {
  (void)param;
  const char *head = head_of(record);
  return (size_t)(end - value) == strlen(head) && memcmp(value, head, strlen(head)) == 0;
}

static void write_head(const struct param *param, const void *record, struct text *out) {
  (void)param;
  json_put_string(out, head_of(record));
}

static const struct value_type value_head = {"string", true, read_head, write_head, NULL, NULL};

static const char *const head_words[] = {"anchor", "center", NULL};

const struct param param_head = {
    .name = "head",
    .type = &value_head,
    .words = head_words,
    .allowed = "anchor or center",
    .doc = "the kind of head that made the maps in the body; without it, the preset's head, or anchor",
};
const struct param param_class_names = {
    .name = "class_names",
    .type = &value_names,
    .offset = FIELD(class_names),
    .second = FIELD(num_class_names),
    .least = 1,
    .most = VX_MAX_CLASSES,
    .allowed = "1 to 64 names, each once, of up to 255 bytes in all",
    .doc = "names of the labels; the body must have as many classes",
};

const struct result_row decoded_results[] = {
    {VX_DECODED_BOXES,
     "x, y, z, dx, dy, dz, heading, and the velocity along x and y if the body has the map vel, or the parameter "
     "velocity is yes; best first within each cloud, or within each of its tasks",
     NULL},
    {VX_DECODED_SCORES, "score of each box, from 0 to 1", NULL},
    {VX_DECODED_LABELS, "class of each box, from 0", NULL},
    {VX_BOX_INDICES, "for each box, the flat index of its anchor, or of its class and cell, within its cloud", NULL},
    {VX_BOX_COUNTS, "boxes of each cloud", NULL},
    {.doc = NULL},
};

// ---- checks ---------------------------------------------------------------------------------------------------------

bool boxes_check_given(const struct job_request *request, const char *const *needed, struct error *error) {
  for (; *needed; needed++)
    if (!job_request_is_given(request, *needed))
      return error_refuse(error, ERROR_BAD_PARAMETER, *needed, "%s is missing; give it, or a preset that has it",
                          *needed);
  return true;
}

bool boxes_check_range(const char *name, const float min[3], const float max[3], struct error *error) {
  for (int a = 0; a < 3; a++)
    if (!(min[a] < max[a]))
      return error_refuse(error, ERROR_BAD_PARAMETER, name, "%s runs along %c from %g to %g; allowed: min below max",
                          name, "xyz"[a], (double)min[a], (double)max[a]);
  return true;
}

bool boxes_check_tasks(const struct vx_head_tasks *tasks, struct error *error) {
  int64_t classes = 0;
  for (int32_t task = 0; task < tasks->count; task++) {
    classes += tasks->classes[task];
    if (tasks->classes[task] < 1)
      return error_refuse(error, ERROR_BAD_PARAMETER, "task_classes", "task_classes has 0; allowed: 1 or more");
  }
  return classes <= VX_MAX_CLASSES ||
         error_refuse(error, ERROR_BAD_PARAMETER, "task_classes",
                      "task_classes add up to %lld classes; allowed: up to %d", (long long)classes, VX_MAX_CLASSES);
}

static const char *first_map(const struct job_request *request) {
  return vx_operations[request->job.op].inputs[0].name;
}

bool boxes_check_maps(const struct job_request *request, struct error *error) {
  const struct vx_input *map = &request->job.inputs[0];
  if (map->rank == 4 && map->dims[0] >= 1 && map->dims[0] <= VX_MAX_CLOUDS) return true;
  return error_refuse(
      error, ERROR_BAD_BODY, NULL,
      "the input %s does not have the shape [H, W, channels] or [B, H, W, channels] with B from 1 to %d",
      first_map(request), VX_MAX_CLOUDS);
}

bool boxes_count(struct job_request *request, int64_t classes, struct error *error) {
  if (request->num_class_names && classes != request->num_class_names)
    return error_refuse(error, ERROR_BAD_BODY, "class_names", "the input %s has %lld classes; class_names has %d names",
                        first_map(request), (long long)classes, (int)request->num_class_names);
  int64_t rows = vx_sizes_of(&request->job).rows, clouds = request->job.inputs[0].dims[0];
  if (rows > VX_MAX_POINTS)
    return error_refuse(error, ERROR_IMPOSSIBLE, NULL, "the maps have %lld %s; allowed: up to %lld", (long long)rows,
                        vx_item_names[vx_operations[request->job.op].items], (long long)VX_MAX_POINTS);
  request->num_clouds = (int32_t)clouds;
  request->point_counts = pool_take(&request->pool, (size_t)clouds * sizeof *request->point_counts);
  if (!request->point_counts) return pool_refuse(error);
  for (int64_t i = 0; i < clouds; i++) request->point_counts[i] = (int32_t)(rows / clouds);
  return true;
}

bool track_terms_check(const struct vx_track_terms *terms, const char *class_names, struct error *error) {
  int32_t classes = 1;
  for (const char *at = class_names; *at; at++) classes += *at == ',';
  if (terms->num_distances != 1 && terms->num_distances != classes)
    return error_refuse(error, ERROR_BAD_PARAMETER, "track_max_distance",
                        "track_max_distance has %d numbers for %d classes; allowed: one, or one for each",
                        (int)terms->num_distances, (int)classes);
  for (int32_t i = 0; i < terms->num_distances; i++)
    if (!(terms->max_distance[i] > 0))
      return error_refuse(error, ERROR_BAD_PARAMETER, "track_max_distance",
                          "track_max_distance has %g; allowed: above 0", (double)terms->max_distance[i]);
  return true;
}

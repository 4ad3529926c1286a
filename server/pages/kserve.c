// The pages of the KServe v2 protocol; see kserve.h.
//
// A model is an operation or a preset. If both have the same name, it is the operation. Each has one version, "1".
#include "server/pages/kserve.h"

#include <string.h>

#include "kernels/ops.h"
#include "server/pages/ready.h"
#include "server/pages/view.h"

bool kserve_write_live(const struct view *view, const struct page_asked *asked, struct text *out,
                       struct problem *problem) {
  (void)view, (void)asked, (void)problem;
  text_put(out, "{\"live\":true}\n");
  return true;
}

bool kserve_write_ready(const struct view *view, const struct page_asked *asked, struct text *out,
                        struct problem *problem) {
  (void)asked;
  if (!view_is_ready(view, problem)) return false;
  text_put(out, "{\"ready\":true}\n");
  return true;
}

static bool has_model(const struct view *view, const char *name) {
  for (int op = 0; op < VX_OPS; op++)
    if (strcmp(vx_operation_of((enum vx_op)op)->name, name) == 0) return true;
  bool preset = presets_find(shelf_look(view->shelf), name);
  shelf_leave(view->shelf);
  return preset;
}

bool kserve_write_model_ready(const struct view *view, const struct page_asked *asked, struct text *out,
                              struct problem *problem) {
  if (!has_model(view, asked->name))
    return problem_set(problem, PROBLEM_NOT_FOUND, NULL,
                       "there is no model '%.80s'; POST /v2/repository/index lists them", asked->name);
  if (!view_is_ready(view, problem)) return false;
  text_put(out, "{\"name\":");
  text_json_string(out, asked->name, strlen(asked->name));
  text_put(out, ",\"ready\":true}\n");
  return true;
}

static void write_entry(const char *name, bool first, struct text *out) {
  text_put(out, first ? "[{\"name\":" : ",\n {\"name\":");
  text_json_string(out, name, strlen(name));
  text_put(out, ",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"}");
}

bool kserve_write_index(const struct view *view, const struct page_asked *asked, struct text *out,
                        struct problem *problem) {
  (void)asked, (void)problem;
  for (int op = 0; op < VX_OPS; op++) write_entry(vx_operation_of((enum vx_op)op)->name, op == 0, out);
  const struct presets *presets = shelf_look(view->shelf);
  for (size_t i = 0; i < presets_count(presets); i++) write_entry(preset_name(presets_at(presets, i)), false, out);
  shelf_leave(view->shelf);
  text_put(out, "]\n");
  return true;
}

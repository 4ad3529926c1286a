// Makes requests from queries; see query.h.
#include "api/query.h"

#include <string.h>

#include "api/base/suggest.h"
#include "kernels/ops.h"

// Of the endpoint's operations: the one that `head` chooses, else the one that the preset has, else the first.
static enum vx_op choose(enum vx_op first, const struct query_item *head, const struct preset *preset) {
  if (!operations[first]->head) return first;
  enum vx_op chosen = head && head->value ? operation_with_head(head->value, head->value_length) : first;
  for (enum vx_op op = 0; !head && preset && op < VX_OPS; op++)
    if (operations[op]->head && presets_request_of(preset, op)) chosen = op;
  return chosen == VX_OPS ? first : chosen;  // the first operation's table then refuses the head
}

static bool refuse_preset(const struct preset *preset, enum vx_op op, struct error *error) {
  char memory[256];
  struct text names = text_over(memory, sizeof memory);
  for (enum vx_op own = 0; own < VX_OPS; own++)
    if (presets_request_of(preset, own)) text_printf(&names, "%s%s", names.length ? ", " : "", vx_operations[own].name);
  return error_refuse(error, ERROR_BAD_PARAMETER, "preset", "preset is '%s', a preset of %s; allowed: a preset of %s",
                      preset_name(preset), names.data, vx_operations[op].name);
}

// Lists the presets that the operation can take.
static bool refuse_unknown(const struct presets *presets, const char *name, enum vx_op op, struct error *error) {
  char hint[96], room[700];
  struct text names = text_over(room, sizeof room);
  struct suggestion near = suggest(name, strlen(name));
  for (size_t i = 0; i < presets_count(presets); i++) {
    const struct preset *preset = presets_at(presets, i);
    suggest_try(&near, preset_name(preset));
    if (presets_request_of(preset, choose(op, NULL, preset)))
      text_printf(&names, "%s%s", names.length ? ", " : "", preset_name(preset));
  }
  return error_refuse(error, ERROR_BAD_PARAMETER, "preset", "preset is '%.80s'%s; allowed: %s", name,
                      suggest_text(&near, hint, sizeof hint), names.data);
}

// Starts from the query's preset, or from the defaults.
static bool start_from(struct job_request *request, enum vx_op op, const struct query *query, const struct named *named,
                       struct error *error) {
  const struct query_item *item = query_find(query, "preset"), *head = query_find(query, "head");
  char name[sizeof request->preset] = "";
  if (item && item->value && item->value_length < sizeof name) memcpy(name, item->value, item->value_length);
  const struct preset *preset =
      name[0] && !vx_operations[op].needs_detector ? presets_find(named->presets, name) : NULL;
  if (!preset) {
    job_request_init(request, choose(op, head, NULL));
    return !item || (query_set(request, item, error) && refuse_unknown(named->presets, name, op, error));
  }
  op = choose(op, head, preset);
  const struct job_request *from = presets_request_of(preset, op);
  if (!from) return refuse_preset(preset, op, error);
  return job_request_copy(request, from) || pool_refuse(error);
}

// Without a `model` in the query, job_request_finish refuses an operation that needs one.
static bool choose_model(struct job_request *request, const struct query *query, const struct named *named,
                         struct error *error) {
  const struct query_item *item = vx_operations[request->job.op].needs_detector ? query_find(query, "model") : NULL;
  if (!item) return true;
  if (!query_set(request, item, error)) return false;
  const struct detector *detector = detectors_need(named->detectors, request->model, error);
  return detector && (detector_choose(detector, request) || pool_refuse(error));
}

bool job_request_from_query(struct job_request *request, enum vx_op op, const struct query *query,
                            const struct named *named, struct error *error) {
  return start_from(request, op, query, named, error) && choose_model(request, query, named, error) &&
         job_request_overlay(request, query, error);
}

// Finds what a query starts from; see query.h.
#include "api/query.h"

// Sets the request to what the query starts from: its preset, or the defaults.
static bool start_from(struct job_request *request, enum vx_op op, const struct query *query,
                       const struct presets *presets, struct problem *problem) {
  const struct query_item *item = query_find(query, "preset");
  job_request_init(request, op);
  if (!item) return true;
  if (!query_set(request, item, problem)) return false;
  const struct preset *preset = presets_find(presets, request->preset);
  if (!preset) return job_request_refuse(request, "preset", item->value, item->value_length, problem);
  const struct job_request *from = presets_request(preset);
  if (from->job.op != op)
    return problem_set(problem, PROBLEM_BAD_PARAMETER, "preset",
                       "preset is '%s', a preset of %s; allowed: a preset of %s", preset_name(preset),
                       vx_operation_of(from->job.op)->name, vx_operation_of(op)->name);
  *request = *from;
  return true;
}

bool job_request_from_query(struct job_request *request, enum vx_op op, const struct query *query,
                            const struct presets *presets, struct problem *problem) {
  return start_from(request, op, query, presets, problem) && job_request_overlay(request, query, problem);
}

// --describe; see pages.h.
#include "server/pages/pages.h"

#include "api/base/json_write.h"
#include "api/base/problem.h"
#include "api/ops/ops.h"
#include "api/routes.h"
#include "api/wire/answers.h"
#include "api/wire/warnings.h"
#include "server/config/options.h"

static void describe_problems(struct text *out) {
  json_printf(out, "[");
  for (int kind = ERROR_NONE + 1; kind < ERROR_COUNT; kind++) {
    const struct problem_info *info = problem_info((enum error_kind)kind);
    json_printf(out, "{name:%s status:%d retry_after:%d title:%s}", info->name, info->status, info->retry_after,
                info->title);
  }
  json_printf(out, "]");
}

static void describe_tensors(struct text *out) {
  json_printf(out, "[");
  for (enum vx_tensor tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) json_put_string(out, vx_tensors[tensor].name);
  json_printf(out, "]");
}

void describe_write(struct text *out) {
  static const struct {
    const char *name;
    void (*write)(struct text *out);
  } tables[] = {{"operations", operations_describe}, {"steps", steps_describe},       {"sizes", sizes_describe},
                {"options", options_describe},       {"endpoints", routes_describe},  {"problems", describe_problems},
                {"metrics", metrics_describe},       {"warnings", warnings_describe}, {"tensors", describe_tensors},
                {"answers", answer_kinds_describe}};
  out->json.lines = 2;  // writes each row of a table on one line
  json_printf(out, "{");
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    json_member(out, tables[i].name);
    tables[i].write(out);
  }
  json_printf(out, "}\n");
}

// The tables of the service; see describe.h.
#include "server/pages/describe.h"

#include <string.h>

#include "api/base/problem.h"
#include "api/ops/ops.h"
#include "api/routes.h"
#include "api/wire/answers.h"
#include "api/wire/warnings.h"
#include "server/config/options.h"
#include "server/config/options_print.h"
#include "server/pages/metrics.h"

static void describe_problems(struct text *out) {
  text_put(out, "[");
  for (int kind = ERROR_NONE + 1; kind < ERROR_COUNT; kind++) {
    const struct problem_info *info = problem_info((enum error_kind)kind);
    text_printf(out, "%s\n    {\"name\":\"%s\",\"status\":%d,\"retry_after\":%d,\"title\":", kind > 1 ? "," : "",
                info->name, info->status, info->retry_after);
    text_json_string(out, info->title, strlen(info->title));
    text_put(out, "}");
  }
  text_put(out, "\n  ]");
}

static void describe_tensors(struct text *out) {
  text_put(out, "[");
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    text_printf(out, "%s\"%s\"", tensor ? "," : "", vx_tensor_name((enum vx_tensor)tensor));
  text_put(out, "]");
}

void describe_write(struct text *out) {
  static const struct {
    const char *name;
    void (*write)(struct text *out);
  } tables[] = {{"options", options_describe},     {"endpoints", routes_describe},  {"problems", describe_problems},
                {"metrics", metrics_describe},     {"warnings", warnings_describe}, {"tensors", describe_tensors},
                {"answers", answer_kinds_describe}};
  text_put(out, "{");
  operations_describe(out);
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    text_printf(out, ",\n  \"%s\": ", tables[i].name);
    tables[i].write(out);
  }
  text_put(out, "\n}\n");
}

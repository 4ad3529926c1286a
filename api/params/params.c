// Tables of parameters; see params.h.
#include "api/params/params.h"

#include <stdio.h>
#include <string.h>

int params_find(param_rows rows, const char *name, size_t length) {
  for (int i = 0; rows[i]; i++)
    if (strlen(rows[i]->name) == length && memcmp(rows[i]->name, name, length) == 0) return i;
  return -1;
}

void param_allowed(const struct param *param, char *out, size_t size) {
  if (param->allowed)
    snprintf(out, size, "%s", param->allowed);
  else
    param->type->allow(param, out, size);
}

bool param_read(const struct param *param, const char *value, size_t length, void *record) {
  return param->type->read(param, value, value + length, record);
}

void params_init(param_rows rows, void *record) {
  for (int i = 0; rows[i]; i++)
    if (rows[i]->initial) (void)!param_read(rows[i], rows[i]->initial, strlen(rows[i]->initial), record);
}

void params_write(param_rows rows, const bool *given, const void *record, struct text *out) {
  const char *comma = "";
  text_put(out, "{");
  for (int i = 0; rows[i]; i++) {
    if (!given[i] && !rows[i]->initial && !rows[i]->type->computed) continue;
    text_member(out, comma, rows[i]->name);
    rows[i]->type->write(rows[i], record, out);
    comma = ",";
  }
  text_put(out, "}");
}

static void describe(const struct param *param, struct text *out) {
  char allowed[512];
  param_allowed(param, allowed, sizeof allowed);
  text_printf(out, "\n    {\"name\":\"%s\",\"type\":\"%s\",\"default\":", param->name, param->type->name);
  if (param->initial)
    text_json_string(out, param->initial, strlen(param->initial));
  else
    text_put(out, "null");
  text_put(out, ",\"allowed\":");
  text_json_string(out, allowed, strlen(allowed));
  text_put(out, ",\"doc\":");
  text_json_string(out, param->doc, strlen(param->doc));
  text_put(out, "}");
}

void params_describe(param_rows rows, struct text *out) {
  for (int i = 0; rows[i]; i++) {
    text_put(out, i ? "," : "[");
    describe(rows[i], out);
  }
  text_put(out, "\n  ]");
}

// Tables of parameters; see params.h.
#include "api/params/params.h"

#include <string.h>

#include "api/base/json_write.h"

int params_find(param_rows rows, const char *name, size_t length) {
  for (int i = 0; rows[i]; i++)
    if (strlen(rows[i]->name) == length && memcmp(rows[i]->name, name, length) == 0) return i;
  return -1;
}

void param_allowed(const struct param *param, struct text *out) {
  if (param->allowed)
    text_put(out, param->allowed);
  else
    param->type->allow(param, out);
}

bool param_read(const struct param *param, const char *value, size_t length, void *record) {
  return param->type->read(param, value, value + length, record);
}

void params_init(param_rows rows, void *record) {
  for (int i = 0; rows[i]; i++)
    if (rows[i]->initial) (void)!param_read(rows[i], rows[i]->initial, strlen(rows[i]->initial), record);
}

void params_write(param_rows rows, const bool *given, const void *record, struct text *out) {
  json_printf(out, "{");
  for (int i = 0; rows[i]; i++) {
    if (!given[i] && !rows[i]->initial && !rows[i]->type->computed) continue;
    json_member(out, rows[i]->name);
    rows[i]->type->write(rows[i], record, out);
  }
  json_printf(out, "}");
}

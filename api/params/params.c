// See params.h.
#include "api/params/params.h"

#include <string.h>

#include "api/base/json_write.h"
#include "api/base/suggest.h"

int params_find(param_rows rows, const char *name, size_t length) {
  for (int i = 0; rows[i]; i++) {
    const char *own = rows[i]->name;
    if (length && *own == *name && strlen(own) == length && memcmp(own, name, length) == 0) return i;
  }
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

// Whether a space precedes a digit: the space may have been a '+' in the query.
static bool may_have_lost_plus(const char *value, size_t length) {
  for (size_t i = 0; i + 1 < length; i++)
    if (value[i] == ' ' && (value[i + 1] == '.' || (value[i + 1] >= '0' && value[i + 1] <= '9'))) return true;
  return false;
}

// A suggestion for the first unknown item of the value. An item of `steps` is TAG:TYPE.
static const char *suggest_item(const struct param *param, const char *value, size_t length, char *out, size_t size) {
  const char *end = value + length;
  out[0] = '\0';
  while (param->type->suggest && value < end) {
    const char *comma = memchr(value, ',', (size_t)(end - value)), *item_end = comma ? comma : end;
    const char *colon = memchr(value, ':', (size_t)(item_end - value)), *name = colon ? colon + 1 : value;
    struct suggestion near = suggest(name, (size_t)(item_end - name));
    param->type->suggest(param, &near);
    if (!suggestion_is_exact(&near)) return suggest_text(&near, out, size);
    value = item_end + 1;
  }
  return out;
}

bool param_refuse(const struct param *param, const char *name, const char *value, size_t length, struct error *error) {
  char allowed[400], hint[96];
  struct text text = text_over(allowed, sizeof allowed);
  param_allowed(param, &text);
  int shown = length > 80 ? 80 : (int)length;
  return error_refuse(error, ERROR_BAD_PARAMETER, name, "%s is '%.*s'%s%s; allowed: %s%s", name, shown, value,
                      length > 80 ? "..." : "", suggest_item(param, value, length, hint, sizeof hint), allowed,
                      may_have_lost_plus(value, length) ? "; in a URL + means a space and must be written %2B" : "");
}

void params_write_members(param_rows rows, const bool *given, const void *record, struct text *out) {
  for (int i = 0; rows[i]; i++) {
    if (!given[i] && !rows[i]->initial && !rows[i]->type->computed) continue;
    json_member(out, rows[i]->name);
    rows[i]->type->write(rows[i], record, out);
  }
}

void params_write(param_rows rows, const bool *given, const void *record, struct text *out) {
  json_printf(out, "{");
  params_write_members(rows, given, record, out);
  json_printf(out, "}");
}

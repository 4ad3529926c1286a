// See columns.h.
#include "api/params/columns.h"

#include <string.h>

#include "api/base/json_write.h"
#include "api/base/suggest.h"
#include "api/params/values.h"

const char *const filter_words[] = {
    [FILTER_DELTA] = "delta", [FILTER_DIRECTION] = "direction", [FILTER_SHUFFLE] = "shuffle", NULL};

enum vx_dtype column_dtype(const struct column_terms *terms, int column) {
  return (enum vx_dtype)terms->types[terms->num_types == 1 ? 0 : column];
}

// ---- types ----------------------------------------------------------------------------------------------------------

static bool read_dtypes(const struct param *param, const char *value, const char *end, void *record) {
  struct column_terms *terms = (void *)((char *)record + param->offset);
  char item[64];
  terms->num_types = 0;
  while (terms->num_types < param->most && value_next(&value, end, item, sizeof item)) {
    uint8_t dtype = 0;
    while (param->words[dtype] && strcmp(param->words[dtype], item) != 0) dtype++;
    if (!param->words[dtype]) return false;
    terms->types[terms->num_types++] = dtype;
  }
  return value_ended(value, end);
}

static void write_dtypes(const struct param *param, const void *record, struct text *out) {
  const struct column_terms *terms = (const void *)((const char *)record + param->offset);
  if (terms->num_types > 1) json_printf(out, "[");
  for (int32_t i = 0; i < terms->num_types; i++) json_put_string(out, param->words[terms->types[i]]);
  if (terms->num_types > 1) json_printf(out, "]");
}

static void allow_dtypes(const struct param *param, struct text *out) {
  text_put(out, "one type, or one for each of up to 64 columns, of ");
  for (int i = 0; param->words[i]; i++) text_printf(out, "%s%s", i ? ", " : "", param->words[i]);
}

static void suggest_dtype(const struct param *param, struct suggestion *near) {
  for (int i = 0; param->words[i]; i++) suggest_try(near, param->words[i]);
}

// ---- scales ---------------------------------------------------------------------------------------------------------

static bool read_scales(const struct param *param, const char *value, const char *end, void *record) {
  double *const *scales = (const void *)((const char *)record + param->offset);
  const int32_t *count = (const void *)((const char *)record + param->second);
  if (!value_doubles.read(param, value, end, record)) return false;
  for (int32_t i = 0; i < *count; i++)
    if (!((*scales)[i] > 0)) return false;
  return true;
}

static void write_scales(const struct param *param, const void *record, struct text *out) {
  value_doubles.write(param, record, out);
}

// ---- filters --------------------------------------------------------------------------------------------------------

static bool read_filters(const struct param *param, const char *value, const char *end, void *record) {
  uint32_t *filters = (void *)((char *)record + param->offset);
  char item[64];
  int next = 0;
  *filters = 0;
  while (value_next(&value, end, item, sizeof item)) {
    while (param->words[next] && strcmp(param->words[next], item) != 0) next++;
    if (!param->words[next]) return false;
    *filters |= FILTER_BIT(next++);
  }
  const uint32_t both = FILTER_BIT(FILTER_DELTA) | FILTER_BIT(FILTER_DIRECTION);
  return value_ended(value, end) && (*filters & both) != both;
}

static void write_filters(const struct param *param, const void *record, struct text *out) {
  const uint32_t *filters = (const void *)((const char *)record + param->offset);
  json_printf(out, "[");
  for (int i = 0; param->words[i]; i++)
    if (*filters & FILTER_BIT(i)) json_put_string(out, param->words[i]);
  json_printf(out, "]");
}

// ---- the types ------------------------------------------------------------------------------------------------------

const struct value_type value_dtypes = {"list", false, read_dtypes, write_dtypes, allow_dtypes, suggest_dtype};
const struct value_type value_scales = {"floats", false, read_scales, write_scales, NULL, NULL};
const struct value_type value_filters = {"list", false, read_filters, write_filters, NULL, NULL};

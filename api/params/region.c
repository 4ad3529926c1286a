// See region.h.
#include "api/params/region.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"

bool region_name_set(char name[REGION_NAME_SIZE], const char *text, size_t length) {
  if (length == 0 || length >= REGION_NAME_SIZE) return false;
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == '\x7f') return false;
  memcpy(name, text, length);
  name[length] = '\0';
  return true;
}

// Reads the number after the last comma before `end`. Returns the comma; NULL if there is no number.
static const char *take_number(const char *value, const char *end, uint64_t *number) {
  const char *comma = memrchr(value, ',', (size_t)(end - value));
  char digits[20] = "";
  size_t length = comma ? (size_t)(end - comma - 1) : 0;
  if (length == 0 || length > 18) return NULL;
  memcpy(digits, comma + 1, length);
  *number = strtoull(digits, NULL, 10);
  return strspn(digits, "0123456789") == length ? comma : NULL;
}

// Reads from the end, so that a name may have commas.
static bool read_region(const struct param *param, const char *value, const char *end, void *record) {
  struct region_ref *ref = (void *)((char *)record + param->offset);
  const char *comma = take_number(value, end, &ref->bytes);
  if (comma) comma = take_number(value, comma, &ref->offset);
  return comma && region_name_set(ref->name, value, (size_t)(comma - value));
}

static void write_region(const struct param *param, const void *record, struct text *out) {
  const struct region_ref *ref = (const void *)((const char *)record + param->offset);
  json_printf(out, "'%s,%lu,%lu'", ref->name, ref->offset, ref->bytes);
}

const struct value_type value_region = {"region", false, read_region, write_region, NULL, NULL};

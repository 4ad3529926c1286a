// See stream.h.
#include "api/params/stream.h"

#include <string.h>

#include "api/base/json_write.h"

bool stream_name_is_sound(const char *name, size_t length) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  if (length == 0 || length >= STREAM_NAME_SIZE) return false;
  // In a path, clients resolve these two names to the folder itself and its parent.
  if (name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'))) return false;
  for (size_t i = 0; i < length; i++)
    if (!name[i] || !strchr(allowed, name[i])) return false;
  return true;
}

static bool read_stream(const struct param *param, const char *value, const char *end, void *record) {
  char *name = (char *)record + param->offset;
  size_t length = (size_t)(end - value);
  if (!stream_name_is_sound(value, length)) return false;
  memcpy(name, value, length);
  name[length] = '\0';
  return true;
}

static void write_stream(const struct param *param, const void *record, struct text *out) {
  json_put_string(out, (const char *)record + param->offset);
}

const struct value_type value_stream = {"string", false, read_stream, write_stream, NULL, NULL};

bool stream_next(const struct stream_terms *terms, size_t *cursor, char name[STREAM_NAME_SIZE]) {
  const char *names = terms->num_joined ? terms->joined : terms->name;
  if (*cursor > strlen(names)) return false;
  size_t length = strcspn(names + *cursor, ",");
  size_t copied = length < STREAM_NAME_SIZE ? length : STREAM_NAME_SIZE - 1;
  memcpy(name, names + *cursor, copied);
  name[copied] = '\0';
  *cursor += length + 1;
  return true;
}

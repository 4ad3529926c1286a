// See region.h.
#include "api/wire/region.h"

#include <string.h>

#include "api/base/json.h"
#include "api/base/json_write.h"

const char *const region_kinds[] = {"system", "cuda"};

static bool read_number(const json_t *root, const char *name, json_int_t least, uint64_t *number, struct error *error) {
  const json_t *value = json_object_get(root, name);
  *number = (uint64_t)json_integer_value(value);  // 0 = missing
  if (value ? json_is_integer(value) && json_integer_value(value) >= least : least == 0) return true;
  return error_refuse(error, ERROR_BAD_BODY, name, "%s is not a whole number of at least %lld", name, (long long)least);
}

static bool read_key(const json_t *root, char *key, struct error *error) {
  const json_t *value = json_object_get(root, "key");
  size_t length = json_string_length(value);
  if (!json_is_string(value) || length == 0 || length >= REGION_KEY_SIZE || strlen(json_string_value(value)) != length)
    return error_refuse(error, ERROR_BAD_BODY, "key", "key is not a string of 1 to %d bytes", REGION_KEY_SIZE - 1);
  memcpy(key, json_string_value(value), length + 1);
  return true;
}

static bool is_blank(char c) { return c == '\n' || c == '\r' || c == ' '; }

// Reads base64 (RFC 4648). Skips spaces and line ends, which some encoders add. Returns the number of bytes; -1 if the
// text is not base64 or has more than `most` bytes.
static int read_base64(const char *text, size_t length, unsigned char *bytes, int most) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned bits = 0;
  int count = 0, bit_count = 0;
  bool ended = false;  // by '=', which nothing else may follow
  for (size_t i = 0; i < length; i++) {
    const char *digit = text[i] ? strchr(digits, text[i]) : NULL;
    ended = ended || text[i] == '=';
    if (is_blank(text[i]) || text[i] == '=') continue;
    if (!digit || ended) return -1;
    bits = (bits << 6 | (unsigned)(digit - digits)) & 0xFFFFFF;
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    if (count == most) return -1;
    bytes[count++] = (unsigned char)(bits >> bit_count);
  }
  return count;
}

static bool read_handle(const json_t *root, unsigned char *handle, struct error *error) {
  const json_t *value = json_object_get(json_object_get(root, "raw_handle"), "b64");
  const char *text = json_string_value(value);
  return (text && read_base64(text, json_string_length(value), handle, VX_HANDLE_SIZE) == VX_HANDLE_SIZE) ||
         error_refuse(error, ERROR_BAD_BODY, "raw_handle",
                      "raw_handle.b64 is not the base64 of a handle, which has %d bytes", VX_HANDLE_SIZE);
}

static bool read_memory(const json_t *root, struct region_terms *terms, struct error *error) {
  if (terms->kind == REGION_SYSTEM) return read_key(root, terms->key, error);
  return read_handle(root, terms->handle, error) && read_number(root, "device_id", 0, &terms->gpu, error);
}

bool region_terms_read(enum region_kind kind, const char *name, const char *json, size_t size,
                       struct region_terms *terms, struct error *error) {
  struct json_document document;
  *terms = (struct region_terms){.kind = kind};
  if (!region_name_set(terms->name, name, strlen(name)))
    return error_refuse(error, ERROR_BAD_REQUEST, "name",
                        "the region's name is '%.80s'; allowed: 1 to %d bytes that can be printed", name,
                        REGION_NAME_SIZE - 1);
  if (!json_open_sent(&document, "the body's JSON", json, size, NULL, error)) return false;
  const json_t *root = document.root;
  bool good = read_memory(root, terms, error) && read_number(root, "offset", 0, &terms->offset, error) &&
              read_number(root, "byte_size", 1, &terms->bytes, error);
  json_close(&document);
  return good;
}

bool region_ref_read(const json_t *parameters, struct region_ref *ref, struct error *error) {
  const json_t *name = json_object_get(parameters, "shared_memory_region");
  if (!json_is_string(name) || !region_name_set(ref->name, json_string_value(name), json_string_length(name)))
    return error_refuse(error, ERROR_BAD_BODY, "shared_memory_region",
                        "shared_memory_region is not a string of 1 to %d bytes", REGION_NAME_SIZE - 1);
  if (!json_object_get(parameters, "shared_memory_byte_size"))
    return error_refuse(error, ERROR_BAD_BODY, "shared_memory_byte_size",
                        "shared_memory_region has no shared_memory_byte_size");
  return read_number(parameters, "shared_memory_byte_size", 0, &ref->bytes, error) &&
         read_number(parameters, "shared_memory_offset", 0, &ref->offset, error);
}

void region_terms_write(const struct region_terms *terms, struct text *out) {
  if (terms->kind == REGION_CUDA) {
    json_printf(out, "{name:%s device_id:%lu byte_size:%lu}", terms->name, terms->gpu, terms->bytes);
    return;
  }
  json_printf(out, "{name:%s key:%s offset:%lu byte_size:%lu}", terms->name, terms->key, terms->offset, terms->bytes);
}

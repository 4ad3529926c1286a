// See json.h.
#include "api/base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool starved;  // an allocation failed since begin()

static void *take(size_t size) {
  void *memory = malloc(size);
  if (!memory) starved = true;
  return memory;
}

static void begin(void) {
  starved = false;
  json_set_alloc_funcs(take, free);
}

static json_t *end(json_t *root, json_error_t *error) {
  if (!starved) return root;
  json_decref(root);
  *error = (json_error_t){.line = -1, .text = "out of memory"};
  return NULL;
}

json_t *json_read(const char *text, size_t size, json_error_t *error) {
  begin();
  return end(json_loadb(text, size, JSON_REJECT_DUPLICATES, error), error);
}

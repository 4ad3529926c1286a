// See json.h.
#include "api/base/json.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local bool starved;  // an allocation failed since begin()

static void *take(size_t size) {
  void *memory = malloc(size);
  if (!memory) starved = true;
  return memory;
}

static void begin(void) {
  static atomic_flag installed = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&installed)) json_set_alloc_funcs(take, free);
  starved = false;
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

// See json.h.
#include "api/base/json.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// A text that jansson takes part by part.
struct long_text {
  const char *at;
  size_t left;
  struct vx_stop *stop;
};

// To jansson, a job that is stopped is an error of reading.
static size_t give_part(void *part, size_t room, void *cls) {
  struct long_text *text = cls;
  size_t bytes = text->left < room ? text->left : room;
  if (vx_stopped(text->stop, (int64_t)bytes)) return (size_t)-1;
  memcpy(part, text->at, bytes);
  text->at += bytes;
  text->left -= bytes;
  return bytes;
}

json_t *json_read_long(const char *text, size_t size, struct vx_stop *stop, json_error_t *error) {
  struct long_text parts = {text, size, stop};
  begin();
  return end(json_load_callback(give_part, &parts, JSON_REJECT_DUPLICATES, error), error);
}

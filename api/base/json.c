// See json.h.
#include "api/base/json.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- the cost -------------------------------------------------------------------------------------------------------

// Upper bounds, in bytes, of what jansson 2.14 allocates for each ',', ':', '[' and '{' of the text. Characters inside
// strings count too. A list, or the buckets of an object, doubles its table when it grows. The block keeps the old
// tables, and the last may be half empty, so an item counts as four entries.
enum {
  FIXED = 4096,
  VALUE = 64,    // for a comma: an entry of the list, and a number or an empty string
  MEMBER = 112,  // for a colon: what a member of an object needs beyond VALUE
  LIST = 160,    // for '[': the list with its first entries, and the first value
  OBJECT = 224,  // for '{': the object with its first buckets
  PER_BYTE =
      6,  // a value's string is stored once, a name twice; jansson's read buffer doubles until the longest string fits
};

size_t json_cost(const char *text, size_t size) {
  static const unsigned char costs[256] = {[','] = VALUE, [':'] = MEMBER, ['['] = LIST, ['{'] = OBJECT};
  size_t cost = FIXED + PER_BYTE * size;
  for (size_t i = 0; i < size; i++) cost += costs[(unsigned char)text[i]];
  return cost;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

enum { ALIGNMENT = 16, MAPPED = 1 << 20 };  // larger blocks are mapped, so that they go back to the system at once

static _Thread_local struct json_document *reading;  // the document that jansson reads on this thread now
static _Thread_local bool starved;                   // an allocation for `reading` failed

static void *take(size_t size) {
  if (!reading) return malloc(size);
  size_t left = reading->size - reading->used, bytes = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  starved = starved || bytes < size || bytes > left;
  if (starved) return NULL;
  char *memory = reading->memory + reading->used;
  reading->used += bytes;
  return memory;
}

static void release(void *memory) {
  if (!reading) free(memory);
}

static char *take_memory(size_t size) {
  if (size <= MAPPED) return malloc(size);
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

void json_close(struct json_document *document) {
  if (document->size > MAPPED && document->memory)
    (void)munmap(document->memory, document->size);
  else
    free(document->memory);
  *document = (struct json_document){.root = NULL};
}

// ---- reading --------------------------------------------------------------------------------------------------------

static void install(void) {
  static atomic_flag installed = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&installed)) json_set_alloc_funcs(take, release);
}

// A text that jansson reads piece by piece.
struct long_text {
  const char *at;
  size_t left;
  struct vx_stop *stop;
};

static size_t next_part(void *part, size_t room, void *cls) {
  struct long_text *text = cls;
  size_t bytes = text->left < room ? text->left : room;
  if (vx_stopped(text->stop, (int64_t)bytes)) return (size_t)-1;
  memcpy(part, text->at, bytes);
  text->at += bytes;
  text->left -= bytes;
  return bytes;
}

static bool open_long(struct json_document *document, const char *text, size_t size, struct vx_stop *stop,
                      json_error_t *error) {
  struct long_text parts = {text, size, stop};
  install();
  *document = (struct json_document){.size = json_cost(text, size)};
  document->memory = take_memory(document->size);
  starved = !document->memory;
  reading = document;
  if (!starved) document->root = json_load_callback(next_part, &parts, JSON_REJECT_DUPLICATES, error);
  reading = NULL;
  if (starved) *error = (json_error_t){.line = -1, .text = "out of memory"};
  if (document->root && !starved) return true;
  json_close(document);
  return false;
}

bool json_open(struct json_document *document, const char *text, size_t size, json_error_t *error) {
  return open_long(document, text, size, NULL, error);
}

bool json_open_sent(struct json_document *document, const char *what, const char *text, size_t size,
                    struct vx_stop *stop, struct error *error) {
  json_error_t where;
  if (open_long(document, text, size, stop, &where)) return true;
  if (where.line < 0) return error_refuse(error, ERROR_MEMORY_FULL, NULL, "there is no memory to read %s", what);
  return error_refuse(error, ERROR_BAD_BODY, NULL, "%s, line %d, column %d: %.200s", what, where.line, where.column,
                      where.text);
}

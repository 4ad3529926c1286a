// Splits a query string without percent-encoding: name=value&name=value. Names and values are copies of the exact size,
// so that a sanitizer sees a read past the end; query_free frees them.
#ifndef VOXELD_TESTS_SPLIT_QUERY_H
#define VOXELD_TESTS_SPLIT_QUERY_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/query.h"

static inline char *query_copy(const char *bytes, size_t length) {
  char *copy = malloc(length ? length : 1);
  assert(copy);
  memcpy(copy, bytes, length);
  return copy;
}

static inline void query_split(const char *cursor, const char *end, struct query *query) {
  query->count = 0;
  while (cursor < end && query->count < QUERY_MAX_ITEMS) {
    const char *stop = memchr(cursor, '&', (size_t)(end - cursor));
    if (!stop) stop = end;
    const char *equals = memchr(cursor, '=', (size_t)(stop - cursor));
    struct query_item *item = &query->items[query->count++];
    *item = (struct query_item){.name_length = (size_t)((equals ? equals : stop) - cursor)};
    item->name = query_copy(cursor, item->name_length);
    if (equals) {
      item->value_length = (size_t)(stop - equals - 1);
      item->value = query_copy(equals + 1, item->value_length);
    }
    cursor = stop + 1;
  }
}

static inline void query_free(struct query *query) {
  for (size_t i = 0; i < query->count; i++) {
    free((char *)query->items[i].name);
    free((char *)query->items[i].value);
  }
}

#endif

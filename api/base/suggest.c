// See suggest.h.
#include "api/base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 64 };  // longer names get no suggestion

static bool same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

static int least(int a, int b) { return a < b ? a : b; }

static bool exchanged(const char *a, size_t i, const char *b, size_t j) {
  return i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
}

// The distance of Damerau and Levenshtein, where no letter is edited twice. Both names have at most LONGEST letters.
static int edits_between(const char *a, size_t length_a, const char *b, size_t length_b) {
  int rows[3][LONGEST + 1] = {0};  // the last three rows of the table; row i is rows[i % 3]
  for (size_t j = 0; j <= length_b; j++) rows[0][j] = (int)j;
  for (size_t i = 1; i <= length_a; i++) {
    int *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    row[0] = (int)i;
    for (size_t j = 1; j <= length_b; j++) {
      row[j] = least(last[j - 1] + !same(a[i - 1], b[j - 1]), 1 + least(row[j - 1], last[j]));
      if (exchanged(a, i, b, j)) row[j] = least(row[j], before[j - 2] + 1);
    }
  }
  return rows[length_a % 3][length_b];
}

// Up to a third of the letters may be wrong, but always at least one. `edits` begins one above this limit.
struct suggestion suggest(const char *asked, size_t length) {
  return (struct suggestion){asked, length, NULL, (int)(length < 6 ? 1 : length / 3) + 1};
}

void suggest_try(struct suggestion *suggestion, const char *name) {
  size_t length = strlen(name);
  if (suggestion->length > LONGEST || length > LONGEST) return;
  int edits = edits_between(suggestion->asked, suggestion->length, name, length);
  if (edits >= suggestion->edits) return;
  suggestion->edits = edits;
  suggestion->name = name;
}

bool suggestion_is_exact(const struct suggestion *suggestion) {
  const char *name = suggestion->name;
  return name && strlen(name) == suggestion->length && memcmp(name, suggestion->asked, suggestion->length) == 0;
}

const char *suggest_text(const struct suggestion *suggestion, char *out, size_t size) {
  const char *name = suggestion->name;
  if (suggestion_is_exact(suggestion)) name = NULL;
  snprintf(out, size, name ? " (did you mean '%s'?)" : "%s", name ? name : "");
  return out;
}

// Finds the name that a client may have meant by an unknown name. Works on the caller's memory; any thread.
#ifndef API_BASE_SUGGEST_H
#define API_BASE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

struct suggestion {
  const char *asked;  // not ended by NUL
  size_t length;
  const char *name;  // the nearest name so far; NULL: none is near. Must live as long as the suggestion
  int edits;         // letters to insert, drop, replace, or exchange with the next one; upper and lower case are equal
};

struct suggestion suggest(const char *asked, size_t length);
// Takes the name if it is nearer than all names before.
void suggest_try(struct suggestion *suggestion, const char *name);
bool suggestion_is_exact(const struct suggestion *suggestion);
// Writes " (did you mean 'NAME'?)", or nothing if no name is near or the name is exact. Returns `out`.
const char *suggest_text(const struct suggestion *suggestion, char *out, size_t size);

#endif

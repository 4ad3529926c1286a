// Bearer tokens: a file of names and SHA-256 sums, and the search for the token that a request bears.
//
// A line of the file is NAME sha256:HEX; blank lines and those that begin with # do not count. The tokens themselves
// are nowhere: not in the file, not in memory but for the request that bears one, not in an error. A table is immutable
// once parsed; any thread may search it.
#ifndef VOXELD_TOKENS_H
#define VOXELD_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

enum {
  TOKEN_NAME_MAX = 64,  // letters, digits, '.', '_' and '-'
  TOKENS_MAX = 1024,    // of a file
  TOKEN_SIZE = 64,      // of a new token's text, its NUL included
  TOKEN_LINE_SIZE = 160
};

struct tokens;

// The table that a file's text describes; the text is not kept. NULL with a reason, which names the line and shows
// nothing of it.
VX_WARN_UNUSED struct tokens *tokens_parse(const char *text, size_t size, char *error, size_t error_size);
// The table of a file of up to 1 MiB. `*exposed` says whether others than the file's owner and group may read it.
VX_WARN_UNUSED struct tokens *tokens_load(const char *path, bool *exposed, char *error, size_t error_size);
void tokens_free(struct tokens *tokens);  // NULL is fine

size_t tokens_count(const struct tokens *tokens);
// The name of a token, in the table's memory; NULL where it is not one of them. Every row is compared, each in constant
// time.
const char *tokens_find(const struct tokens *tokens, const char *token);

// A fresh random token of 256 bits, and its line for the file (without a newline). False with a reason.
VX_WARN_UNUSED bool token_make(const char *name, char token[TOKEN_SIZE], char line[TOKEN_LINE_SIZE], char *error,
                               size_t error_size);

#endif

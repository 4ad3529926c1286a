// Bearer tokens: a file of names and SHA-256 sums, and the search for the token of a request.
//
// A line of the file is NAME sha256:HEX. Blank lines and lines that begin with # are skipped. Neither the file nor an
// error has a token. A table is immutable once parsed; any thread may search it.
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

// Parses the text of a file into a table for tokens_close. NULL with a reason, which does not quote the line.
VX_WARN_UNUSED struct tokens *tokens_parse(const char *text, size_t size, struct error *error);
// Parses a file of up to 1 MiB. `*exposed`: users other than the owner and the group may read it. NULL with a reason.
VX_WARN_UNUSED struct tokens *tokens_load(const char *path, bool *exposed, struct error *error);
void tokens_close(struct tokens *tokens);  // NULL is fine

size_t tokens_count(const struct tokens *tokens);
// The name of a token, in the table's memory; NULL: the table does not have it. Compares all rows, each in constant
// time.
const char *tokens_find(const struct tokens *tokens, const char *token);
bool tokens_have_name(const struct tokens *tokens, const char *name);

// A random token of 256 bits, and its line for the file, without a newline. False with a reason.
VX_WARN_UNUSED bool token_make(const char *name, char token[TOKEN_SIZE], char line[TOKEN_LINE_SIZE],
                               struct error *error);

#endif

// Fuzzes the token file. The input is a file. Any bytes give either a table of tokens, or an error with its line. A new
// token's line, read as a file, gives this token. One thread.
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/clients/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A token whose sum is in the seeds of the corpus.
static const char known[] = "hunter2";
static const char known_sum[] = "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";

// A simple reader of the file, to compare with. Returns the number of tokens. Copies the known token's name, if any.
static size_t read_plainly(const char *text, char name_of_known[TOKEN_NAME_MAX + 1]) {
  size_t count = 0;
  while (*text) {
    char line[8192], name[TOKEN_NAME_MAX + 2] = "", sum[128] = "";
    size_t length = strcspn(text, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    text += length + (text[length] == '\n');
    if (sscanf(line, "%65s %127s", name, sum) < 1 || name[0] == '#') continue;
    count++;
    assert(strlen(name) <= TOKEN_NAME_MAX && strlen(sum) == strlen(known_sum));
    if (strcasecmp(sum, known_sum) == 0) strcpy(name_of_known, name);
  }
  return count;
}

static void check_table(const struct tokens *tokens, const char *text) {
  char name_of_known[TOKEN_NAME_MAX + 1] = "";
  assert(tokens_count(tokens) == read_plainly(text, name_of_known));
  const char *found = tokens_find(tokens, known);
  assert(found ? strcmp(found, name_of_known) == 0 : !name_of_known[0]);
  (void)tokens_find(tokens, text);
  assert(!tokens_find(tokens, known_sum));
}

static void check_new_token(const char *name) {
  char token[TOKEN_SIZE], line[TOKEN_LINE_SIZE];
  struct error error = {0};
  if (!token_make(name, token, line, &error)) {
    assert(error.text[0]);
    return;
  }
  struct tokens *tokens = tokens_parse(line, strlen(line), &error);
  assert(tokens && tokens_count(tokens) == 1 && strcmp(tokens_find(tokens, token), name) == 0);
  assert(!strstr(line, token));
  tokens_close(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct error error = {0};
  // `copy` has the exact size, so that a sanitizer sees a read past the end.
  char *copy = malloc(size ? size : 1), *text = malloc(size + 1);
  assert(copy && text);
  memcpy(copy, data, size);
  memcpy(text, data, size);
  text[size] = '\0';
  struct tokens *tokens = tokens_parse(copy, size, &error);
  free(copy);
  assert(tokens ? !error.text[0] : strncmp(error.text, "line ", 5) == 0);
  // A name or a sum cannot contain a NUL; a comment can.
  if (tokens && strlen(text) == size) check_table(tokens, text);
  tokens_close(tokens);
  text[strcspn(text, "\n")] = '\0';
  check_new_token(text);
  free(text);
  return 0;
}

// See tokens.h.
#include "server/clients/tokens.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file.h"
#include "api/base/text.h"

enum { SUM = 32, HEX = 2 * SUM, LONGEST_TOKEN = 512, LARGEST_FILE = 1 << 20, RANDOM = 32 };
static const char sum_prefix[] = "sha256:", token_prefix[] = "vxt_";
static const char name_bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

struct token {
  char name[TOKEN_NAME_MAX + 1];
  unsigned char sum[SUM];  // SHA-256 of the token's text
};

struct tokens {
  size_t count;
  struct token rows[];
};

static bool sum_of(const char *token, unsigned char sum[SUM]) {
  return gnutls_hash_fast(GNUTLS_DIG_SHA256, token, strlen(token), sum) == 0;
}

// ---- the file -------------------------------------------------------------------------------------------------------

struct piece {
  const char *begin, *end;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Takes the next word from a line; empty at the line's end.
static struct piece take_word(struct piece *line) {
  while (line->begin < line->end && is_blank(*line->begin)) line->begin++;
  struct piece word = {line->begin, line->begin};
  while (word.end < line->end && !is_blank(*word.end)) word.end++;
  line->begin = word.end;
  return word;
}

static bool read_name(struct piece word, char name[TOKEN_NAME_MAX + 1]) {
  size_t length = (size_t)(word.end - word.begin);
  if (length == 0 || length > TOKEN_NAME_MAX) return false;
  for (const char *c = word.begin; c < word.end; c++)
    if (!*c || !strchr(name_bytes, *c)) return false;
  memcpy(name, word.begin, length);
  name[length] = '\0';
  return true;
}

static bool read_sum(struct piece word, unsigned char sum[SUM]) {
  size_t prefix = strlen(sum_prefix), size = SUM;
  if (word.end - word.begin != (ptrdiff_t)(prefix + HEX) || memcmp(word.begin, sum_prefix, prefix) != 0) return false;
  char hex[HEX + 1];
  memcpy(hex, word.begin + prefix, HEX);
  hex[HEX] = '\0';
  return strspn(hex, "0123456789abcdefABCDEF") == HEX && gnutls_hex2bin(hex, HEX, sum, &size) == 0 && size == SUM;
}

// Adds the token of a line, if it has one. Returns what is wrong with the line, or NULL.
static const char *read_line(struct tokens *tokens, struct piece line) {
  struct piece name = take_word(&line), sum = take_word(&line), rest = take_word(&line);
  if (name.begin == name.end || *name.begin == '#') return NULL;
  if (tokens->count == TOKENS_MAX) return "there are more than 1024 tokens";
  struct token *row = &tokens->rows[tokens->count];
  if (!read_name(name, row->name)) return "the name must have 1 to 64 letters, digits, '.', '_' or '-'";
  if (!read_sum(sum, row->sum) || rest.begin != rest.end)
    return "expected NAME sha256:HEX with 64 hexadecimal digits; voxeld --new-token NAME prints such a line";
  for (const struct token *other = tokens->rows; other < row; other++) {
    if (strcmp(other->name, row->name) == 0) return "the name is used twice";
    if (memcmp(other->sum, row->sum, SUM) == 0) return "the token is used twice";
  }
  tokens->count++;
  return NULL;
}

struct tokens *tokens_parse(const char *text, size_t size, struct error *error) {
  struct tokens *tokens = malloc(sizeof *tokens + TOKENS_MAX * sizeof *tokens->rows);
  if (!tokens) {
    (void)error_set(error, "out of memory");
    return NULL;
  }
  tokens->count = 0;
  const char *end = text + size;
  for (size_t number = 1; text < end; number++) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    struct piece line = {text, newline ? newline : end};
    const char *fault = read_line(tokens, line);
    if (fault) {
      (void)error_set(error, "line %zu: %s", number, fault);
      tokens_close(tokens);
      return NULL;
    }
    text = newline ? newline + 1 : end;
  }
  return tokens;
}

struct tokens *tokens_load(const char *path, bool *exposed, struct error *error) {
  struct file file;
  *exposed = false;
  if (!file_read("token_file", path, LARGEST_FILE, &file, error)) return NULL;
  *exposed = file.exposed;
  struct tokens *tokens = tokens_parse(file.bytes, file.size, error);
  file_release(&file);
  if (!tokens) (void)error_prefix(error, "token_file %s: ", path);
  return tokens;
}

void tokens_close(struct tokens *tokens) { free(tokens); }

size_t tokens_count(const struct tokens *tokens) { return tokens->count; }

// ---- the search -----------------------------------------------------------------------------------------------------

const char *tokens_find(const struct tokens *tokens, const char *token) {
  unsigned char sum[SUM];
  size_t found = 0;  // 1 + the number of the token's row; 0: none
  if (strnlen(token, LONGEST_TOKEN + 1) > LONGEST_TOKEN || !sum_of(token, sum)) return NULL;
  for (size_t i = 0; i < tokens->count; i++) {
    size_t same = gnutls_memcmp(tokens->rows[i].sum, sum, SUM) == 0;
    found |= (0 - same) & (i + 1);
  }
  gnutls_memset(sum, 0, sizeof sum);
  return found ? tokens->rows[found - 1].name : NULL;
}

bool tokens_have_name(const struct tokens *tokens, const char *name) {
  size_t i = 0;
  while (i < tokens->count && strcmp(tokens->rows[i].name, name) != 0) i++;
  return i < tokens->count;
}

// ---- new tokens -----------------------------------------------------------------------------------------------------

// Base64 for URLs, without padding: the token needs no quotes anywhere.
static bool write_token(const unsigned char random[RANDOM], char token[TOKEN_SIZE]) {
  const gnutls_datum_t bytes = {(unsigned char *)(uintptr_t)random, RANDOM};
  gnutls_datum_t text;
  if (gnutls_base64_encode2(&bytes, &text) != 0) return false;
  int length = snprintf(token, TOKEN_SIZE, "%s%.*s", token_prefix, (int)text.size, (const char *)text.data);
  gnutls_memset(text.data, 0, text.size);
  gnutls_free(text.data);
  for (char *c = token; *c; c++) *c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c);
  token[strcspn(token, "=")] = '\0';
  return length > 0 && length < TOKEN_SIZE;
}

bool token_make(const char *name, char token[TOKEN_SIZE], char line[TOKEN_LINE_SIZE], struct error *error) {
  unsigned char random[RANDOM], sum[SUM];
  char sound[TOKEN_NAME_MAX + 1], hex[HEX + 1];
  size_t hex_size = sizeof hex;
  const gnutls_datum_t bytes = {sum, SUM};
  if (!read_name((struct piece){name, name + strlen(name)}, sound))
    return error_set(error, "a token's name must have 1 to 64 letters, digits, '.', '_' or '-'");
  bool made = gnutls_rnd(GNUTLS_RND_KEY, random, sizeof random) == 0 && write_token(random, token) &&
              sum_of(token, sum) && gnutls_hex_encode(&bytes, hex, &hex_size) == 0;
  gnutls_memset(random, 0, sizeof random);
  if (!made) return error_set(error, "GnuTLS could not make a random token");
  snprintf(line, TOKEN_LINE_SIZE, "%s %s%s", sound, sum_prefix, hex);
  return true;
}

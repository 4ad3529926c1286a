// Tables of parameters: one row a parameter, read by queries, presets, metadata, error texts, --describe and the
// documentation test. What a row's value is, its type knows (values.h); which rows there are, the operations know
// (api/ops). The values stand in a record of the caller's, of which only the rows know the fields.
//
// The tables are immutable; a record belongs to its caller. Any thread.
#ifndef VOXELD_PARAMS_H
#define VOXELD_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"

#define PARAM_WARN_UNUSED __attribute__((warn_unused_result))

struct param;

// A kind of values: how they are read from text, written as JSON, and what of them is allowed.
struct value_type {
  const char *name;  // in --describe
  bool computed;     // has a value to show even if none was given
  // Reads the text at [value, end) into the record. False if the parameter does not take it.
  bool (*read)(const struct param *param, const char *value, const char *end, void *record);
  void (*write)(const struct param *param, const void *record, struct text *out);
  // What is allowed, in words. NULL: the row says it.
  void (*allow)(const struct param *param, char *out, size_t size);
};

struct param {
  const char *name;
  const struct value_type *type;
  size_t offset;             // of the value in the record
  size_t second;             // of what else belongs to it, as its type says
  int64_t least, most;       // bounds of a number; how many numbers; the bits allowed of a set
  const char *const *words;  // names of the values in order, then NULL
  const char *initial;       // the default's text; NULL = none
  const char *allowed;       // in words; NULL = the type says it
  const char *doc;
  bool names_tensors;  // given in a query, it decides anew which tensors are returned: a preset's `outputs` goes
};

// A table: pointers to rows, a NULL at its end.
typedef const struct param *const *param_rows;

enum { PARAMS_MAX = 64 };  // rows of one table

// The number of the row; -1 if there is none of that name.
int params_find(param_rows rows, const char *name, size_t length);

// What values the parameter takes, in words.
void param_allowed(const struct param *param, char *out, size_t size);
// Reads a value into the record. False if it is not one that the parameter takes.
PARAM_WARN_UNUSED bool param_read(const struct param *param, const char *value, size_t length, void *record);

// Reads the defaults into the record.
void params_init(param_rows rows, void *record);
// The values as a JSON object: those given, and those that have a default or are computed. `given` has a place for each
// row.
void params_write(param_rows rows, const bool *given, const void *record, struct text *out);
// The rows as a JSON array, for --describe.
void params_describe(param_rows rows, struct text *out);

#endif

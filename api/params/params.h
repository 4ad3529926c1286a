// Tables of parameters, one row each, for queries, presets, metadata, error texts and --describe. A row's type
// (values.h) reads and writes the value. Values are fields of the caller's record, at the offsets in the rows. A record
// with lists begins with the struct pool that the lists are taken from.
//
// The tables are immutable; a record belongs to its caller. Any thread.
#ifndef VOXELD_PARAMS_H
#define VOXELD_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/base/text.h"

#define PARAM_WARN_UNUSED __attribute__((warn_unused_result))

struct param;
struct suggestion;

struct value_type {
  const char *name;  // in --describe; api/python/generate.py has the type in Python for each name
  bool computed;     // params_write writes the value even if none was given
  // Reads the text at [value, end) into the record. False if the value is not allowed.
  bool (*read)(const struct param *param, const char *value, const char *end, void *record);
  void (*write)(const struct param *param, const void *record, struct text *out);
  // Writes the allowed values in words. NULL if each row has its own text.
  void (*allow)(const struct param *param, struct text *out);
  // Calls suggest_try with each allowed name of a value, or of an item of a list. NULL: the values are not names.
  void (*suggest)(const struct param *param, struct suggestion *near);
};

struct param {
  const char *name;
  const struct value_type *type;
  size_t offset;             // of the value in the record
  size_t second;             // of a second field, if the type has one (values.h)
  int64_t least, most;       // by type: bounds of a number, the count of numbers, or the bits allowed in a set
  double from, to;           // bounds of a float; both 0: none
  const char *const *words;  // names of the values in order, then NULL
  const char *initial;       // the default's text; NULL = none
  const char *allowed;       // the allowed values in words; NULL = the type writes them
  const char *unit;          // of the numbers; NULL = none. Texts for people show it before `doc`.
  const char *doc;
  bool required;       // each request must give it
  bool names_tensors;  // if a query gives it, a preset's `outputs` does not count
};

// A table: pointers to rows, then NULL.
typedef const struct param *const *param_rows;

enum { PARAMS_MAX = 64 };  // maximum rows of one table

int params_find(param_rows rows, const char *name, size_t length);  // the number of the row; -1 if there is none

void param_allowed(const struct param *param, struct text *out);
PARAM_WARN_UNUSED bool param_read(const struct param *param, const char *value, size_t length, void *record);

void params_init(param_rows rows, void *record);
// Writes a JSON object of the values that were given, have a default or are computed. `given` has an entry for each
// row.
void params_write(param_rows rows, const bool *given, const void *record, struct text *out);
// The same without the braces.
void params_write_members(param_rows rows, const bool *given, const void *record, struct text *out);
// Returns false with an error that has the given value and the allowed values. `name`: what clients call the parameter.
bool param_refuse(const struct param *param, const char *name, const char *value, size_t length, struct error *error);

#endif

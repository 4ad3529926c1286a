// The rows of the parameter table, and values read and written by them: from text with what is allowed, to JSON.
//
// The tables are immutable; a request belongs to its caller. Any thread.
#ifndef VOXELD_VALUES_H
#define VOXELD_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"
#include "api/params/params.h"

enum param_type {
  TYPE_INT,
  TYPE_FLOATS,
  TYPE_WORD,
  TYPE_FEATURES,
  TYPE_TENSORS,
  TYPE_BLOCK_FILTER,
  TYPE_COUNTS,
  TYPE_SAMPLES,
  TYPE_PRESET,
  PARAM_TYPES
};

struct param {
  const char *name;
  uint32_t kinds;  // JOB_KIND_BIT of each kind of job that takes it
  enum param_type type;
  size_t offset;             // of the field in struct job_request
  int64_t least, most;       // TYPE_INT: bounds; TYPE_FLOATS: how many; TYPE_TENSORS: the VX_TENSOR_BITs allowed
  const char *const *words;  // TYPE_WORD: the values of the enum in order, then NULL
  const char *initial;       // the default's text; NULL = none
  const char *allowed;       // in words; NULL = follows from type, bounds or words
  const char *doc;
};

extern const char *const feature_words[];  // enum feature

// What values the parameter takes, in words.
void param_allowed(const struct param *param, char *out, size_t size);

// Reads a value into the request. False if it is not one that the parameter takes.
VX_WARN_UNUSED bool param_read(const struct param *param, const char *value, size_t length,
                               struct job_request *request);

// Writes the request's value as JSON.
void param_write(const struct param *param, const struct job_request *request, struct text *out);

#endif

// Steps as requests, presets and model files describe them; kernels/steps.h says what steps are.
//
// Each type of step has its own file, with its parameter rows and its checks. The tables are constant. A chain belongs
// to its request. Any thread.
#ifndef VOXELD_API_STEPS_H
#define VOXELD_API_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/pool.h"
#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/params/params.h"
#include "api/params/values.h"
#include "kernels/ops.h"

enum {
  STEP_TAG_SIZE = 24,     // bytes of a tag, with its NUL
  STEP_COLUMN_SIZE = 32,  // bytes of the name of a column, with its NUL
  STEP_PARAMS_MAX = 15,   // maximum rows of a type
  STEP_MATRICES = 64,     // maximum matrices of a transform
  STEP_LISTS = 2,         // lists of numbers in a step
};

// The record that the rows of a step's type read and write.
struct request_step {
  struct pool *pool;  // of the request
  struct vx_step step;
  char tag[STEP_TAG_SIZE];
  char column[STEP_COLUMN_SIZE];  // name of the column that the step reads; "" = not given
  bool given[STEP_PARAMS_MAX];    // for each row: whether a preset, a model or the query set it
  struct {
    float *numbers;
    int32_t count;
  } lists[STEP_LISTS];
};
#define STEP_FIELD(member) offsetof(struct request_step, member)
#define STEP_ROWS_FIT(rows)                                                                                            \
  _Static_assert(sizeof(rows) / sizeof *(rows) <= STEP_PARAMS_MAX + 1, "given has an entry for every row")

struct request_chain {
  struct pool *pool;  // of the request
  int32_t count;
  bool plain;                    // of an operation that is one step: its parameters have no tag
  struct request_step *steps;    // [count], with room for VX_MAX_STEPS
  const struct vx_chain *bound;  // made by chain_split; uses the lists of `steps`
};

static inline const float *step_numbers(const struct request_step *step, int list) { return step->lists[list].numbers; }
// Copies the numbers. False if the pool has no memory.
VX_WARN_UNUSED bool step_set_numbers(struct request_step *step, int list, const float *numbers, int32_t count);

// What chain_split needs to know of the request's points.
struct chain_points {
  int64_t num_points;
  int32_t num_columns, num_clouds;
  const char *fields;             // names of the columns, separated by commas; "" = none
  const struct vx_input *matrix;  // from the body; NULL = none
  int64_t max_work;               // the server's limit on samplings and searches for neighbours
};

// A row of the table of step types. `finish` and `split` may be NULL. Their errors name parameters without the tag.
struct step_kind {
  enum vx_step_type type;
  const char *doc;
  param_rows rows;
  // Checks the parameters against each other.
  bool (*finish)(struct request_step *step, struct error *error);
  // Checks the parameters against the points, and fills in what depends on the points.
  bool (*split)(struct request_step *step, const struct chain_points *points, struct error *error);
};
#define X(type, name) extern const struct step_kind step_##name;
VX_STEPS(X)
#undef X

const struct step_kind *step_kind_of(enum vx_step_type type);

extern const struct value_type value_steps;  // struct request_chain: `none`, or a list of TYPE and TAG:TYPE

// Makes the chain of an operation that is one step.
void chain_init_plain(struct request_chain *chain, enum vx_step_type type);
// Copies a chain that is not split. False if the pool has no memory.
VX_WARN_UNUSED bool chain_copy(struct request_chain *to, const struct request_chain *from, struct pool *pool);
// Adds a step of the type `name`, and copies the tag. False if the chain is full, the name is no type, the tag is not
// allowed or used already, or the pool has no memory.
VX_WARN_UNUSED bool chain_add(struct request_chain *chain, const char *tag, size_t tag_length, const char *name,
                              size_t name_length);

// Call this if a list of steps could not be read. True with an error if a tag occurs twice.
bool chain_refuse_repeated(const struct request_chain *chain, const char *value, size_t length, struct error *error);
// True if the chain may take as long as a sampling.
bool chain_is_long(const struct request_chain *chain);
// Whether the name is for chain_set: a name with a dot or, for a plain chain, a parameter of its step.
bool chain_owns(const struct request_chain *chain, const char *name, size_t length);
// Writes TAG.name for a step that has the parameter `name`. False if none has it.
bool chain_suggest(const struct request_chain *chain, const char *name, size_t length, struct text *out);
// Sets a parameter that chain_owns accepts.
VX_WARN_UNUSED bool chain_set(struct request_chain *chain, const char *name, size_t name_length, const char *value,
                              size_t value_length, struct error *error);

// chain_finish calls each step's `finish`; chain_split calls each `split` and fills `bound`.
VX_WARN_UNUSED bool chain_finish(struct request_chain *chain, struct error *error);
VX_WARN_UNUSED bool chain_split(struct request_chain *chain, const struct chain_points *points, struct error *error);

// Writes the parameters of a plain chain as members of a JSON object.
void chain_write_plain(const struct request_chain *chain, struct text *out);

#endif

// Steps as requests, presets and model files describe them; kernels/steps.h says what steps are.
//
// Each type of step has its own file here, with its parameter rows and the checks of parameters against each other. The
// tables are immutable. A chain belongs to its request. Any thread.
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
  STEP_MATRICES = 64,
  STEP_LISTS = 2,  // lists of numbers of a step
};

// A step as a request gives it: the record that the rows of its type read and write.
struct request_step {
  struct pool *pool;  // of the request
  struct vx_step step;
  char tag[STEP_TAG_SIZE];
  char column[STEP_COLUMN_SIZE];  // the name of the column that the step reads; "" = not given
  bool given[STEP_PARAMS_MAX];    // for each row: whether preset, model or query set it
  struct {
    float *numbers;
    int32_t count;
  } lists[STEP_LISTS];
};
#define STEP_FIELD(member) offsetof(struct request_step, member)
#define STEP_ROWS_FIT(rows)                                                                                            \
  _Static_assert(sizeof(rows) / sizeof *(rows) <= STEP_PARAMS_MAX + 1, "given has an entry for every row")

struct request_chain {
  struct pool *pool;  // of the request, for everything below
  int32_t count;
  bool plain;                    // the operation is a single step, whose parameters have no tag
  struct request_step *steps;    // [count], with room for VX_MAX_STEPS
  const struct vx_chain *bound;  // once split
};

// The numbers of a list of the step.
static inline const float *step_numbers(const struct request_step *step, int list) { return step->lists[list].numbers; }
// Copies the numbers into the list. False if the pool has no memory.
VX_WARN_UNUSED bool step_set_numbers(struct request_step *step, int list, const float *numbers, int32_t count);

// What a chain must know of the points of its request, once they are read.
struct chain_points {
  int64_t num_points;
  int32_t num_columns, num_clouds;
  const char *fields;             // names of the columns, separated by commas; "" = they have none
  const struct vx_input *matrix;  // matrices from the body; NULL = none
  int64_t max_work;               // the server's limit on samplings and searches for neighbours
};

// A row of the table of step types. The functions may be NULL. An error that they write names a parameter without its
// tag.
struct step_kind {
  enum vx_step_type type;
  const char *doc;  // what the step does
  param_rows rows;
  // Checks the parameters against each other. False with an error.
  bool (*finish)(struct request_step *step, struct error *error);
  // Checks the parameters against the points, and fills what follows from the points. False with an error.
  bool (*split)(struct request_step *step, const struct chain_points *points, struct error *error);
};
#define X(type, name) extern const struct step_kind step_##name;
VX_STEPS(X)
#undef X

const struct step_kind *step_kind_of(enum vx_step_type type);

extern const struct value_type value_steps;  // struct request_chain: `none`, or a list of TYPE and TAG:TYPE

// Makes the chain of an operation that is one step.
void chain_init_plain(struct request_chain *chain, enum vx_step_type type);
// Copies a chain that is not split yet. False if the pool has no memory.
VX_WARN_UNUSED bool chain_copy(struct request_chain *to, const struct request_chain *from, struct pool *pool);
// Adds a step of that name and tag; both are copied. False if the chain is full, if no type has the name, if the tag is
// not allowed or another step has it, or if the pool has no memory.
VX_WARN_UNUSED bool chain_add(struct request_chain *chain, const char *tag, size_t tag_length, const char *name,
                              size_t name_length);

// Call this if a list of steps could not be read. If the reason is that a tag occurs twice, true with an error.
bool chain_refuse_repeated(const struct request_chain *chain, const char *value, size_t length, struct error *error);
// Whether the chain may take as long as a sampling.
bool chain_is_long(const struct request_chain *chain);
// Whether the name is for chain_set: any name with a dot, such as TAG.name, or the name of a plain chain's parameter.
bool chain_owns(const struct request_chain *chain, const char *name, size_t length);
// Writes TAG.name if a step has the parameter `name`, which the client gave without a tag. False if no step has it.
bool chain_suggest(const struct request_chain *chain, const char *name, size_t length, struct text *out);
// Sets a parameter that chain_owns accepts. False with an error.
VX_WARN_UNUSED bool chain_set(struct request_chain *chain, const char *name, size_t name_length, const char *value,
                              size_t value_length, struct error *error);

// chain_finish checks the parameters of each step against each other, chain_split against the points. chain_split also
// fills `bound`, which points into the chain. False with an error.
VX_WARN_UNUSED bool chain_finish(struct request_chain *chain, struct error *error);
VX_WARN_UNUSED bool chain_split(struct request_chain *chain, const struct chain_points *points, struct error *error);

// Writes the parameters of a plain chain as members of a JSON object.
void chain_write_plain(const struct request_chain *chain, struct text *out);

#endif

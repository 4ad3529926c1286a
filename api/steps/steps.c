// See steps.h.
#include "api/steps/steps.h"

#include <stdio.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/base/suggest.h"

static const struct step_kind *const kinds[VX_STEP_TYPES] = {
#define X(type, name) [VX_STEP_##type] = &step_##name,
    VX_STEPS(X)
#undef X
};

const struct step_kind *step_kind_of(enum vx_step_type type) { return kinds[type]; }

static param_rows rows_of(const struct request_step *step) { return kinds[step->step.type]->rows; }
static const char *name_of(const struct request_step *step) { return vx_step_row_of(step->step.type)->name; }

// ---- making a chain -------------------------------------------------------------------------------------------------

static bool is_equal(const char *text, const char *other, size_t length) {
  return strlen(text) == length && memcmp(text, other, length) == 0;
}

// The index of the step with the tag, or -1.
static int32_t find(const struct request_chain *chain, const char *tag, size_t length) {
  for (int32_t i = 0; i < chain->count; i++)
    if (is_equal(chain->steps[i].tag, tag, length)) return i;
  return -1;
}

static bool is_tag(const char *tag, size_t length) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (length == 0 || length >= STEP_TAG_SIZE) return false;
  for (size_t i = 0; i < length; i++)
    if (!tag[i] || !strchr(allowed, tag[i])) return false;
  return true;
}

bool chain_add(struct request_chain *chain, const char *tag, size_t tag_length, const char *name, size_t name_length) {
  int type = 0;
  while (type < VX_STEP_TYPES && !is_equal(vx_step_row_of((enum vx_step_type)type)->name, name, name_length)) type++;
  if (type == VX_STEP_TYPES || chain->count == VX_MAX_STEPS || !is_tag(tag, tag_length)) return false;
  if (find(chain, tag, tag_length) >= 0) return false;
  if (chain->count == 0) chain->steps = pool_take(chain->pool, VX_MAX_STEPS * sizeof *chain->steps);
  if (!chain->steps) return false;
  struct request_step *step = &chain->steps[chain->count++];
  *step = (struct request_step){.pool = chain->pool, .step.type = (enum vx_step_type)type};
  memcpy(step->tag, tag, tag_length);
  params_init(rows_of(step), step);
  return true;
}

void chain_init_plain(struct request_chain *chain, enum vx_step_type type) {
  const char *name = vx_step_row_of(type)->name;
  chain->plain = chain_add(chain, name, strlen(name), name, strlen(name));
}

bool chain_copy(struct request_chain *to, const struct request_chain *from, struct pool *pool) {
  *to = *from;
  to->pool = pool;
  if (from->count == 0) return true;
  to->steps = pool_take(pool, VX_MAX_STEPS * sizeof *to->steps);
  for (int32_t i = 0; to->steps && i < from->count; i++) {
    struct request_step *step = &to->steps[i];
    *step = from->steps[i];
    step->pool = pool;
    for (int list = 0; list < STEP_LISTS; list++)
      if (!step_set_numbers(step, list, step->lists[list].numbers, step->lists[list].count)) return false;
  }
  return to->steps;
}

bool step_set_numbers(struct request_step *step, int list, const float *numbers, int32_t count) {
  step->lists[list].count = count;
  step->lists[list].numbers = NULL;
  if (count == 0) return true;
  float *copy = step->lists[list].numbers = pool_take(step->pool, (size_t)count * sizeof *copy);
  if (copy) memcpy(copy, numbers, (size_t)count * sizeof *copy);
  return copy;
}

// ---- the list -------------------------------------------------------------------------------------------------------

static bool read_steps(const struct param *param, const char *value, const char *end, void *record) {
  struct request_chain *chain = (void *)((char *)record + param->offset);
  char item[64];
  chain->count = 0;
  if (is_equal("none", value, (size_t)(end - value))) return true;
  while (value_next(&value, end, item, sizeof item)) {
    const char *colon = strchr(item, ':'), *name = colon ? colon + 1 : item;
    if (!chain_add(chain, item, colon ? (size_t)(colon - item) : strlen(item), name, strlen(name))) return false;
  }
  return value_ended(value, end);
}

// read_steps has added the first chain->count items; the next one is the item that it refused.
bool chain_refuse_repeated(const struct request_chain *chain, const char *value, size_t length, struct error *error) {
  const char *end = value + length;
  char item[64];
  for (int32_t i = 0; i <= chain->count; i++)
    if (!value_next(&value, end, item, sizeof item)) return false;
  int tag = (int)strcspn(item, ":");
  if (find(chain, item, (size_t)tag) < 0) return false;
  return !error_refuse(error, ERROR_BAD_PARAMETER, "steps",
                       "steps has the tag %.*s twice; give one of the two another tag, such as %.*s2:%s", tag, item,
                       tag, item, item[tag] ? item + tag + 1 : item);
}

static void write_step(const struct request_step *step, struct text *out) {
  json_printf(out, "{op:%s", name_of(step));
  if (strcmp(step->tag, name_of(step)) != 0) json_printf(out, "tag:%s", step->tag);
  params_write_members(rows_of(step), step->given, step, out);
  json_printf(out, "}");
}

// Writes the list as presets and model files have it.
static void write_steps(const struct param *param, const void *record, struct text *out) {
  const struct request_chain *chain = (const void *)((const char *)record + param->offset);
  json_printf(out, "[");
  for (int32_t i = 0; i < chain->count; i++) write_step(&chain->steps[i], out);
  json_printf(out, "]");
}

static void allow_steps(const struct param *param, struct text *out) {
  (void)param;
  text_printf(out, "none, or up to %d of ", VX_MAX_STEPS);
  for (int type = 0; type < VX_STEP_TYPES; type++)
    text_printf(out, "%s%s", type ? ", " : "", vx_step_row_of((enum vx_step_type)type)->name);
  text_printf(out, ", each as TYPE or TAG:TYPE; tags differ and have up to %d letters, digits, _ and -",
              STEP_TAG_SIZE - 1);
}

static void suggest_step(const struct param *param, struct suggestion *near) {
  (void)param;
  for (int type = 0; type < VX_STEP_TYPES; type++) suggest_try(near, vx_step_row_of((enum vx_step_type)type)->name);
}

const struct value_type value_steps = {"steps", false, read_steps, write_steps, allow_steps, suggest_step};

bool chain_is_long(const struct request_chain *chain) {
  for (int32_t i = 0; i < chain->count; i++)
    if (vx_step_row_of(chain->steps[i].step.type)->is_long) return true;
  return false;
}

// ---- parameters -----------------------------------------------------------------------------------------------------

bool chain_owns(const struct request_chain *chain, const char *name, size_t length) {
  if (memchr(name, '.', length)) return !chain->plain;
  return chain->plain && params_find(rows_of(&chain->steps[0]), name, length) >= 0;
}

// Writes the name as queries have it.
static void write_name(const struct request_chain *chain, const struct request_step *step, const char *name,
                       struct text *out) {
  if (!chain->plain) text_printf(out, "%s.", step->tag);
  text_put(out, name);
}

bool chain_suggest(const struct request_chain *chain, const char *name, size_t length, struct text *out) {
  for (int32_t i = 0; i < chain->count; i++) {
    const struct request_step *step = &chain->steps[i];
    int row = params_find(rows_of(step), name, length);
    if (row < 0) continue;
    write_name(chain, step, rows_of(step)[row]->name, out);
    return true;
  }
  return false;
}

static bool refuse_tag(const struct request_chain *chain, const char *name, struct error *error) {
  char memory[VX_MAX_STEPS * (STEP_TAG_SIZE + 2)], hint[96];
  struct text tags = text_over(memory, sizeof memory);
  struct suggestion near = suggest(name, strcspn(name, "."));
  for (int32_t i = 0; i < chain->count; i++) {
    text_printf(&tags, "%s%s", i ? ", " : "", chain->steps[i].tag);
    suggest_try(&near, chain->steps[i].tag);
  }
  return error_refuse(error, ERROR_BAD_PARAMETER, name, "'%s' names no step of this request%s; its steps are: %s", name,
                      suggest_text(&near, hint, sizeof hint),
                      chain->count ? tags.data : "none; steps=TYPE or steps=TAG:TYPE adds one");
}

// `own`: the name without the tag.
static bool refuse_name(const struct request_step *step, const char *name, const char *own, struct error *error) {
  char memory[400], hint[96];
  struct text names = text_over(memory, sizeof memory);
  struct suggestion near = suggest(own, strlen(own));
  for (param_rows row = rows_of(step); *row; row++) {
    text_printf(&names, "%s%s", names.length ? ", " : "", (*row)->name);
    suggest_try(&near, (*row)->name);
  }
  return error_refuse(error, ERROR_BAD_PARAMETER, name, "'%s' is not a parameter of the step %s%s; allowed: %s", name,
                      name_of(step), suggest_text(&near, hint, sizeof hint), names.data);
}

bool chain_set(struct request_chain *chain, const char *name, size_t name_length, const char *value,
               size_t value_length, struct error *error) {
  const char *dot = chain->plain ? NULL : memchr(name, '.', name_length);
  int32_t number = dot ? find(chain, name, (size_t)(dot - name)) : 0;
  char full[64];
  snprintf(full, sizeof full, "%.*s", (int)(name_length < sizeof full ? name_length : sizeof full - 1), name);
  if (number < 0 || number >= chain->count) return refuse_tag(chain, full, error);
  struct request_step *step = &chain->steps[number];
  const char *own = dot ? dot + 1 : name;
  int row = params_find(rows_of(step), own, name_length - (size_t)(own - name));
  if (row < 0) return refuse_name(step, full, dot ? strchr(full, '.') + 1 : full, error);
  if (!value) return error_refuse(error, ERROR_BAD_PARAMETER, full, "%s has no value", full);
  if (!param_read(rows_of(step)[row], value, value_length, step))
    return chain->pool->failed ? pool_refuse(error)
                               : param_refuse(rows_of(step)[row], full, value, value_length, error);
  step->given[row] = true;
  return true;
}

// ---- checks ---------------------------------------------------------------------------------------------------------

// Puts the tag before the error's parameter. Returns false.
static bool blame(const struct request_chain *chain, const struct request_step *step, struct error *error) {
  char full[sizeof error->parameter];
  struct text text = text_over(full, sizeof full);
  write_name(chain, step, error->parameter, &text);
  if (!chain->plain) error_prefix(error, "step %s: ", step->tag);
  return error_blame(error, text.data);
}

static bool check_required(const struct request_step *step, struct error *error) {
  char memory[200];
  struct text allowed = text_over(memory, sizeof memory);
  param_rows rows = rows_of(step);
  int row = 0;
  while (rows[row] && (step->given[row] || !rows[row]->required)) row++;
  if (!rows[row]) return true;
  param_allowed(rows[row], &allowed);
  return error_refuse(error, ERROR_BAD_PARAMETER, rows[row]->name, "%s is missing; allowed: %s", rows[row]->name,
                      allowed.data);
}

bool chain_finish(struct request_chain *chain, struct error *error) {
  for (int32_t i = 0; i < chain->count; i++) {
    struct request_step *step = &chain->steps[i];
    const struct step_kind *kind = kinds[step->step.type];
    if (!check_required(step, error) || (kind->finish && !kind->finish(step, error))) return blame(chain, step, error);
  }
  return true;
}

bool chain_split(struct request_chain *chain, const struct chain_points *points, struct error *error) {
  struct vx_chain *bound = pool_take(chain->pool, sizeof *bound);
  if (!bound) return pool_refuse(error);
  for (int32_t i = 0; i < chain->count; i++) {
    struct request_step *step = &chain->steps[i];
    const struct step_kind *kind = kinds[step->step.type];
    if (kind->split && !kind->split(step, points, error)) return blame(chain, step, error);
    bound->steps[i] = step->step;
  }
  bound->count = chain->count;
  chain->bound = bound;
  return true;
}

// ---- writing --------------------------------------------------------------------------------------------------------

void chain_write_plain(const struct request_chain *chain, struct text *out) {
  params_write_members(rows_of(&chain->steps[0]), chain->steps[0].given, &chain->steps[0], out);
}

// Named parameter sets: the presets of config/presets, which are built into the binary, and the presets of the
// operator's directory.
//
// A preset file is one JSON object: "description", a string; "parameters", an object with the names and values of a
// query's parameters (lists as JSON arrays); and "operation", the operation that takes these parameters, voxelize by
// default. Each further member has the name of another operation, and as its value an object with the parameters of
// that operation. A loaded set is immutable, and any thread may read it. presets_close frees the set.
#ifndef VOXELD_PRESETS_H
#define VOXELD_PRESETS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/ops/ops.h"

struct preset;
struct presets;
struct suggestion;

// Loads the built-in presets, then every NAME.json of `directory` ("" = none), which may replace built-in ones. Hidden
// files are skipped. NULL with a reason in `error`.
VX_WARN_UNUSED struct presets *presets_load(const char *directory, struct error *error);
void presets_close(struct presets *presets);

// Parses one preset from its JSON text. The result belongs to the caller. NULL with a reason in `error`.
VX_WARN_UNUSED struct preset *preset_parse(const char *name, const char *json, size_t size, struct error *error);
void preset_close(struct preset *preset);

const struct preset *presets_find(const struct presets *presets, const char *name);  // NULL if there is none
size_t presets_count(const struct presets *presets);
const struct preset *presets_at(const struct presets *presets, size_t index);  // in the order of names

// Calls suggest_try with the name of each preset.
void presets_suggest(const struct presets *presets, struct suggestion *near);
// Refuses a name that no preset has; the error lists the presets. Returns false.
bool presets_refuse(const struct presets *presets, const char *name, struct error *error);

const char *preset_name(const struct preset *preset);
// The defaults, overridden by the preset's "parameters".
const struct job_request *presets_request(const struct preset *preset);
// The same for the operation `op`; NULL if the preset has no parameters for it.
const struct job_request *presets_request_of(const struct preset *preset, enum vx_op op);

// Write one preset as a JSON object, and all presets as {"presets":[...]}.
void preset_write(const struct preset *preset, struct text *out);
void presets_write(const struct presets *presets, struct text *out);

#endif

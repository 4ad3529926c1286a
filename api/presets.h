// Named parameter sets: the presets of config/presets, which are built into the binary, and those of the operator's
// directory. A loaded set is immutable, and any thread may read it.
//
// A preset file is one JSON object: "description", a string; "parameters", an object with the names and values of a
// query's parameters (lists as JSON arrays); and "operation", which takes these parameters, voxelize by default. Each
// further member has the name of another operation, and as its value an object with the parameters of that operation.
#ifndef VOXELD_PRESETS_H
#define VOXELD_PRESETS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/ops/ops.h"

struct preset;
struct presets;
struct suggestion;

// Loads the built-in presets, then every NAME.json of `directory` ("" = none), which may replace built-in ones. Hidden
// files are skipped. NULL with an error.
VX_WARN_UNUSED struct presets *presets_load(const char *directory, struct error *error);
void presets_close(struct presets *presets);

// The result belongs to the caller. NULL with an error.
VX_WARN_UNUSED struct preset *preset_parse(const char *name, const char *json, size_t size, struct error *error);
void preset_close(struct preset *preset);

const struct preset *presets_find(const struct presets *presets, const char *name);  // NULL if there is none
size_t presets_count(const struct presets *presets);
const struct preset *presets_at(const struct presets *presets, size_t index);  // in the order of names

void presets_suggest(const struct presets *presets, struct suggestion *near);
// Returns false with an error that lists the presets.
bool presets_refuse(const struct presets *presets, const char *name, struct error *error);

const char *preset_name(const struct preset *preset);
// The defaults, overridden by the preset's "parameters".
const struct job_request *presets_request(const struct preset *preset);
// The same for the operation `op`; NULL if the preset has no parameters for it.
const struct job_request *presets_request_of(const struct preset *preset, enum vx_op op);

void preset_write(const struct preset *preset, struct text *out);
void presets_write(const struct presets *presets, struct text *out);  // {"presets":[...]}

#endif

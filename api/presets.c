// See presets.h.
#include "api/presets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file.h"
#include "api/base/json.h"
#include "api/base/json_write.h"
#include "api/base/suggest.h"
#include "api/ops/overlay.h"
#include "api/resources.h"

enum {
  MAX_PRESETS = 256,
  MAX_FILE = 65535,    // bytes of a preset's file
  MAX_ENTRIES = 4096,  // entries of a directory, presets or not
};

struct preset {
  char name[64];
  char description[512];
  enum vx_op op;                         // the operation that "parameters" is for
  struct job_request *requests[VX_OPS];  // owned; NULL if the preset has no parameters of that operation
};

struct presets {
  size_t count;
  struct preset *item[MAX_PRESETS];  // sorted by name
};

static bool set_parameters(struct preset *preset, enum vx_op op, json_t *parameters, struct error *error) {
  struct job_request *request = preset->requests[op] = job_request_new(op);
  if (!request) return error_set(error, "preset %s: out of memory", preset->name);
  // Answers echo the preset's name. Finishing a request here finds a bad preset before a client does.
  if (!settings_read(request, parameters, "a preset", error) ||
      !job_request_set(request, "preset", 6, preset->name, strlen(preset->name), error) ||
      !job_request_finish(request, error))
    return error_prefix(error, "preset %s: ", preset->name);
  return true;
}

static bool refuse_operation(const struct preset *preset, const json_t *operation, struct error *error) {
  char memory[256];
  struct text names = text_over(memory, sizeof memory);
  for (enum vx_op op = 0; op < VX_OPS; op++) text_printf(&names, "%s%s", op ? ", " : "", vx_operations[op].name);
  if (!json_is_string(operation))
    return error_set(error, "preset %s: operation is not a string; allowed: %s", preset->name, names.data);
  return error_set(error, "preset %s: operation is '%.80s'; allowed: %s", preset->name, json_string_value(operation),
                   names.data);
}

static bool set_others(struct preset *preset, json_t *root, struct error *error) {
  static const char *const known[] = {"description", "parameters", "operation"};
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value) {
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i], name) != 0) i++;
    if (i < sizeof known / sizeof *known) continue;
    enum vx_op op = vx_op_find(name);
    if (op == VX_OPS || preset->requests[op] || !json_is_object(value))
      return error_set(
          error, "preset %s: %.64s is not the name of another operation, or its value is not an object of parameters",
          preset->name, name);
    if (!set_parameters(preset, op, value, error)) return false;
  }
  return true;
}

static bool fill_preset(struct preset *preset, json_t *root, struct error *error) {
  json_t *description = json_object_get(root, "description"), *parameters = json_object_get(root, "parameters");
  const json_t *operation = json_object_get(root, "operation");
  if (!json_is_string(description) || !json_is_object(parameters))
    return error_set(
        error,
        "preset %s: expected an object with \"description\" and \"parameters\"; it may also have \"operation\" and "
        "the names of other operations",
        preset->name);
  enum vx_op op = !operation                  ? VX_VOXELIZE
                  : json_is_string(operation) ? vx_op_find(json_string_value(operation))
                                              : VX_OPS;
  if (op == VX_OPS) return refuse_operation(preset, operation, error);
  if (json_string_length(description) >= sizeof preset->description)
    return error_set(error, "preset %s: the description has more than %zu bytes", preset->name,
                     sizeof preset->description - 1);
  snprintf(preset->description, sizeof preset->description, "%s", json_string_value(description));
  preset->op = op;
  return set_parameters(preset, op, parameters, error) && set_others(preset, root, error);
}

struct preset *preset_parse(const char *name, const char *json, size_t size, struct error *error) {
  struct preset *preset = calloc(1, sizeof *preset);
  struct json_document document;
  json_error_t where;
  bool opened = json_open(&document, json, size, &where), good = false;
  if (!preset)
    error_set(error, "preset %s: out of memory", name);
  else if (strlen(name) == 0 || strlen(name) >= sizeof preset->name)
    error_set(error, "preset name '%s': expected 1 to %zu bytes", name, sizeof preset->name - 1);
  else if (!opened && where.line < 0)
    error_set(error, "preset %s: %s", name, where.text);
  else if (!opened)
    error_set(error, "preset %s: line %d: %s", name, where.line, where.text);
  else {
    snprintf(preset->name, sizeof preset->name, "%s", name);
    good = fill_preset(preset, document.root, error);
  }
  json_close(&document);
  if (good) return preset;
  preset_close(preset);
  return NULL;
}

void preset_close(struct preset *preset) {
  for (enum vx_op op = 0; preset && op < VX_OPS; op++) job_request_release(preset->requests[op]);
  free(preset);
}

// ---- the set --------------------------------------------------------------------------------------------------------

// Takes ownership of the preset, which replaces another of the same name.
static bool presets_put(struct presets *presets, struct preset *preset, struct error *error) {
  size_t at = 0;
  while (at < presets->count && strcmp(presets->item[at]->name, preset->name) < 0) at++;
  if (at < presets->count && strcmp(presets->item[at]->name, preset->name) == 0) {
    preset_close(presets->item[at]);
  } else {
    if (presets->count == MAX_PRESETS) {
      preset_close(preset);
      return error_set(error, "there are more than %d presets", MAX_PRESETS);
    }
    memmove(&presets->item[at + 1], &presets->item[at], (presets->count - at) * sizeof *presets->item);
    presets->count++;
  }
  presets->item[at] = preset;
  return true;
}

static bool put_text(struct presets *presets, const char *name, const char *json, size_t size, struct error *error) {
  struct preset *preset = preset_parse(name, json, size, error);
  return preset && presets_put(presets, preset, error);
}

static bool put_file(struct presets *presets, const char *directory, const char *file, struct error *error) {
  char path[4096], name[256];
  struct file content;
  snprintf(path, sizeof path, "%s/%s", directory, file);
  snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - 5), file);
  if (!file_read("preset", path, MAX_FILE, &content, error)) return false;
  bool good = put_text(presets, name, content.bytes, content.size, error);
  file_release(&content);
  return good;
}

// Hidden files are skipped: Kubernetes keeps the real files of a mounted volume in hidden directories.
static bool is_preset(const char *name) {
  size_t length = strlen(name);
  return name[0] != '.' && length > 5 && length < 256 && strcmp(name + length - 5, ".json") == 0;
}

static bool put_directory(struct presets *presets, const char *directory, struct error *error) {
  DIR *stream = opendir(directory);
  if (!stream) return error_set(error, "presets directory %s: %s", directory, strerror(errno));
  bool good = true;
  int entries = 0;
  const struct dirent *entry = NULL;
  while (good && (errno = 0, entry = readdir(stream)))
    if (++entries > MAX_ENTRIES)
      good = error_set(error, "presets directory %s: it has more than %d entries", directory, MAX_ENTRIES);
    else if (is_preset(entry->d_name))
      good = put_file(presets, directory, entry->d_name, error);
  if (good && errno) good = error_set(error, "presets directory %s: %s", directory, strerror(errno));
  closedir(stream);
  return good;
}

struct presets *presets_load(const char *directory, struct error *error) {
  struct presets *presets = calloc(1, sizeof *presets);
  if (!presets) {
    error_set(error, "presets: out of memory");
    return NULL;
  }
  bool good = true;
  for (size_t i = 0; good && i < resources_presets_count; i++) {
    const struct resource *builtin = &resources_presets[i];
    good = put_text(presets, builtin->name, builtin->text, builtin->size, error);
  }
  if (good && directory[0]) good = put_directory(presets, directory, error);
  if (good) return presets;
  presets_close(presets);
  return NULL;
}

void presets_close(struct presets *presets) {
  if (!presets) return;
  for (size_t i = 0; i < presets->count; i++) preset_close(presets->item[i]);
  free(presets);
}

const struct preset *presets_find(const struct presets *presets, const char *name) {
  for (size_t i = 0; i < presets->count; i++)
    if (strcmp(presets->item[i]->name, name) == 0) return presets->item[i];
  return NULL;
}

size_t presets_count(const struct presets *presets) { return presets->count; }
const struct preset *presets_at(const struct presets *presets, size_t index) { return presets->item[index]; }

void presets_suggest(const struct presets *presets, struct suggestion *near) {
  for (size_t i = 0; i < presets->count; i++) suggest_try(near, presets->item[i]->name);
}

bool presets_refuse(const struct presets *presets, const char *name, struct error *error) {
  char hint[96], room[400];
  struct text names = text_over(room, sizeof room);
  struct suggestion near = suggest(name, strlen(name));
  presets_suggest(presets, &near);
  for (size_t i = 0; i < presets->count; i++) text_printf(&names, "%s%s", i ? ", " : "", presets->item[i]->name);
  return error_refuse(error, ERROR_NOT_FOUND, NULL, "there is no preset '%.80s'%s; the presets are %s", name,
                      suggest_text(&near, hint, sizeof hint), names.data);
}

const char *preset_name(const struct preset *preset) { return preset->name; }
const struct job_request *presets_request(const struct preset *preset) { return preset->requests[preset->op]; }
const struct job_request *presets_request_of(const struct preset *preset, enum vx_op op) {
  return preset->requests[op];
}

void preset_write(const struct preset *preset, struct text *out) {
  json_printf(out, "{name:%s description:%s", preset->name, preset->description);
  if (preset->op != VX_VOXELIZE) json_printf(out, "operation:%s", vx_operations[preset->op].name);
  json_printf(out, "parameters:");
  job_request_write(preset->requests[preset->op], out);
  for (enum vx_op op = 0; op < VX_OPS; op++) {
    if (!preset->requests[op] || op == preset->op) continue;
    json_member(out, vx_operations[op].name);
    job_request_write(preset->requests[op], out);
  }
  json_printf(out, "}");
}

void presets_write(const struct presets *presets, struct text *out) {
  json_printf(out, "{presets:[");
  for (size_t i = 0; i < presets->count; i++) preset_write(presets->item[i], out);
  json_printf(out, "]}\n");
}

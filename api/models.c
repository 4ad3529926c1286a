// See models.h.
#include "api/models.h"

#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"

// Of an operation that is not the preset's first; else NULL.
static const struct job_request *further_of(const struct preset *preset, enum vx_op op) {
  const struct job_request *request = preset ? presets_request_of(preset, op) : NULL;
  return request && request != presets_request(preset) ? request : NULL;
}

// The request whose model has the name PRESET_OPERATION; NULL if there is none.
static const struct job_request *find_further(const struct presets *presets, const char *name) {
  const struct job_request *found = NULL;
  size_t length = strlen(name);
  for (enum vx_op op = 0; op < VX_OPS && !found; op++) {
    char own[MODEL_NAME_SIZE];
    const char *operation = vx_operation_of(op)->name;
    size_t tail = strlen(operation) + 1;
    if (length <= tail || length >= sizeof own) continue;
    snprintf(own, sizeof own, "%.*s", (int)(length - tail), name);
    if (name[length - tail] == '_' && strcmp(name + length - tail + 1, operation) == 0)
      found = further_of(presets_find(presets, own), op);
  }
  return found;
}

bool model_find(const struct presets *presets, const char *name, struct job_request *memory, struct model *model) {
  enum vx_op op = vx_op_find(name);
  *model = (struct model){.name = name};
  if (op != VX_OPS) {
    job_request_init(memory, op);
    model->request = memory;
    return true;
  }
  const struct preset *preset = presets_find(presets, name);
  model->request = preset ? presets_request(preset) : find_further(presets, name);
  model->preset = model->request != NULL;
  return model->preset;
}

// ---- the list -------------------------------------------------------------------------------------------------------

// Operations come first, then presets, then each operation of each preset.
size_t model_numbers(const struct presets *presets) { return VX_OPS + presets_count(presets) * (1 + VX_OPS); }

bool model_at(const struct presets *presets, size_t number, char name[MODEL_NAME_SIZE], struct job_request *memory,
              struct model *model) {
  size_t count = presets_count(presets);
  const struct job_request *request = NULL;  // of a preset
  if (number < VX_OPS) {
    snprintf(name, MODEL_NAME_SIZE, "%s", vx_operation_of((enum vx_op)number)->name);
  } else if ((number -= VX_OPS) < count) {
    const struct preset *preset = presets_at(presets, number);
    request = presets_request(preset);
    snprintf(name, MODEL_NAME_SIZE, "%s", preset_name(preset));
  } else {
    const struct preset *preset = presets_at(presets, (number - count) / VX_OPS);
    enum vx_op op = (enum vx_op)((number - count) % VX_OPS);
    request = further_of(preset, op);
    if (!request) return false;
    snprintf(name, MODEL_NAME_SIZE, "%s_%s", preset_name(preset), vx_operation_of(op)->name);
  }
  // Another model may have the name.
  return model_find(presets, name, memory, model) && (request ? model->request == request : !model->preset);
}

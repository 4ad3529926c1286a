// See models.h.
#include "api/models.h"

#include <stdio.h>
#include <string.h>

#include "api/base/suggest.h"
#include "kernels/ops.h"

// The preset's request for the operation; NULL if there is none, or if the operation is the preset's first.
static const struct job_request *further_of(const struct preset *preset, enum vx_op op) {
  const struct job_request *request = preset ? presets_request_of(preset, op) : NULL;
  return request && request != presets_request(preset) ? request : NULL;
}

// Whether the name is X_OPERATION. Sets `own` to X.
static bool cut_operation(const char *name, enum vx_op op, char own[MODEL_NAME_SIZE]) {
  const char *operation = vx_operations[op].name;
  size_t length = strlen(name), tail = strlen(operation) + 1;
  if (length <= tail || length >= MODEL_NAME_SIZE) return false;
  snprintf(own, MODEL_NAME_SIZE, "%.*s", (int)(length - tail), name);
  return name[length - tail] == '_' && strcmp(name + length - tail + 1, operation) == 0;
}

static const struct job_request *find_further(const struct presets *presets, const char *name) {
  const struct job_request *found = NULL;
  char own[MODEL_NAME_SIZE];
  for (enum vx_op op = 0; op < VX_OPS && !found; op++)
    if (cut_operation(name, op, own)) found = further_of(presets_find(presets, own), op);
  return found;
}

// Also finds the detector by the name DETECTOR_backbone, if it has a backbone.
static struct detector *find_detector(const struct detectors *detectors, const char *name, enum vx_op *op) {
  char own[MODEL_NAME_SIZE];
  struct detector *detector = detectors_find(detectors, name);
  *op = detector ? VX_DETECT : VX_BACKBONE;
  if (detector || !cut_operation(name, VX_BACKBONE, own)) return detector;
  detector = detectors_find(detectors, own);
  return detector && vx_has_backbone(detector_core(detector)) ? detector : NULL;
}

static bool find_of_detector(const struct detectors *detectors, const char *name, struct job_request *memory,
                             struct model *model) {
  enum vx_op op;
  const struct detector *detector = find_detector(detectors, name, &op);
  if (!detector) return false;
  const struct detector_refusal *refusal = detectors_refused(detectors, detector_name(detector));
  job_request_init(memory, op);
  model->request = memory;
  model->fault = detector_fault(detector);
  model->version = detector_version(detector);
  model->refused = refusal ? refusal->reason.text : NULL;
  model->refused_version = refusal ? refusal->version : NULL;
  if (!model->fault && !detector_choose(detector, memory)) model->fault = "there is no memory for its parameters now";
  return true;
}

// Finds the first of these that has the name: an operation, a preset, a further operation of a preset, a detector, a
// detector's backbone.
static bool find(const struct named *named, const char *name, struct job_request *memory, struct model *model) {
  enum vx_op op = vx_op_find(name);
  *model = (struct model){.name = name, .version = MODEL_VERSION};
  if (op != VX_OPS && !vx_operations[op].needs_detector) {
    job_request_init(memory, op);
    model->request = memory;
    return true;
  }
  const struct preset *preset = presets_find(named->presets, name);
  model->request = preset ? presets_request(preset) : find_further(named->presets, name);
  model->preset = model->request != NULL;
  return model->preset || find_of_detector(named->detectors, name, memory, model);
}

static bool refuse(const struct named *named, const char *name, const char *version, struct error *error) {
  char hint[96];
  struct suggestion near = suggest(name, strlen(name));
  for (enum vx_op op = 0; op < VX_OPS; op++)
    if (!vx_operations[op].needs_detector) suggest_try(&near, vx_operations[op].name);
  presets_suggest(named->presets, &near);
  detectors_suggest(named->detectors, &near);
  return error_refuse(error, ERROR_NOT_FOUND, NULL,
                      "there is no model '%.80s'%s%.40s%s; POST /v2/repository/index lists them", name,
                      version[0] ? " of version " : "", version, suggest_text(&near, hint, sizeof hint));
}

bool model_find(const struct named *named, const char *name, const char *version, struct job_request *memory,
                struct model *model, struct error *error) {
  bool found = find(named, name, memory, model) && (!version[0] || strcmp(version, model->version) == 0);
  return found || refuse(named, name, version, error);
}

// ---- the list -------------------------------------------------------------------------------------------------------

// Operations come first, then presets, then each operation of each preset, then detectors, then their backbones.
size_t model_numbers(const struct named *named) {
  return VX_OPS + presets_count(named->presets) * (1 + VX_OPS) + 2 * detectors_count(named->detectors);
}

static enum vx_op name_of_detector(const struct detectors *detectors, size_t number, char name[MODEL_NAME_SIZE]) {
  size_t count = detectors_count(detectors);
  const char *own = detector_name(detectors_at(detectors, number % count));
  bool detects = number < count;
  snprintf(name, MODEL_NAME_SIZE, "%s%s%s", own, detects ? "" : "_", detects ? "" : vx_operations[VX_BACKBONE].name);
  return detects ? VX_DETECT : VX_BACKBONE;
}

// Number 0 is the first after the operations. False if the number has no model.
static bool preset_at(const struct presets *presets, size_t number, char name[MODEL_NAME_SIZE],
                      const struct job_request **request) {
  size_t count = presets_count(presets);
  const struct preset *preset = presets_at(presets, number < count ? number : (number - count) / VX_OPS);
  enum vx_op op = (enum vx_op)(number < count ? VX_OPS : (number - count) % VX_OPS);
  *request = op == VX_OPS ? presets_request(preset) : further_of(preset, op);
  snprintf(name, MODEL_NAME_SIZE, "%s%s%s", preset_name(preset), op == VX_OPS ? "" : "_",
           op == VX_OPS ? "" : vx_operations[op].name);
  return *request;
}

bool model_at(const struct named *named, size_t number, char name[MODEL_NAME_SIZE], struct job_request *memory,
              struct model *model) {
  size_t of_presets = presets_count(named->presets) * (1 + VX_OPS);
  const struct job_request *request = NULL;  // of a preset
  bool of_detector = number >= VX_OPS + of_presets;
  enum vx_op op = VX_OPS;  // of a detector
  if (number < VX_OPS)
    snprintf(name, MODEL_NAME_SIZE, "%s", vx_operations[number].name);
  else if (of_detector)
    op = name_of_detector(named->detectors, number - VX_OPS - of_presets, name);
  else if (!preset_at(named->presets, number - VX_OPS, name, &request))
    return false;
  // An earlier model may have the same name; then this number has no model.
  if (!find(named, name, memory, model)) return false;
  if (request) return model->request == request;
  if (of_detector) return model->request->job.op == op;
  return !model->preset && !vx_operations[model->request->job.op].needs_detector;
}

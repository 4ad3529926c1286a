// See models.h.
#include "api/models.h"

#include "kernels/ops.h"

bool model_find(const struct named *named, const char *name, struct job_request *memory, struct model *model) {
  enum vx_op op = vx_op_find(name);
  const struct preset *preset = presets_find(named->presets, name);
  const struct detector *detector = detectors_find(named->detectors, name);
  *model = (struct model){.name = name};
  if (op != VX_OPS && op != VX_DETECT) {  // which needs a model of its own
    job_request_init(memory, op);
    model->request = memory;
  } else if (preset) {
    model->request = presets_request(preset);
    model->preset = true;
  } else if (detector) {
    job_request_init(memory, VX_DETECT);
    model->request = memory;
    model->fault = detector_fault(detector);
    if (!model->fault) detector_choose(detector, memory);
  }
  return model->request != NULL;
}

// See models.h.
#include "api/models.h"

#include "kernels/ops.h"

bool model_find(const struct presets *presets, const char *name, struct job_request *memory, struct model *model) {
  enum vx_op op = vx_op_find(name);
  const struct preset *preset = presets_find(presets, name);
  *model = (struct model){.name = name};
  if (op != VX_OPS) {
    job_request_init(memory, op);
    model->request = memory;
  } else if (preset) {
    model->request = presets_request(preset);
    model->preset = true;
  }
  return model->request != NULL;
}

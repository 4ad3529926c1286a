// See steps.h.
#include "kernels/steps.h"

static const struct vx_step_row *const step_table[VX_STEP_TYPES] = {
#define X(type, name) [VX_STEP_##type] = &vx_step_##name,
    VX_STEPS(X)
#undef X
};

const struct vx_step_row *vx_step_row_of(enum vx_step_type type) { return step_table[type]; }

uint32_t vx_fates_of_chain(const struct vx_chain *chain) {
  uint32_t fates = 0;
  for (int32_t i = 0; i < chain->count; i++) fates |= step_table[chain->steps[i].type]->fates;
  return fates;
}

bool vx_chain_needs_heads(const struct vx_job *job) {
  vx_tensor_set readers = VX_TENSOR_BIT(VX_POINT_ROWS) | VX_TENSOR_BIT(VX_POINT_VOXEL_IDS);
  return (job->tensors & readers) != 0 && (vx_fates_of_chain(job->chain) & VX_FATE_BIT(VX_FATE_MERGED)) != 0;
}

bool vx_chain_reads_body(const struct vx_job *job) {
  const struct vx_chain *chain = job->chain;
  bool reads = job->op == VX_RANGE_IMAGE_OP && vx_counts_turns(&job->params.image);
  for (int32_t i = 0; i < chain->count; i++) {
    const struct vx_step_row *row = step_table[chain->steps[i].type];
    reads = reads || (row->reads_body && row->reads_body(&chain->steps[i].params));
  }
  return reads;
}

enum vx_status vx_check_chain(const struct vx_job *job, struct error *error) {
  const struct vx_chain *chain = job->chain;
  if (chain->count < 0 || chain->count > VX_MAX_STEPS || !job->report)
    return vx_refuse(error, "a chain has up to %d steps, and a report", VX_MAX_STEPS);
  enum vx_status status = VX_OK;
  for (int32_t i = 0; i < chain->count && status == VX_OK; i++) {
    const struct vx_step_row *row = step_table[chain->steps[i].type];
    if (row->check) status = row->check(&chain->steps[i].params, job, error);
  }
  return status;
}

// A row of the table of step types (steps.h).
#ifndef VOXELD_STEP_H
#define VOXELD_STEP_H

#include "kernels/kernels.h"

struct vx_step_row {
  const char *name;
  bool is_long;    // its jobs need lanes for long jobs
  uint32_t fates;  // VX_FATE_BITs of the fates that the step can give, but not VX_FATE_KEPT
  // VX_REFUSED if the parameters, such as a struct vx_downsample, do not fit the job's columns or clouds. May be NULL.
  enum vx_status (*check)(const void *params, const struct vx_job *job, struct error *error);
  // Whether the step also reads the body as it was before the first step. NULL: no.
  bool (*reads_body)(const void *params);
};

#endif

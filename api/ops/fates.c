// Counts by fate, as answers have them; see ops.h.
#include "api/ops/ops.h"

#include "api/base/json_write.h"

void fates_write(uint32_t fates, const struct vx_counts *counts, struct text *out) {
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    if (fates & VX_FATE_BIT(fate)) {
      json_member(out, vx_fate_names[fate]);
      json_put_integer(out, counts->fates[fate]);
    }
}

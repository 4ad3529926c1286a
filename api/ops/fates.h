// Counts by fate, as answers have them. No state.
#ifndef VOXELD_API_FATES_H
#define VOXELD_API_FATES_H

#include "api/base/text.h"
#include "kernels/ops.h"

// Writes the counts of these fates (bits: VX_FATE_BIT) as members of a JSON object.
void fates_write(uint32_t fates, const struct vx_counts *counts, struct text *out);

#endif

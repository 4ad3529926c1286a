// The scratch of a voxelize job, and the parts of the run that its pieces see.
#ifndef VOXELD_CPU_VOXELIZE_PARTS_H
#define VOXELD_CPU_VOXELIZE_PARTS_H

#include "kernels/cpu/voxelize/run.h"

// Lays out the run: what it needs of memory for the whole job, and for a cloud in hand.
void cpu_parts_lay_out(struct cpu_run *run, struct cpu_arena *arena);

// The run as the hand is to see it that does a piece of it, with room for a cloud in hand or only for a pillar. Fails
// only for a hand that helps.
VX_WARN_UNUSED enum vx_status cpu_parts_take(const struct cpu_run *run, const struct vx_hand *hand, bool cloud,
                                             struct cpu_run *part, struct error *error);

// Gives each cloud its places in the lists of the whole job.
void cpu_parts_place(struct cpu_run *run);
// Numbers the rows of all clouds, moves together their cells and pillars, and adds up their counts.
void cpu_parts_gather(struct cpu_run *run);

#endif

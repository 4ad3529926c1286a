// From the points in range to maps: maps.h of kernels/ says what they have.
#ifndef VOXELD_CPU_MAPS_H
#define VOXELD_CPU_MAPS_H

#include "kernels/cpu/voxelize/run.h"

// Take the scratch of the maps that the job wants: for all clouds, and for the cloud in hand.
void cpu_maps_lay_out(struct cpu_run *run, struct cpu_arena *arena);
void cpu_maps_lay_out_cloud(struct cpu_run *run, struct cpu_arena *arena);

// Appends the cells and the pillars of the cloud's points, which are in run.cells, run.inside and run.voxel_of.
void cpu_gather_maps(struct cpu_run *run, const struct cpu_cloud *cloud);

// Each writes one map of all clouds.
void cpu_write_occupancy(const struct cpu_run *run, void *out);
void cpu_write_occupancy_counts(const struct cpu_run *run, void *out);
void cpu_write_occupancy_packed(const struct cpu_run *run, void *out);
void cpu_write_max_height(const struct cpu_run *run, void *out);
void cpu_write_min_height(const struct cpu_run *run, void *out);
void cpu_write_max_intensity(const struct cpu_run *run, void *out);
void cpu_write_top_intensity(const struct cpu_run *run, void *out);
void cpu_write_density(const struct cpu_run *run, void *out);

#endif

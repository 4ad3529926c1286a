// From the points in range to maps.
//
// Maps are mostly empty, so their contents are first gathered in lists that fit in the cache: a cell per voxel, a
// pillar per column of voxels. Then each map is cleared and filled.
#include "kernels/cpu/voxelize/voxelize.h"

#include <math.h>

#include "kernels/half.h"
#include "kernels/maps.h"

// ---- gathering ------------------------------------------------------------------------------------------------------

// The number of a line of cells along x, over all clouds.
static int64_t line_of(const struct cpu_run *run, int32_t cloud, int32_t z, int32_t y) {
  return ((int64_t)cloud * run->grid.cells[2] + z) * run->grid.cells[1] + y;
}

static void list_cells(struct cpu_run *run, int32_t cloud) {
  VX_EACH_ROW(run->stop, number, 0, run->cells.count) {
    const struct cpu_cell_entry *entry = &run->cells.entries[number];
    int32_t cell[3];
    vx_cell_of_key(run->map.key, entry->key, cell);
    run->filled[run->num_filled++] =
        (struct cpu_filled){.line = line_of(run, cloud, cell[2], cell[1]), .x = cell[0], .points = entry->hits};
  }
}

// Appends the pillars of the cloud's voxels, still without points, and notes the pillar of each voxel.
static void list_pillars(struct cpu_run *run, int32_t cloud) {
  struct vx_key_format format = run->map.key;
  struct cpu_cell_index *index = &run->pillar_index;
  cpu_cell_index_start(index, run->largest_cloud, format.bits - format.z_bits);
  VX_EACH_ROW(run->stop, number, 0, run->cells.count) {
    uint64_t key = run->cells.entries[number].key >> format.z_bits;
    run->pillar_of[number] = cpu_cell_index_add(index, key, cpu_cell_index_home(index, key));
  }
  VX_EACH_ROW(run->stop, pillar, 0, index->count) {
    int32_t cell[3];
    vx_cell_of_key(format, index->entries[pillar].key << format.z_bits, cell);
    int64_t line = (int64_t)cloud * run->grid.cells[1] + cell[1];
    run->pillars[run->num_pillars + pillar] = (struct cpu_pillar){
        .place = line * run->grid.cells[0] + cell[0], .max = -INFINITY, .min = INFINITY, .max_intensity = -INFINITY};
  }
}

static void add_point(struct cpu_pillar *pillar, float height, float intensity) {
  float z = height + 0.0f, finite = vx_is_finite(intensity) ? intensity + 0.0f : -INFINITY;
  pillar->top_intensity = z > pillar->max ? intensity : pillar->top_intensity;
  pillar->max = z > pillar->max ? z : pillar->max;
  pillar->min = z < pillar->min ? z : pillar->min;
  pillar->max_intensity = finite > pillar->max_intensity ? finite : pillar->max_intensity;
  pillar->points++;
}

static void add_points(struct cpu_run *run) {
  struct cpu_pillar *pillars = run->pillars + run->num_pillars;
  bool bright = (run->job->tensors & VX_INTENSITY_MAPS) != 0;
  int32_t intensity = bright ? run->params->intensity : 0;  // any column if no map needs intensities
  VX_EACH_ROW(run->stop, i, 0, run->num_inside) {
    const float *point = run->points + (int64_t)run->inside[i] * run->columns;
    add_point(&pillars[run->pillar_of[run->voxel_of[i]]], point[2], point[intensity]);
  }
}

void cpu_gather_maps(struct cpu_run *run, const struct cpu_cloud *cloud) {
  if ((run->job->tensors & VX_CELL_MAPS) != 0) list_cells(run, cloud->number);
  if ((run->job->tensors & VX_PILLAR_MAPS) != 0) {
    list_pillars(run, cloud->number);
    add_points(run);
    run->num_pillars += run->pillar_index.count;
  }
}

// ---- writing --------------------------------------------------------------------------------------------------------

// Clears a tensor of all clouds with `line_bytes` per line of cells along x.
static void clear(const struct cpu_run *run, int32_t depth, size_t line_bytes, void *out) {
  vx_fill(run->stop, out, 0, (size_t)run->job->num_clouds * (size_t)depth * (size_t)run->grid.cells[1] * line_bytes);
}

void cpu_write_occupancy(const struct cpu_run *run, void *out) {
  uint8_t *cells = out;
  int64_t width = run->grid.cells[0];
  clear(run, run->grid.cells[2], (size_t)width, out);
  VX_EACH_ROW(run->stop, i, 0, run->num_filled) cells[run->filled[i].line * width + run->filled[i].x] = 1;
}

void cpu_write_occupancy_counts(const struct cpu_run *run, void *out) {
  int32_t *cells = out;
  int64_t width = run->grid.cells[0];
  clear(run, run->grid.cells[2], (size_t)width * sizeof *cells, out);
  VX_EACH_ROW(run->stop, i, 0, run->num_filled)
    cells[run->filled[i].line * width + run->filled[i].x] = run->filled[i].points;
}

void cpu_write_occupancy_packed(const struct cpu_run *run, void *out) {
  uint8_t *bytes = out;
  int64_t width = ((int64_t)run->grid.cells[0] + 7) / 8;
  clear(run, run->grid.cells[2], (size_t)width, out);
  VX_EACH_ROW(run->stop, i, 0, run->num_filled) {
    int32_t x = run->filled[i].x;
    bytes[run->filled[i].line * width + x / 8] |= (uint8_t)(1 << x % 8);
  }
}

static inline void write_pillars(const struct cpu_run *run, void *out, float (*value)(const struct cpu_pillar *)) {
  float *cells = out;
  clear(run, 1, (size_t)run->grid.cells[0] * sizeof *cells, out);
  VX_EACH_ROW(run->stop, i, 0, run->num_pillars) cells[run->pillars[i].place] = value(&run->pillars[i]);
}

static float max_height(const struct cpu_pillar *pillar) { return pillar->max; }
static float min_height(const struct cpu_pillar *pillar) { return pillar->min; }
static float top_intensity(const struct cpu_pillar *pillar) { return pillar->top_intensity; }
static float density(const struct cpu_pillar *pillar) { return vx_density(pillar->points); }
static float max_intensity(const struct cpu_pillar *pillar) {
  return pillar->max_intensity > -INFINITY ? pillar->max_intensity : 0.0f;
}

void cpu_write_max_height(const struct cpu_run *run, void *out) { write_pillars(run, out, max_height); }
void cpu_write_min_height(const struct cpu_run *run, void *out) { write_pillars(run, out, min_height); }
void cpu_write_max_intensity(const struct cpu_run *run, void *out) { write_pillars(run, out, max_intensity); }
void cpu_write_top_intensity(const struct cpu_run *run, void *out) { write_pillars(run, out, top_intensity); }
void cpu_write_density(const struct cpu_run *run, void *out) { write_pillars(run, out, density); }

// A scatter job on the CPU (kernels/scatter.h). Runs on the thread that has the lane.
#include "kernels/cpu/scatter/scatter.h"

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/base/cell_index.h"
#include "kernels/ops.h"

struct scatter {
  struct vx_job *job;
  const int32_t *coords;  // [rows, 4]: batch, z, y, x
  int32_t rows;
  int64_t cloud_cells;            // number of cells in the grid of one cloud
  int key_bits;                   // of num_clouds * cloud_cells
  struct cpu_cell_index taken;    // the cells that have a row
  int64_t *cells;                 // [rows]: cloud * cloud_cells + cell; -1 if the row is dropped
  struct cpu_placed *placed;      // [rows]: kept rows, cloud by cloud
  int64_t starts[VX_MAX_CLOUDS];  // where the next row of each cloud goes in `placed`
};

static void lay_out(struct scatter *scatter, struct cpu_arena *arena) {
  uint64_t rows = (uint64_t)scatter->rows;
  struct cpu_cell_index *taken = &scatter->taken;
  taken->table = cpu_arena_take(arena, cpu_cell_index_slots(scatter->rows, scatter->key_bits), sizeof *taken->table);
  taken->entries = cpu_arena_take(arena, rows, sizeof *taken->entries);
  scatter->cells = cpu_arena_take(arena, rows, sizeof *scatter->cells);
  scatter->placed = cpu_arena_take(arena, rows, sizeof *scatter->placed);
}

static enum vx_status prepare(struct scatter *scatter, struct vx_lane *lane, struct error *error) {
  struct cpu_arena measured = {0};
  const struct vx_job *job = scatter->job;
  enum vx_status status = vx_scatter_cells(&job->params.scatter, job->num_clouds, &scatter->cloud_cells, error);
  if (status == VX_OK) {
    scatter->key_bits = 64 - __builtin_clzll((uint64_t)scatter->cloud_cells * (uint64_t)job->num_clouds);
    lay_out(scatter, &measured);
    status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  }
  if (status == VX_OK) {
    lay_out(scatter, &lane->scratch);
    cpu_seed_index(lane, scatter->rows, &scatter->taken);
  }
  return status;
}

// The number of the row's cell; -1 if it is outside.
static int64_t cell_of(const struct scatter *scatter, const int32_t coords[4]) {
  const int32_t *size = scatter->job->params.scatter.grid_size;
  const int32_t limits[4] = {scatter->job->num_clouds, size[2], size[1], size[0]};
  int64_t cell = 0;
  bool inside = true;
  for (int i = 0; i < 4; i++) {
    inside = inside && coords[i] >= 0 && coords[i] < limits[i];
    cell = inside ? cell * limits[i] + coords[i] : -1;
  }
  return cell;
}

static void judge(struct scatter *scatter) {
  struct vx_counts *counts = &scatter->job->counts;
  struct cpu_cell_index *taken = &scatter->taken;
  cpu_cell_index_start(taken, scatter->rows, scatter->key_bits);
  VX_EACH_ROW(scatter->job->stop, row, 0, scatter->rows) {
    int64_t cell = cell_of(scatter, scatter->coords + 4 * row);
    if (cell < 0) {
      counts->out_of_range++;
    } else {
      uint64_t key = (uint64_t)cell;
      int32_t number = cpu_cell_index_add(taken, key, cpu_cell_index_home(taken, key));
      if (taken->entries[number].hits > 1) {
        counts->duplicate++;
        cell = -1;
      } else {
        counts->kept++;
        scatter->job->row_counts[scatter->coords[4 * row]]++;
      }
    }
    scatter->cells[row] = cell;
  }
}

// The input may have the clouds in any order.
static void place(struct scatter *scatter) {
  const int32_t *kept = scatter->job->row_counts;
  int64_t *starts = scatter->starts;
  starts[0] = 0;
  for (int32_t cloud = 1; cloud < scatter->job->num_clouds; cloud++)
    starts[cloud] = starts[cloud - 1] + kept[cloud - 1];
  VX_EACH_ROW(scatter->job->stop, row, 0, scatter->rows) {
    if (scatter->cells[row] >= 0) {
      int32_t cloud = scatter->coords[4 * row];
      scatter->placed[starts[cloud]++] =
          (struct cpu_placed){.cell = scatter->cells[row] - cloud * scatter->cloud_cells, .row = (int32_t)row};
    }
  }
}

static enum vx_status write_output(const struct scatter *scatter, struct error *error) {
  struct vx_job *job = scatter->job;
  const struct vx_input *features = &job->inputs[VX_FEATURES];
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(job, &layout, &output, error);
  if (status != VX_OK) return status;
  const struct vx_shape *shape = &layout.shape[VX_BEV_FEATURES];
  size_t cloud_bytes = shape->bytes / (size_t)job->num_clouds;
  unsigned char *map = (unsigned char *)output + layout.offset[VX_BEV_FEATURES];
  struct cpu_planes planes = {features->data, features->dtype, features->dims[1], scatter->cloud_cells};
  const struct cpu_placed *placed = scatter->placed;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++, map += cloud_bytes) {
    cpu_write_planes(&planes, job->stop, placed, job->row_counts[cloud], map);
    placed += job->row_counts[cloud];
  }
  return vx_stop_status(job->stop, error);
}

enum vx_status cpu_scatter(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct scatter scatter = {.job = job, .coords = job->inputs[VX_COORDS].data, .rows = (int32_t)job->counts.received};
  int64_t began = clock_ns();
  enum vx_status status = prepare(&scatter, lane, error);
  if (status != VX_OK) return status;
  judge(&scatter);
  place(&scatter);
  status = vx_stop_status(job->stop, error);
  if (status == VX_OK && job->tensors != 0) status = write_output(&scatter, error);
  job->stage_ns[VX_STAGE_SCATTER] = clock_ns() - began;
  return status;
}

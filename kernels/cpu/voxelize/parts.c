// The scratch of a job, and the parts of the run that its tasks see.
#include "kernels/cpu/voxelize/voxelize.h"

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/encode/encode.h"

// ---- scratch --------------------------------------------------------------------------------------------------------

static void take_index(struct cpu_cell_index *index, struct cpu_arena *arena, int64_t most, int key_bits) {
  index->table = cpu_arena_take(arena, cpu_cell_index_slots(most, key_bits), sizeof *index->table);
  index->entries = cpu_arena_take(arena, (uint64_t)most, sizeof *index->entries);
}

static void lay_out_choice(struct cpu_run *run, struct cpu_arena *arena) {
  const struct vx_choice *choice = &run->params->choice;
  uint64_t most = (uint64_t)run->largest_cloud;
  if (choice->voxels_by != VX_VOXELS_FIRST) {
    run->voxel_ranks = cpu_arena_take(arena, most, sizeof *run->voxel_ranks);
    run->new_numbers = cpu_arena_take(arena, most, sizeof *run->new_numbers);
    run->other_entries = cpu_arena_take(arena, most, sizeof *run->other_entries);
  }
  if (choice->points_by != VX_POINTS_FIRST) run->dropped = cpu_arena_take(arena, most, sizeof *run->dropped);
}

static void lay_out_cloud(struct cpu_run *run, struct cpu_arena *arena) {
  bool filtered = run->params->block_filter.enabled;
  bool ordered = run->params->order == VX_ORDER_KEY;
  uint64_t rows = (uint64_t)run->largest_rows;
  take_index(&run->cells, arena, run->largest_cloud, run->map.key.bits);
  run->inside = cpu_arena_take(arena, (uint64_t)run->largest_cloud, sizeof *run->inside);
  run->voxel_of = cpu_arena_take(arena, (uint64_t)run->largest_cloud, sizeof *run->voxel_of);
  lay_out_choice(run, arena);
  if (run->lists_wanted) run->next = cpu_arena_take(arena, rows + 1, sizeof *run->next);
  if (run->ids_wanted || (run->sectioned && filtered)) run->row_of = cpu_arena_take(arena, rows, sizeof *run->row_of);
  if (ordered || filtered) run->sorting = cpu_arena_take(arena, 2 * rows, sizeof *run->sorting);
  if (ordered) run->rows_in_order = cpu_arena_take(arena, rows, sizeof *run->rows_in_order);
  if (filtered) {
    take_index(&run->blocks, arena, run->largest_rows, run->block_key.bits);
    run->block_of = cpu_arena_take(arena, rows, sizeof *run->block_of);
    run->block_stays = cpu_arena_take(arena, rows, sizeof *run->block_stays);
    run->heights = cpu_arena_take(arena, rows, sizeof *run->heights);
    for (int k = 0; k < CPU_STRETCHES; k++)
      run->stretch_heights[k] = cpu_arena_take(arena, rows, sizeof *run->stretch_heights[k]);
  }
  if ((run->job->tensors & VX_TENSOR_BIT(VX_BEV_FEATURES)) != 0)
    run->placed = cpu_arena_take(arena, rows, sizeof *run->placed);
  if ((run->job->tensors & VX_PILLAR_MAPS) != 0) {
    take_index(&run->pillar_index, arena, run->largest_cloud, run->map.key.bits - run->map.key.z_bits);
    run->pillar_of = cpu_arena_take(arena, (uint64_t)run->largest_cloud, sizeof *run->pillar_of);
  }
}

static void lay_out_pillar(struct cpu_run *run, struct cpu_arena *arena) {
  if (run->encoded_values != 0) {
    uint64_t points = (uint64_t)(run->cap < run->largest_cloud ? run->cap : run->largest_cloud) + 1;
    uint64_t room = (uint64_t)cpu_encode_room(&run->params->encoder);
    for (int i = 0; i < 2; i++) run->pillar_rows[i] = cpu_arena_take(arena, points * room, sizeof(float));
    run->encoded = cpu_arena_take(arena, (uint64_t)run->encoded_values, sizeof *run->encoded);
  }
}

static void lay_out_part(struct cpu_run *run, bool cloud, struct cpu_arena *arena) {
  if (cloud) lay_out_cloud(run, arena);
  lay_out_pillar(run, arena);
}

void cpu_parts_lay_out(struct cpu_run *run, struct cpu_arena *arena) {
  uint64_t points = (uint64_t)run->num_points, rows = (uint64_t)run->row_capacity;
  lay_out_part(run, true, arena);
  run->grouped = cpu_arena_take(arena, (uint64_t)run->job->num_clouds, sizeof *run->grouped);
  if (run->ids_wanted) run->point_ids = cpu_arena_take(arena, points, sizeof *run->point_ids);
  run->rows = cpu_arena_take(arena, rows, sizeof *run->rows);
  if (run->lists_wanted) run->list = cpu_arena_take(arena, points, sizeof *run->list);
  if (vx_is_narrow(run->lane->points.dtype))
    run->widened = cpu_arena_take(arena, points * (uint64_t)run->columns, sizeof *run->widened);
  if (run->sampling) {
    run->means = cpu_arena_take(arena, rows * (uint64_t)run->columns, sizeof *run->means);
    cpu_fps_lay_out(&run->fps, arena, run->job, run->largest_rows);
  }
  if (cpu_run_hides_features(run)) run->features = cpu_arena_take(arena, rows, cpu_run_feature_bytes(run));
  if ((run->job->tensors & VX_CELL_MAPS) != 0) run->filled = cpu_arena_take(arena, points, sizeof *run->filled);
  if ((run->job->tensors & VX_PILLAR_MAPS) != 0) run->pillars = cpu_arena_take(arena, points, sizeof *run->pillars);
  if (run->cut.count > 0) cpu_segments_lay_out(run, arena);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

enum vx_status cpu_parts_take(const struct cpu_run *run, const struct vx_worker *worker, bool cloud,
                              struct cpu_run *part, struct error *error) {
  struct cpu_arena measured = {0};
  enum vx_status status = VX_OK;
  *part = *run;
  part->stop = worker->stop;
  if (worker->lane != run->lane) {
    lay_out_part(part, cloud, &measured);
    status = cpu_reserve_for_help(worker, &measured, error);
  }
  if (status == VX_OK && worker->lane != run->lane) lay_out_part(part, cloud, &worker->lane->scratch);
  struct cpu_cell_index *indexes[] = {&part->cells, &part->blocks, &part->pillar_index};
  for (int i = 0; i < 3; i++) cpu_seed_index(worker->lane, part->largest_cloud, indexes[i]);
  return status;
}

void cpu_parts_place(struct cpu_run *run) {
  int32_t begin = 0, place = 0;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t points = run->job->point_counts[cloud];
    run->grouped[cloud] = (struct cpu_grouped){.begin = begin, .place = place};
    begin += points;
    place += points < run->params->max_voxels ? points : run->params->max_voxels;
  }
}

// Moves `more` items at `place` to directly after the first `count`. Returns the new count.
static int32_t move(void *items, size_t size, int32_t count, int32_t place, int32_t more) {
  unsigned char *bytes = items;
  if (count != place && more > 0)
    memmove(bytes + (size_t)count * size, bytes + (size_t)place * size, (size_t)more * size);
  return count + more;
}

// In the cloud's point_ids, replaces positions in run.rows by rows of the output.
static void rename_points(const struct cpu_run *run, const struct cpu_grouped *grouped, int32_t points) {
  int32_t *ids = run->point_ids + grouped->begin, shift = grouped->place - grouped->first_row;
  VX_EACH_ROW(run->stop, i, 0, shift == 0 ? 0 : points) ids[i] -= ids[i] < 0 ? 0 : shift;
}

void cpu_parts_gather(struct cpu_run *run) {
  struct vx_job *job = run->job;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    struct cpu_grouped *grouped = &run->grouped[cloud];
    int32_t begin = grouped->begin;
    grouped->first_row = run->num_rows;
    run->num_rows += grouped->num_rows;
    run->num_filled = move(run->filled, sizeof *run->filled, run->num_filled, begin, grouped->num_filled);
    run->num_pillars = move(run->pillars, sizeof *run->pillars, run->num_pillars, begin, grouped->num_pillars);
    if (run->ids_wanted) rename_points(run, grouped, job->point_counts[cloud]);
    cpu_add_counts(&job->counts, &grouped->counts);
    job->row_counts[cloud] = grouped->num_rows;
  }
}

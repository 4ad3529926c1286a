// A lone cloud, looked up by several workers. Each step needs all results of the step before.
//
// 1. Look up: a segment has its own index. Its voxels are partitioned into buckets by the hash of their keys.
// 2. Merge: a bucket has its own index, to which it adds the voxels of all segments, in order. A voxel is new in the
//    first segment that has it.
// 3. Number: a voxel's number is the count of new voxels before it. Segments make the rows of their new voxels. If
//    max_voxels does not keep the first voxels, one worker chooses voxels and makes the rows (choose.c).
// 4. Pack: the segments' lists of points in range become one list, with the number of each point's voxel.
// 5. List: a segment knows how many points of a voxel are in earlier segments, and so where its own points go.
#include "kernels/cpu/voxelize/voxelize.h"

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/voxelize/locate.h"
#include "kernels/parallel_for.h"

enum {
  SEGMENT_POINTS = 8192,  // fewest points of a segment: to start a helper takes as long as some thousand points
  MOST_SEGMENTS = 32,
};

int32_t cpu_segments_wanted(const struct cpu_run *run) {
  int32_t most = run->num_points / SEGMENT_POINTS;
  if (run->job->num_clouds != 1 || most < 2) return 0;
  int32_t workers = run->job->helpers + 1, wanted = workers < MOST_SEGMENTS / 2 ? 2 * workers : MOST_SEGMENTS;
  return workers < 2 ? 0 : wanted < most ? wanted : most;
}

void cpu_segments_lay_out(struct cpu_run *run, struct cpu_arena *arena) {
  struct cpu_cut *cut = &run->cut;
  uint64_t count = (uint64_t)cut->count, points = (uint64_t)run->num_points;
  cut->segments = cpu_arena_take(arena, count, sizeof *cut->segments);
  cut->bucketed = cpu_arena_take(arena, points, sizeof *cut->bucketed);
  cut->buckets = cpu_arena_take(arena, count * count, sizeof *cut->buckets);
  cut->bucketed_at = cpu_arena_take(arena, points, sizeof *cut->bucketed_at);
  cut->next = cpu_arena_take(arena, points, sizeof *cut->next);
  cut->inside = cpu_arena_take(arena, points, sizeof *cut->inside);
  cut->seen_of = cpu_arena_take(arena, points, sizeof *cut->seen_of);
}

// ---- the tools of a worker ------------------------------------------------------------------------------------------

struct tools {
  struct cpu_cell_index index;
  int32_t *places;  // [num_points]: the place in `bucketed` where each voxel of the index is new
};

// The run's own worker uses the current cloud's arrays, which are filled only after the merge. There is room for all
// voxels of the cloud, since one bucket may get all.
static enum vx_status take_tools(const struct cpu_run *run, const struct vx_worker *worker, struct tools *tools,
                                 struct error *error) {
  uint64_t slots = cpu_cell_index_slots(run->num_points, run->map.key.bits), most = (uint64_t)run->num_points;
  struct cpu_arena measured = {0}, *arena = &measured;
  *tools = (struct tools){run->cells, run->voxel_of};
  for (int pass = 0; worker->lane != run->lane && pass < 2; pass++) {
    tools->index.table = cpu_arena_take(arena, slots, sizeof *tools->index.table);
    tools->index.entries = cpu_arena_take(arena, most, sizeof *tools->index.entries);
    tools->places = cpu_arena_take(arena, most, sizeof *tools->places);
    if (pass == 0) {
      enum vx_status status = cpu_reserve_for_help(worker, &measured, error);
      if (status != VX_OK) return status;
      arena = &worker->lane->scratch;
    }
  }
  cpu_seed_index(worker->lane, run->num_points, &tools->index);
  return VX_OK;
}

// ---- look up --------------------------------------------------------------------------------------------------------

// Unlike the index's hash: without seed[0], and from bits 32 to 63 of the product alone.
static int32_t bucket_of(const struct cpu_run *run, uint64_t key) {
  return (int32_t)(((key * (run->lane->seed[1] | 1) >> 32) * (uint64_t)run->cut.count) >> 32);
}

static struct cpu_bucket *buckets_of(const struct cpu_cut *cut, int32_t segment) {
  return cut->buckets + (ptrdiff_t)segment * cut->count;
}

// Lists the segment's voxels bucket by bucket, each bucket in the order of appearance.
static void partition(const struct cpu_run *run, struct vx_stop *stop, int32_t number,
                      const struct cpu_cell_entry *seen) {
  const struct cpu_cut *cut = &run->cut;
  const struct cpu_segment *segment = &cut->segments[number];
  struct cpu_bucket *buckets = buckets_of(cut, number);
  int32_t next[MOST_SEGMENTS] = {0}, sum = segment->begin;
  VX_EACH_ROW(stop, i, 0, segment->num_seen) next[bucket_of(run, seen[i].key)]++;
  for (int32_t bucket = 0; bucket < cut->count; bucket++) {
    int32_t count = next[bucket];
    next[bucket] = sum;
    buckets[bucket].end = sum += count;
  }
  VX_EACH_ROW(stop, i, 0, segment->num_seen) {
    int32_t place = next[bucket_of(run, seen[i].key)]++;
    cut->bucketed[place] = (struct cpu_bucketed){.key = seen[i].key, .hits = seen[i].hits};
    cut->bucketed_at[segment->begin + i] = place;
  }
}

static enum vx_status look_up_segment(void *ctx, const struct vx_worker *worker, int32_t number, struct error *error) {
  const struct cpu_run *run = ctx;
  const struct cpu_cut *cut = &run->cut;
  struct cpu_segment *segment = &cut->segments[number];
  struct tools tools;
  enum vx_status status = take_tools(run, worker, &tools, error);
  if (status != VX_OK) return status;
  struct cpu_lookup lookup = {
      .index = tools.index, .inside = cut->inside + segment->begin, .voxel_of = cut->seen_of + segment->begin};
  cpu_cell_index_start(&lookup.index, segment->end - segment->begin, run->map.key.bits);
  cpu_look_up_points(run, worker->stop, segment->begin, segment->end, &lookup);
  segment->num_inside = lookup.num_inside;
  segment->not_finite = lookup.not_finite;
  segment->num_seen = lookup.index.count;
  partition(run, worker->stop, number, lookup.index.entries);
  return vx_stop_status(worker->stop, error);
}

// ---- merge ----------------------------------------------------------------------------------------------------------

static void find_homes(const struct cpu_cell_index *index, const struct cpu_bucketed *bucketed, int32_t count,
                       uint32_t *home) {
  for (int32_t i = 0; i < count; i++) {
    home[i] = cpu_cell_index_home(index, bucketed[i].key);
    __builtin_prefetch(&index->table[home[i]]);
  }
}

// Adds `count` voxels from `place` on, at most CPU_CHUNK.
static void merge(const struct cpu_cut *cut, int32_t place, int32_t count, struct tools *tools) {
  struct cpu_cell_index index = tools->index;
  uint32_t home[CPU_CHUNK];
  find_homes(&index, cut->bucketed + place, count, home);
  for (int32_t i = 0; i < count; i++) {
    struct cpu_bucketed *bucketed = &cut->bucketed[place + i];
    int32_t known = index.count, voxel = cpu_cell_index_add(&index, bucketed->key, home[i]);
    if (voxel == known) tools->places[voxel] = place + i;
    bucketed->before = index.entries[voxel].hits - 1;
    index.entries[voxel].hits += bucketed->hits - 1;
    bucketed->same_as = tools->places[voxel];
  }
  tools->index.count = index.count;
}

// Sets the hits of voxels `first` to `end` - 1 of the index, in the segment where they are new. Returns their sum.
static int32_t sum_up(const struct cpu_cut *cut, const struct tools *tools, int32_t first, int32_t end) {
  int32_t sum = 0;
  for (int32_t voxel = first; voxel < end; voxel++) {
    int32_t hits = tools->index.entries[voxel].hits;  // in all segments
    cut->bucketed[tools->places[voxel]].hits = hits;
    sum += hits;
  }
  return sum;
}

static enum vx_status merge_bucket(void *ctx, const struct vx_worker *worker, int32_t bucket, struct error *error) {
  const struct cpu_run *run = ctx;
  const struct cpu_cut *cut = &run->cut;
  struct tools tools;
  enum vx_status status = take_tools(run, worker, &tools, error);
  if (status != VX_OK) return status;
  cpu_cell_index_start(&tools.index, run->num_points, run->map.key.bits);
  for (int32_t number = 0; number < cut->count; number++) {
    struct cpu_bucket *part = buckets_of(cut, number) + bucket;
    int32_t begin = bucket == 0 ? cut->segments[number].begin : part[-1].end, known = tools.index.count;
    for (int32_t place = begin; place < part->end && !vx_stopped(worker->stop, CPU_CHUNK); place += CPU_CHUNK)
      merge(cut, place, cpu_smaller(CPU_CHUNK, part->end - place), &tools);
    part->num_new = tools.index.count - known;
  }
  if (worker->stop->has_stopped) return vx_stop_status(worker->stop, error);
  for (int32_t number = 0, first = 0; number < cut->count; number++) {
    struct cpu_bucket *part = buckets_of(cut, number) + bucket;
    part->num_points = sum_up(cut, &tools, first, first + part->num_new);
    first += part->num_new;
  }
  return VX_OK;
}

// ---- number, pack ---------------------------------------------------------------------------------------------------

struct numbering {
  const struct cpu_run *run;
  const struct cpu_cloud *cloud;
};

static enum vx_status number_segment(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct numbering *numbering = ctx;
  const struct cpu_run *run = numbering->run;
  const struct cpu_cut *cut = &run->cut;
  struct cpu_segment *segment = &cut->segments[task];
  int32_t number = segment->first_number;
  int64_t seen = segment->begin + segment->num_seen;
  VX_EACH_ROW(worker->stop, i, segment->begin, seen) {
    struct cpu_bucketed *bucketed = &cut->bucketed[cut->bucketed_at[i]];
    if (bucketed->same_as == cut->bucketed_at[i]) {
      run->cells.entries[number] = (struct cpu_cell_entry){.key = bucketed->key, .hits = bucketed->hits};
      bucketed->number = number++;
    }
  }
  const struct cpu_stretch stretch = {segment->first_number, number, segment->first_listed};
  if (!run->new_numbers) cpu_make_rows_of(run, worker->stop, numbering->cloud, &stretch, &segment->counts);
  return vx_stop_status(worker->stop, error);
}

// The number in the cloud of the voxel at `place` in `bucketed`.
static int32_t number_of(const struct cpu_run *run, int32_t place) {
  const struct cpu_bucketed *bucketed = run->cut.bucketed;
  int32_t number = bucketed[bucketed[place].same_as].number;
  return run->new_numbers ? run->new_numbers[number] : number;
}

static enum vx_status pack_segment(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct cpu_run *run = ctx;
  const struct cpu_cut *cut = &run->cut;
  const struct cpu_segment *segment = &cut->segments[task];
  const int32_t *inside = cut->inside + segment->begin, *seen_of = cut->seen_of + segment->begin;
  const int32_t *bucketed_at = cut->bucketed_at + segment->begin;
  VX_EACH_ROW(worker->stop, i, 0, segment->num_inside) {
    run->inside[segment->first_inside + i] = inside[i];
    run->voxel_of[segment->first_inside + i] = number_of(run, bucketed_at[seen_of[i]]);
  }
  return vx_stop_status(worker->stop, error);
}

// ---- list -----------------------------------------------------------------------------------------------------------

struct listing {
  const struct cpu_run *run;
  const struct cpu_row *rows;  // of the cloud
  int32_t num_rows;
};

// Finds where the next point of each of the segment's voxels goes; -1 if the voxel has no row.
static int32_t *find_places(const struct listing *listing, struct vx_stop *stop, const struct cpu_segment *segment) {
  const struct cpu_cut *cut = &listing->run->cut;
  int32_t *next = cut->next + segment->begin;
  const int32_t *bucketed_at = cut->bucketed_at + segment->begin;
  VX_EACH_ROW(stop, i, 0, segment->num_seen) {
    int32_t number = number_of(listing->run, bucketed_at[i]), before = cut->bucketed[bucketed_at[i]].before;
    next[i] = number < listing->num_rows ? listing->rows[number].first + before : -1;
  }
  return next;
}

static enum vx_status list_segment(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct listing *listing = ctx;
  const struct cpu_cut *cut = &listing->run->cut;
  const struct cpu_segment *segment = &cut->segments[task];
  const int32_t *inside = cut->inside + segment->begin, *seen_of = cut->seen_of + segment->begin;
  int32_t *next = find_places(listing, worker->stop, segment);
  VX_EACH_ROW(worker->stop, i, 0, segment->num_inside)
    if (next[seen_of[i]] >= 0) listing->run->list[next[seen_of[i]]++] = inside[i];
  return vx_stop_status(worker->stop, error);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

static void begin_segments(const struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct cpu_cut *cut = &run->cut;
  int64_t points = cloud->end - cloud->begin;
  for (int32_t i = 0; i < cut->count; i++) {
    cut->segments[i].begin = cloud->begin + (int32_t)(points * i / cut->count);
    cut->segments[i].end = cloud->begin + (int32_t)(points * (i + 1) / cut->count);
  }
}

// Sets where the results of each segment go, and adds up the counts.
static void place_segments(struct cpu_run *run, const struct cpu_cloud *cloud) {
  const struct cpu_cut *cut = &run->cut;
  struct vx_counts *counts = &run->job->counts;
  int32_t inside = 0, not_finite = 0, number = 0, listed = run->num_listed;
  for (int32_t i = 0; i < cut->count; i++) {
    struct cpu_segment *segment = &cut->segments[i];
    segment->first_inside = inside;
    segment->first_number = number;
    segment->first_listed = listed;
    inside += segment->num_inside;
    not_finite += segment->not_finite;
    for (int32_t bucket = 0; bucket < cut->count; bucket++) {
      number += buckets_of(cut, i)[bucket].num_new;
      listed += buckets_of(cut, i)[bucket].num_points;
    }
  }
  run->cells.count = number;
  run->num_inside = inside;
  counts->not_finite += not_finite;
  counts->out_of_range += cloud->end - cloud->begin - inside - not_finite;
}

typedef enum vx_status step(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error);

static enum vx_status parallel_for(const struct cpu_run *run, step *step, void *ctx, struct error *error) {
  const struct vx_tasks tasks = {run->cut.count, step, ctx};
  return vx_parallel_for(run->job, run->lane, &tasks, error);
}

static bool is_packed(const struct cpu_run *run) {
  return run->ids_wanted || run->sectioned || (run->job->tensors & VX_PILLAR_MAPS) != 0;
}

enum vx_status cpu_index_segments(struct cpu_run *run, const struct cpu_cloud *cloud, struct error *error) {
  struct numbering numbering = {run, cloud};
  begin_segments(run, cloud);
  enum vx_status status = parallel_for(run, look_up_segment, run, error);
  if (status == VX_OK) status = parallel_for(run, merge_bucket, run, error);
  if (status == VX_OK) {
    place_segments(run, cloud);
    status = parallel_for(run, number_segment, &numbering, error);
  }
  if (status == VX_OK && run->new_numbers) {
    cpu_choose_voxels(run);
    cpu_make_rows(run, cloud);
    status = vx_stop_status(run->stop, error);
  }
  for (int32_t i = 0; i < run->cut.count && status == VX_OK && !run->new_numbers; i++)
    cpu_add_rows(run, &run->cut.segments[i].counts);
  return status == VX_OK && is_packed(run) ? parallel_for(run, pack_segment, run, error) : status;
}

enum vx_status cpu_list_segments(struct cpu_run *run, const struct cpu_cloud *cloud, struct error *error) {
  struct listing listing = {run, run->rows + cloud->first_row, run->num_rows - cloud->first_row};
  return parallel_for(run, list_segment, &listing, error);
}

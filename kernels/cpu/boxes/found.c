// Shared by both decoders; see boxes.h.
#include "kernels/cpu/boxes/boxes.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/exact.h"
#include "kernels/ops.h"
#include "kernels/rank.h"

const float *cpu_map_values(const struct vx_input *map, int64_t first, int32_t count, float *widened) {
  if (!vx_is_narrow(map->dtype)) return (const float *)map->data + first;
  vx_widen(map->dtype, map->data, first, count, widened);
  return widened;
}

bool cpu_any_reaches(const float *logits, int32_t count, float least) {
  int reaches = 0;
  for (int32_t i = 0; i < count; i++) reaches |= logits[i] >= least;
  return reaches != 0;
}

// ---- candidates -----------------------------------------------------------------------------------------------------

void cpu_listing_lay_out(struct cpu_listing *listing, uint64_t most, struct cpu_arena *arena) {
  listing->unsorted = cpu_arena_take(arena, most, sizeof *listing->unsorted);
  listing->listed = cpu_arena_take(arena, most, sizeof *listing->listed);
  listing->keys = cpu_arena_take(arena, most, sizeof *listing->keys);
  listing->spare = cpu_arena_take(arena, most, sizeof *listing->spare);
}

void cpu_listing_clear(struct cpu_listing *listing) {
  listing->count = 0;
  memset(listing->ends, 0, sizeof listing->ends);
}

void cpu_listing_sort(struct cpu_listing *listing) {
  int32_t next[VX_MAX_CLASSES + 1], *ends = listing->ends;
  VX_EACH_ROW(listing->stop, i, 0, listing->count) ends[listing->bucket_of[listing->unsorted[i].label] + 1]++;
  for (int32_t bucket = 0; bucket < listing->buckets; bucket++) ends[bucket + 1] += ends[bucket];
  memcpy(next, ends, sizeof next);
  VX_EACH_ROW(listing->stop, i, 0, listing->count) {
    const struct cpu_candidate *candidate = &listing->unsorted[i];
    listing->listed[next[listing->bucket_of[candidate->label]]++] = *candidate;
  }
}

const struct cpu_keyed *cpu_listing_rank(struct cpu_listing *listing, int32_t begin, int32_t end) {
  int32_t count = end - begin;
  VX_EACH_ROW(listing->stop, i, 0, count)
    listing->keys[i] = (struct cpu_keyed){vx_rank_key(listing->listed[begin + i].logit), (int32_t)(begin + i)};
  return cpu_sort(listing->stop, listing->keys, listing->spare, count, 32);
}

const struct cpu_keyed *cpu_listing_unrank(struct cpu_listing *listing, const struct cpu_keyed *ranked, int32_t count) {
  bool in_keys = ranked == listing->keys;
  struct cpu_keyed *keys = in_keys ? listing->keys : listing->spare;
  VX_EACH_ROW(listing->stop, i, 0, count) keys[i].key = (uint64_t)keys[i].number;
  return cpu_sort(listing->stop, keys, in_keys ? listing->spare : listing->keys, count, 32);
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

void cpu_found_lay_out(struct cpu_found *found, uint64_t most, uint64_t chosen, struct cpu_arena *arena) {
  const struct vx_nms *nms = found->suppressor.params;
  uint64_t post_max = (uint64_t)nms->post_max;
  cpu_suppressor_lay_out(&found->suppressor, (int32_t)most, arena);
  found->candidates = cpu_arena_take(arena, most, sizeof *found->candidates);
  found->boxes = cpu_arena_take(arena, most, sizeof *found->boxes);
  found->velocities = cpu_arena_take(arena, found->values > VX_BOX_VALUES ? most : 0, sizeof *found->velocities);
  found->labels = cpu_arena_take(arena, most, sizeof *found->labels);
  found->kept = cpu_arena_take(arena, most < post_max ? most : post_max, sizeof *found->kept);
  found->chosen = cpu_arena_take(arena, chosen, sizeof *found->chosen);
  found->chosen_boxes = cpu_arena_take(arena, chosen * (uint64_t)found->values, sizeof *found->chosen_boxes);
  found->suppressor.boxes = (const float *)found->boxes;
  found->suppressor.labels = nms->class_agnostic ? NULL : found->labels;
}

void cpu_found_add(struct cpu_found *found, const struct cpu_candidate *candidate, const float *box) {
  int32_t number = found->count++;
  found->suppressor.ranked[number] = (struct cpu_keyed){vx_rank_key(candidate->logit), number};
  found->candidates[number] = *candidate;
  found->labels[number] = candidate->label;
  memcpy(found->boxes[number], box, sizeof *found->boxes);
  if (found->values > VX_BOX_VALUES) memcpy(found->velocities[number], box + VX_BOX_VALUES, sizeof *found->velocities);
}

static void choose(struct cpu_found *found, int32_t number) {
  float *box = found->chosen_boxes + found->num_chosen * found->values;
  memcpy(box, found->boxes[number], sizeof *found->boxes);
  if (found->values > VX_BOX_VALUES) memcpy(box + VX_BOX_VALUES, found->velocities[number], sizeof *found->velocities);
  found->chosen[found->num_chosen++] = found->candidates[number];
}

enum vx_status cpu_found_suppress(struct cpu_found *found, int32_t cloud, int64_t began, struct error *error) {
  struct vx_job *job = found->job;
  int64_t decoded = clock_ns();
  int32_t kept = cpu_suppress(&found->suppressor, found->count, found->kept, &job->counts);
  found->count = 0;
  for (int32_t i = 0; i < kept; i++) choose(found, found->kept[i]);
  job->row_counts[cloud] += kept;
  job->stage_ns[VX_STAGE_DECODE] += decoded - began;
  job->stage_ns[VX_STAGE_NMS] += clock_ns() - decoded;
  return vx_stop_status(job->stop, error);
}

static void write_tensors(const struct cpu_found *found, const struct vx_layout *layout, unsigned char *output) {
  void *at[VX_TENSOR_COUNT];
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    at[tensor] = (layout->tensors & VX_TENSOR_BIT(tensor)) != 0 ? output + layout->offset[tensor] : NULL;
  float *scores = at[VX_DECODED_SCORES];
  int32_t *labels = at[VX_DECODED_LABELS], *indices = at[VX_BOX_INDICES];
  if (at[VX_DECODED_BOXES]) memcpy(at[VX_DECODED_BOXES], found->chosen_boxes, layout->shape[VX_DECODED_BOXES].bytes);
  if (at[VX_BOX_COUNTS]) memcpy(at[VX_BOX_COUNTS], found->job->row_counts, layout->shape[VX_BOX_COUNTS].bytes);
  VX_EACH_ROW(found->job->stop, i, 0, found->num_chosen) {
    if (scores) scores[i] = found->rectified ? found->chosen[i].logit : vx_sigmoid(found->chosen[i].logit);
    if (labels) labels[i] = found->chosen[i].label;
    if (indices) indices[i] = found->chosen[i].index;
  }
}

enum vx_status cpu_found_write(const struct cpu_found *found, struct error *error) {
  struct vx_layout layout;
  void *output = NULL;
  if (found->job->tensors == 0) return VX_OK;
  enum vx_status status = vx_take_output(found->job, &layout, &output, error);
  if (status == VX_OK && layout.bytes > 0) {
    write_tensors(found, &layout, output);
    status = vx_stop_status(found->job->stop, error);
  }
  return status;
}

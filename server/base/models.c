// Counting by model; see models.h.
#include "server/base/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"

static void add(atomic_uint_fast64_t *counter, int64_t amount) {
  atomic_fetch_add_explicit(counter, (uint64_t)amount, memory_order_relaxed);
}

// Looks from `from` to `to`, which may be NULL: the end.
static struct model_counts *look(struct model_counts *from, const struct model_counts *to, const char *name) {
  while (from != to && strcmp(from->name, name) != 0) from = from->next;
  return from == to ? NULL : from;
}

const struct model_counts *models_find(const struct models *models, const char *name) {
  return look(atomic_load(&models->first), NULL, name);
}

// Finds the counts or puts new ones in front. If others were put there meanwhile, it looks through those.
static struct model_counts *take(struct models *models, const char *name) {
  struct model_counts *first = atomic_load(&models->first), *found = look(first, NULL, name);
  if (found) return found;
  struct model_counts *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  snprintf(made->name, sizeof made->name, "%s", name);
  made->next = first;
  while (!found && !atomic_compare_exchange_weak(&models->first, &first, made)) {
    found = look(first, made->next, name);
    made->next = first;
  }
  if (!found) return made;
  free(made);
  return found;
}

static enum model_part part_of(int timing) {
  switch (timing) {
    case TIMING_QUEUE: return MODEL_QUEUE;
    case TIMING_STAGES + VX_STAGE_COPY_IN: return MODEL_COMPUTE_INPUT;
    case TIMING_STAGES + VX_STAGE_COPY_OUT: return MODEL_COMPUTE_OUTPUT;
    default: return MODEL_COMPUTE_INFER;
  }
}

static void add_parts(struct model_counts *counts, const struct answer *answer) {
  for (int timing = TIMING_QUEUE; timing < TIMING_TOTAL; timing++)
    if (answer_has_timing(answer, timing)) add(&counts->part_ns[part_of(timing)], answer_timing_ns(answer, timing));
  add(&counts->part_ns[MODEL_COMPUTE_OUTPUT], answer->encode_ns);
}

void models_count(struct models *models, const char *name, const struct answer *answer, int64_t ns) {
  struct model_counts *counts = take(models, name);
  if (!counts) return;
  add(answer ? &counts->succeeded : &counts->failed, 1);
  add(answer ? &counts->succeeded_ns : &counts->failed_ns, ns);
  if (answer) add_parts(counts, answer);
  atomic_store_explicit(&counts->last_unix_ms, (uint64_t)(clock_wall_ns() / NS_PER_MS), memory_order_relaxed);
}

void models_free(struct models *models) {
  struct model_counts *counts = atomic_exchange(&models->first, NULL);
  while (counts) {
    struct model_counts *next = counts->next;
    free(counts);
    counts = next;
  }
}

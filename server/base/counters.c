// See counters.h.
#include "server/base/counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/base.h"

// From 20 us, a short stage on a GPU, to 30 s, the default max_timeout_ms.
const double histogram_bounds[HISTOGRAM_BUCKETS] = {0.00002, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                                    0.005,   0.01,    0.025,  0.05,    0.1,    0.25,  0.5,
                                                    1,       2.5,     5,      10,      30};
static const char *const abort_names[ABORT_STAGES] = {"upload", "queue", "run", "send"};
const int unparsed_codes[UNPARSED_CODES] = {400, 413, 414, 431, 505, 0};  // 0: others

// ---- counting -------------------------------------------------------------------------------------------------------

static void add(atomic_uint_fast64_t *counter, int64_t amount) {
  atomic_fetch_add_explicit(counter, (uint64_t)amount, memory_order_relaxed);
}

unsigned long long counter_value(const atomic_uint_fast64_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void observe(struct histogram *histogram, int64_t ns) {
  int bucket = 0;
  while (bucket < HISTOGRAM_BUCKETS && (double)ns > histogram_bounds[bucket] * 1e9) bucket++;
  add(&histogram->bucket[bucket], 1);
  add(&histogram->sum_ns, ns);
}

void counters_request(struct counters *counters, enum endpoint endpoint, enum error_kind outcome, int64_t ns) {
  add(&counters->requests[endpoint][outcome], 1);
  observe(&counters->durations[endpoint], ns);
}

void counters_unchanged(struct counters *counters, enum endpoint endpoint, int64_t ns) {
  add(&counters->unchanged[endpoint], 1);
  observe(&counters->durations[endpoint], ns);
}

const char *abort_name(enum abort_stage stage) { return abort_names[stage]; }

void counters_abort(struct counters *counters, enum abort_stage stage) { add(&counters->aborted[stage], 1); }

void counters_unparsed(struct counters *counters, int status) {
  int i = 0;
  while (unparsed_codes[i] && unparsed_codes[i] != status) i++;
  add(&counters->unparsed[i], 1);
}

void counters_transfer(struct counters *counters, int64_t received, int64_t sent, int64_t send_ns) {
  add(&counters->received_bytes, received);
  add(&counters->sent_bytes, sent);
  if (send_ns >= 0) observe(&counters->stages[STAGE_SEND], send_ns);
}

const char *failure_name(enum vx_status status) {
  static const char *const names[VX_STATUS_COUNT] = {[VX_OK] = "none",
                                                     [VX_REFUSED] = "refused",
                                                     [VX_OUT_OF_MEMORY] = "out_of_memory",
                                                     [VX_DEVICE_LOST] = "device_lost",
                                                     [VX_STOPPED] = "stopped",
                                                     [VX_FAILED] = "failed"};
  return names[status];
}

void counters_rerun(struct counters *counters, enum vx_status status) { add(&counters->reruns[status], 1); }

static void count_steps(struct counters *counters, const struct vx_job *job) {
  int64_t left = job->counts.received;
  for (int32_t i = 0; job->chain && i < job->chain->count; i++) {
    enum vx_step_type type = job->chain->steps[i].type;
    const int64_t *fates = job->report->fates[i + 1];
    for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++) {
      add(&counters->steps[type][fate], fates[fate]);
      left -= fates[fate];
    }
    add(&counters->steps[type][VX_FATE_KEPT], left);
    observe(&counters->step_durations[type], job->report->step_ns[i]);
  }
}

void counters_job(struct counters *counters, const struct vx_counts *counts, const struct answer *answer) {
  add(&counters->samples, counts->sampled);
  enum vx_items items = vx_operations[answer->job->op].items;
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++) add(&counters->fates[items][fate], counts->fates[fate]);
  count_steps(counters, answer->job);
  for (int i = 0; i < VX_VOXEL_FATES; i++) add(&counters->voxels[i], counts->voxels[i]);
  uint32_t warnings = warnings_of(answer->job, &answer->inspected);
  for (enum warning i = 0; i < WARNING_KINDS; i++) add(&counters->warnings[i], warnings >> i & 1);
  for (int i = 0; i < TIMING_COUNT; i++) {
    int64_t ns = answer_timing_ns(answer, i);
    if (ns >= 0) observe(&counters->stages[i], ns);
  }
}

unsigned long long counters_of_outcome(const struct counters *counters, enum error_kind outcome) {
  unsigned long long sum = 0;
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++)
    sum += counter_value(&counters->requests[endpoint][outcome]);
  return sum;
}

struct outcomes counters_outcomes(const struct counters *counters) {
  struct outcomes outcomes = {.answered = counters_of_outcome(counters, ERROR_NONE),
                              .superseded = counters_of_outcome(counters, ERROR_SUPERSEDED),
                              .too_old = counters_of_outcome(counters, ERROR_TOO_OLD)};
  for (int endpoint = 0; endpoint < ENDPOINT_COUNT; endpoint++)
    outcomes.answered += counter_value(&counters->unchanged[endpoint]);
  for (int kind = ERROR_NONE + 1; kind < ERROR_COUNT; kind++)
    outcomes.refused += counters_of_outcome(counters, (enum error_kind)kind);
  for (int stage = 0; stage < ABORT_STAGES; stage++) outcomes.aborted += counter_value(&counters->aborted[stage]);
  return outcomes;
}

// ---- by model -------------------------------------------------------------------------------------------------------

// Searches the list from `from` to before `to` (NULL: to the end).
static struct model_counts *look(struct model_counts *from, const struct model_counts *to, const char *name) {
  while (from != to && strcmp(from->name, name) != 0) from = from->next;
  return from == to ? NULL : from;
}

const struct model_counts *models_find(const struct models *models, const char *name) {
  return look(atomic_load(&models->first), NULL, name);
}

// Finds the model's counts, or adds new counts at the front of the list. Searches what other threads add meanwhile,
// too.
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
  for (int timing = TIMING_QUEUE; timing < TIMING_TOTAL; timing++) {
    int64_t ns = answer_timing_ns(answer, timing);
    if (ns >= 0) add(&counts->part_ns[part_of(timing)], ns);
  }
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

void models_release(struct models *models) {
  struct model_counts *counts = atomic_exchange(&models->first, NULL);
  while (counts) {
    struct model_counts *next = counts->next;
    free(counts);
    counts = next;
  }
}

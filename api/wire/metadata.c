// See metadata.h.
#include "api/wire/metadata.h"

#include <stdio.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/ops.h"
#include "api/params/values.h"
#include "api/wire/times.h"
#include "kernels/ops.h"

// ---- timing ---------------------------------------------------------------------------------------------------------

const char *answer_timing_name(int timing) {
  if (timing == TIMING_RECEIVE) return "receive";
  if (timing == TIMING_QUEUE) return "queue";
  if (timing == TIMING_TOTAL) return "total";
  return vx_stage_names[timing - TIMING_STAGES];
}

int64_t answer_timing_ns(const struct answer *answer, int timing) {
  if (timing == TIMING_RECEIVE) return answer->receive_ns;
  if (timing == TIMING_QUEUE) return answer->queue_ns;
  if (timing == TIMING_TOTAL) return answer->total_ns;
  if (!answer->job) return -1;
  uint32_t steps = answer->job->chain ? VX_STAGE_BIT(VX_STAGE_STEPS) : 0;
  bool has = (vx_operations[answer->job->op].stages | steps) & VX_STAGE_BIT(timing - TIMING_STAGES);
  return has ? answer->job->stage_ns[timing - TIMING_STAGES] : -1;
}

// In milliseconds.
static void write_duration(struct text *out, const char *comma, const char *name, int64_t nanoseconds) {
  text_put(out, comma);
  text_put(out, name);
  text_put(out, ";dur=");
  text_fixed(out, nanoseconds / 100, 4);
}

static int32_t count_steps(const struct answer *answer) {
  return answer->job && answer->job->chain ? answer->job->chain->count : 0;
}

enum { STEP_TIMING_SIZE = 8 + STEP_TAG_SIZE };

static void name_step(const struct answer *answer, int32_t step, char name[STEP_TIMING_SIZE]) {
  snprintf(name, STEP_TIMING_SIZE, "step-%s", answer->request->chain.steps[step].tag);
}

static void write_step_durations(const struct answer *answer, struct text *out) {
  for (int32_t i = 0; i < count_steps(answer); i++) {
    char name[STEP_TIMING_SIZE];
    name_step(answer, i, name);
    write_duration(out, ", ", name, answer->job->report->step_ns[i]);
  }
}

void answer_server_timing(const struct answer *answer, struct text *out) {
  const char *comma = "";
  for (int timing = 0; timing < TIMING_COUNT; timing++) {
    int64_t ns = answer_timing_ns(answer, timing);
    if (ns < 0) continue;
    if (timing == TIMING_TOTAL && answer->encode_ns > 0) write_duration(out, comma, "encode", answer->encode_ns);
    write_duration(out, comma, answer_timing_name(timing), ns);
    comma = ", ";
    if (timing == TIMING_STAGES + VX_STAGE_STEPS) write_step_durations(answer, out);
  }
}

static void write_time(struct text *out, const char *name, int64_t nanoseconds) {
  json_member(out, name);
  json_put_fixed(out, nanoseconds / 100, 1);
}

static void write_timing(const struct answer *answer, bool widest, struct text *out) {
  json_printf(out, "timing_us:{");
  for (int timing = 0; timing < TIMING_COUNT; timing++) {
    int64_t ns = answer_timing_ns(answer, timing);
    if (ns >= 0) write_time(out, answer_timing_name(timing), widest ? INT64_MAX : ns);
  }
  for (int32_t i = 0; i < count_steps(answer); i++) {
    char name[STEP_TIMING_SIZE];
    name_step(answer, i, name);
    write_time(out, name, widest ? INT64_MAX : answer->job->report->step_ns[i]);
  }
  json_printf(out, "}");
}

// ---- counts ---------------------------------------------------------------------------------------------------------

const char *const voxel_fates[VX_VOXEL_FATES] = {"kept", "dropped", "block_filtered"};

static const char *items_of(const struct vx_job *job) { return vx_item_names[vx_operations[job->op].items]; }

static void write_batch(const struct vx_job *job, struct text *out) {
  const struct {
    const char *name;  // NULL = none
    const int32_t *counts;
  } parts[] = {{vx_operations[job->op].rows_carry_cloud_index ? NULL : items_of(job), job->point_counts},
               {vx_operations[job->op].rows, job->row_counts},
               {vx_sampling_of(job) ? "samples" : NULL, job->sample_counts}};
  json_printf(out, "batch:{size:%d", job->num_clouds);
  for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
    if (!parts[part].name) continue;
    json_member(out, parts[part].name);
    value_write_counts(parts[part].counts, job->num_clouds, out);
  }
  json_printf(out, "}");
}

static void write_counts(const struct vx_job *job, struct text *out) {
  const struct vx_operation *operation = &vx_operations[job->op];
  const struct vx_counts *counts = &job->counts;
  json_printf(out, "%s:{received:%ld", items_of(job), counts->received);
  fates_write(vx_fates_of_job(job), counts, out);
  json_printf(out, operation->makes_voxels ? "}voxels:{" : "}");
  for (int i = 0; operation->makes_voxels && i < VX_VOXEL_FATES; i++)
    json_printf(out, "%s:%ld", voxel_fates[i], counts->voxels[i]);
  if (operation->makes_voxels) json_printf(out, "}");
  if (vx_sampling_of(job)) json_printf(out, "samples:{chosen:%ld}", counts->sampled);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

static int64_t dropped_by(const struct vx_chain_report *report, int32_t step) {
  int64_t sum = 0;
  for (int fate = 0; fate < VX_FATE_COUNT; fate++) sum += report->fates[step][fate];
  return sum;
}

// Each step's points before and after it, and the fates of those that it dropped. With point_fates, also fate_names,
// indexed by the codes of fates.
static void write_steps(const struct answer *answer, struct text *out) {
  const struct vx_job *job = answer->job;
  const struct vx_chain_report *report = job->report;
  int64_t in = job->counts.received;
  json_printf(out, "steps:[");
  for (int32_t i = 0; i < job->chain->count; i++) {
    int64_t kept = in - dropped_by(report, i + 1);
    const struct vx_step_row *row = vx_step_row_of(job->chain->steps[i].type);
    json_printf(out, "{tag:%s op:%s in:%ld kept:%ld", answer->request->chain.steps[i].tag, row->name, in, kept);
    for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++) {
      if (!(row->fates & VX_FATE_BIT(fate))) continue;
      json_member(out, vx_fate_names[fate]);
      json_put_integer(out, report->fates[i + 1][fate]);
    }
    json_printf(out, "}");
    in = kept;
  }
  json_printf(out, "]");
  if (!(job->tensors & VX_TENSOR_BIT(VX_POINT_FATES))) return;
  json_printf(out, "fate_names:[");
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++) json_put_string(out, vx_fate_names[fate]);
  json_printf(out, "]");
}

// ---- metadata -------------------------------------------------------------------------------------------------------

static void write_origin(const struct answer *answer, struct text *out) {
  json_printf(out, "request_id:%s", answer->request_id);
  if (answer->trace_id) json_printf(out, "trace_id:%s", answer->trace_id);
  json_printf(out, "backend:%s device:%s", answer->backend, answer->device);
}

// The members that are known before a voxelization runs. Leaves the object open.
static void write_first_facts(const struct answer *answer, struct text *out) {
  const struct operation *operation = operations[answer->job->op];
  json_printf(out, "{");
  if (!answer_is_stable(answer)) write_origin(answer, out);
  json_printf(out, "parameters:");
  job_request_write(answer->request, out);
  if (operation->write) operation->write(answer->job, out);
}

// The other members, except times.
static void write_last_facts(const struct answer *answer, struct text *out) {
  const struct vx_job *job = answer->job;
  write_batch(job, out);
  write_counts(job, out);
  if (answer->inspected.deskewed) json_printf(out, "time_clamped:%ld", answer->inspected.deskewed->points.clamped);
  if (job->chain) write_steps(answer, out);
  if (answer->inspected.joined) {
    json_printf(out, "stream:");
    join_report_write(answer->inspected.joined, &answer->request->stream, job, out);
  }
  json_printf(out, "warnings:");
  warnings_write(job, &answer->inspected, out);
}

static void begin_facts(struct answer *answer, struct pool *pool, size_t size) {
  char *memory = pool_take(pool, size);
  answer->facts = text_over(memory, memory ? size : 0);
  write_first_facts(answer, &answer->facts);
}

void answer_begin_facts(struct answer *answer, struct pool *pool) {
  enum { USUAL_SIZE = 4096 };
  answer->facts_kept = false;
  begin_facts(answer, pool, USUAL_SIZE);
}

void answer_keep_facts(struct answer *answer, struct pool *pool) {
  struct text *facts = &answer->facts;
  if (!facts->length || answer->facts_kept) answer_begin_facts(answer, pool);
  write_last_facts(answer, facts);
  if (!text_complete(facts)) {
    begin_facts(answer, pool, facts->length + 1);
    write_last_facts(answer, facts);
  }
  answer->facts_kept = text_complete(facts);
}

void answer_metadata(const struct answer *answer, bool widest, struct text *out) {
  if (answer->facts_kept) {
    json_put_part(out, &answer->facts);
  } else {
    write_first_facts(answer, out);
    write_last_facts(answer, out);
  }
  if (!answer_is_stable(answer) && !answer->untimed) write_timing(answer, widest, out);
  json_printf(out, "}");
}

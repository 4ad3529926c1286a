// See join.h.
#include "api/wire/join.h"

#include <math.h>
#include <string.h>

#include "api/ops/fates.h"
#include "api/params/values.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "kernels/place.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static bool is_close(const float *row, float bound) { return fabsf(row[0]) < bound && fabsf(row[1]) < bound; }

static bool is_finite(const float *row) {
  return (fabsf(row[0]) < INFINITY) & (fabsf(row[1]) < INFINITY) & (fabsf(row[2]) < INFINITY);
}

static void widen(const uint16_t *row, int32_t columns, float *out) {
  for (int32_t i = 0; i < columns; i++) out[i] = vx_half_to_float(row[i]);
}

struct join_counts join_rows(const struct join_sweep *sweep, const struct join_terms *terms, struct vx_stop *stop,
                             float **out) {
  struct join_counts counts = {.received = sweep->points};
  int32_t columns = terms->columns;
  float *row = *out;
  VX_EACH_ROW(stop, i, 0, sweep->points) {
    if (terms->dtype == VX_FLOAT16)
      widen((const uint16_t *)sweep->rows + i * columns, columns, row);
    else
      memcpy(row, (const float *)sweep->rows + i * columns, (size_t)columns * sizeof *row);
    if (is_close(row, terms->remove_close)) continue;  // the next point is written over it
    if (sweep->moved) vx_move(sweep->matrix, row[0], row[1], row[2], row);
    counts.not_finite += !is_finite(row);
    if (terms->time_column) row[columns] = sweep->age;
    row += columns + terms->time_column;
  }
  counts.joined = (row - *out) / (columns + terms->time_column);
  counts.removed_close = counts.received - counts.joined;
  *out = row;
  return counts;
}

// ---- the report -----------------------------------------------------------------------------------------------------

static void write_name(const struct stream_terms *terms, int32_t number, struct text *out) {
  char name[STREAM_NAME_SIZE];
  size_t cursor = 0;
  for (int32_t i = 0; i <= number && stream_next(terms, &cursor, name); i++) continue;
  text_json_string(out, name, strlen(name));
}

// A job without sections drops no joined point but those that are not finite.
static void write_points(const struct join_report *report, int32_t number, const struct vx_job *job, struct text *out) {
  const struct join_counts *points = &report->sweeps[number].points;
  const struct vx_counts counts = {.kept = points->joined - points->not_finite, .not_finite = points->not_finite};
  bool counted = job && job->sections.count > 0;
  uint32_t fates = job ? vx_operation_of(job->op)->fates : VX_FATE_BIT(VX_FATE_NOT_FINITE);
  text_printf(out, ",\"points\":{\"received\":%lld,\"removed_close\":%lld,\"joined\":%lld", (long long)points->received,
              (long long)points->removed_close, (long long)points->joined);
  fates_write(fates, counted ? &job->sections.counts[number] : &counts, out);
  text_put(out, "}}");
}

void join_report_write(const struct join_report *report, const struct stream_terms *terms, const struct vx_job *job,
                       struct text *out) {
  text_put(out, "{\"name\":");
  text_json_string(out, terms->name, strlen(terms->name));
  text_put(out, ",\"frame\":");
  write_name(terms, 0, out);
  text_put(out, ",\"time\":");
  value_write_double(report->now, out);
  text_printf(out, ",\"asked\":%lld,\"begun\":%s,\"repeated\":%s,\"evicted\":%lld,\"expired\":%lld,\"sweeps\":[",
              (long long)report->wanted, report->begun ? "true" : "false", report->repeated ? "true" : "false",
              (long long)report->evicted, (long long)report->expired);
  for (int32_t i = 0; i < report->count; i++) {
    text_put(out, i ? ",{\"stream\":" : "{\"stream\":");
    write_name(terms, report->sweeps[i].stream, out);
    text_put(out, ",\"time\":");
    value_write_double(report->sweeps[i].time, out);
    text_put(out, ",\"age_s\":");
    text_float(out, report->sweeps[i].age);
    text_printf(out, ",\"origin\":\"%s\"", report->sweeps[i].sent ? "sent" : "kept");
    write_points(report, i, job, out);
  }
  text_put(out, "]}");
}

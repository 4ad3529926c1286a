// See join.h.
#include "api/wire/join.h"

#include <math.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/ops.h"
#include "kernels/ops.h"
#include "kernels/point_transform.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static bool is_close(const float *row, float bound) { return fabsf(row[0]) < bound && fabsf(row[1]) < bound; }

static bool is_finite(const float *row) {
  return (fabsf(row[0]) < INFINITY) & (fabsf(row[1]) < INFINITY) & (fabsf(row[2]) < INFINITY);
}

struct join_counts join_rows(const struct join_sweep *sweep, const struct join_terms *terms, struct vx_stop *stop,
                             float **out) {
  struct join_counts counts = {.received = sweep->points};
  int32_t columns = terms->columns;
  float *row = *out;
  VX_EACH_ROW(stop, i, 0, sweep->points) {
    vx_widen(terms->dtype, sweep->rows, i * columns, columns, row);
    if (is_close(row, terms->remove_close)) continue;  // the next row overwrites it
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
  json_put_string(out, name);
}

// A job without sections drops no joined points but those that are not finite.
static void write_points(const struct join_report *report, int32_t number, const struct vx_job *job, struct text *out) {
  const struct join_counts *points = &report->sweeps[number].points;
  const struct vx_counts counts = {.kept = points->joined - points->not_finite, .not_finite = points->not_finite};
  bool counted = job && job->sections.count > 0;
  uint32_t fates = job ? vx_fates_of_job(job) : VX_FATE_BIT(VX_FATE_NOT_FINITE);
  json_printf(out, "points:{received:%ld removed_close:%ld joined:%ld", points->received, points->removed_close,
              points->joined);
  fates_write(fates, counted ? &job->sections.counts[number] : &counts, out);
  json_printf(out, "}");
}

void join_report_write(const struct join_report *report, const struct stream_terms *terms, const struct vx_job *job,
                       struct text *out) {
  json_printf(out, "{name:%s frame:", terms->name);
  write_name(terms, 0, out);
  json_printf(out, "time:%g asked:%ld begun:%i repeated:%i evicted:%ld expired:%ld sweeps:[", report->now,
              report->wanted, report->begun, report->repeated, report->evicted, report->expired);
  for (int32_t i = 0; i < report->count; i++) {
    json_printf(out, "{stream:");
    write_name(terms, report->sweeps[i].stream, out);
    json_printf(out, "time:%g age_s:", report->sweeps[i].time);
    json_put_float(out, report->sweeps[i].age);
    json_printf(out, "origin:%s", report->sweeps[i].sent ? "sent" : "kept");
    write_points(report, i, job, out);
    json_printf(out, "}");
  }
  json_printf(out, "]}");
}

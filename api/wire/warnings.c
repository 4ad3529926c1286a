// See warnings.h.
#include "api/wire/warnings.h"

#include <math.h>

#include "api/base/json_write.h"
#include "api/wire/gather.h"
#include "api/wire/join.h"
#include "api/wire/times.h"
#include "kernels/ops.h"

// ---- when -----------------------------------------------------------------------------------------------------------

// Whether the part is 95 % or more.
static bool nearly_all(int64_t part, int64_t all) { return all > 0 && part >= all - all / 20; }

// The body has no points, even if sweeps of a stream were joined.
static bool is_empty(const struct vx_job *job, const struct inspection *inspected) {
  const struct join_report *joined = inspected->joined;
  int64_t sent = 0;
  if (!joined) return vx_operations[job->op].items == VX_POINT_ITEMS && job->counts.received == 0;
  for (int32_t i = 0; i < joined->count; i++)
    if (joined->sweeps[i].sent) sent += joined->sweeps[i].points.received;
  return sent == 0;
}

// The first step, from 1, that drops over 95 % of its finite points; 0 = none.
static int32_t empty_step(const struct vx_job *job) {
  int64_t in = job->counts.received;
  for (int32_t step = 1; job->chain && step <= job->chain->count; step++) {
    const int64_t *fates = job->report->fates[step];
    int64_t finite = in - fates[VX_FATE_NOT_FINITE];
    for (int fate = 0; fate < VX_FATE_COUNT; fate++) in -= fates[fate];
    if (finite > 0 && in <= (finite - 1) / 20) return step;  // in * 20 < finite, without overflow
  }
  return 0;
}

// Points out of the range, image or lattice of the operation. `met`: finite points that reach it.
static int64_t misplaced(const struct vx_job *job, int64_t *met) {
  const struct vx_counts *counts = &job->counts;
  int64_t outside = counts->out_of_range + counts->outside_image + counts->out_of_lattice;
  *met = counts->received - counts->not_finite;
  for (int32_t step = 1; job->chain && step <= job->chain->count; step++) {
    const int64_t *fates = job->report->fates[step];
    for (int fate = VX_FATE_NOT_FINITE + 1; fate < VX_FATE_COUNT; fate++) *met -= fates[fate];
    outside -= fates[VX_FATE_OUT_OF_LATTICE];
  }
  return outside;
}

// Nearly all points or, in a range image by ring, over 5 %.
static bool are_misplaced(const struct vx_job *job) {
  if (vx_operations[job->op].items != VX_POINT_ITEMS) return false;
  bool by_ring = job->op == VX_RANGE_IMAGE_OP && job->params.image.rows != VX_ROWS_ELEVATION;
  int64_t met, outside = misplaced(job, &met);
  return by_ring ? outside > met / 20 : nearly_all(outside, met);
}

// A transform moves the points before a ring_outlier.
static bool rings_moved(const struct vx_job *job) {
  bool moved = false, judged = false;
  for (int32_t i = 0; job->chain && i < job->chain->count; i++) {
    const struct vx_step *step = &job->chain->steps[i];
    moved = moved || (step->type == VX_STEP_TRANSFORM && step->params.transform.num_matrices > 0);
    judged = judged || (moved && step->type == VX_STEP_RING_OUTLIER);
  }
  return judged;
}

static bool other_columns(const struct vx_job *job, const struct points_expected *expected) {
  return expected && expected->num_columns > 0 && job->inputs[VX_POINTS].dims[1] != expected->num_columns;
}

// Rounding moved a value by more than a thousandth of the column's range.
static bool lost_column(const struct cloud_loss *loss) { return loss->column && loss->moved > loss->range / 1000; }

uint32_t warnings_of(const struct vx_job *job, const struct inspection *inspected) {
  const double lost_metres = 0.005, most_ahead_ms = 100;
  const struct vx_counts *counts = &job->counts;
  const struct points_seen *seen = &inspected->seen;
  const struct cloud_loss *loss = inspected->loss;
  const struct deskew_report *deskewed = inspected->deskewed;
  const struct join_report *joined = inspected->joined;
  const bool holds[WARNING_KINDS] = {
      [WARNING_EMPTY] = is_empty(job, inspected),
      [WARNING_MAX_VOXELS] = counts->voxels_dropped > 0,
      [WARNING_OUT_OF_RANGE] = are_misplaced(job),
      [WARNING_STEP_EMPTY] = job->chain && empty_step(job) > 0,
      [WARNING_RINGS_MOVED] = job->chain && rings_moved(job),
      [WARNING_NOT_FINITE] = nearly_all(counts->not_finite, counts->received),
      [WARNING_NUM_FEATURES] = inspected->columns > 0,
      [WARNING_OTHER_COLUMNS] = other_columns(job, seen->expected),
      [WARNING_STRIPPED_BODY] = inspected->stripped,
      [WARNING_FORMAT] = inspected->hint,
      [WARNING_ROUNDED] = loss && (loss->most > lost_metres || lost_column(loss)),
      [WARNING_INTENSITY] = seen->intensity.fault != INTENSITY_GOOD,
      [WARNING_GROUND_Z] = seen->ground.off,
      [WARNING_TIME] = seen->time.off,
      [WARNING_FEATURES] = seen->features.bad > 0,
      [WARNING_NOT_SCATTERED] = job->op == VX_SCATTER && counts->kept < counts->received,
      [WARNING_TIMES_EQUAL] = deskewed && deskewed->equal,
      [WARNING_TIMES_CLAMPED] = deskewed && deskewed->points.clamped > deskewed->points.moved / 20,
      [WARNING_NO_MOTION] = deskewed && deskewed->still,
      [WARNING_FEWER_SWEEPS] = joined && joined->count < joined->wanted,
      [WARNING_CLOCK_AHEAD] = most_ahead_ms < inspected->ahead_ms,
  };
  uint32_t set = 0;
  for (enum warning warning = 0; warning < WARNING_KINDS; warning++) set |= (uint32_t)holds[warning] << warning;
  return set;
}

// ---- texts ----------------------------------------------------------------------------------------------------------

static void say_empty(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job;
  text_put(out, "the body has no points");
  if (inspected->joined) text_put(out, ", so the stream does not keep the sweep");
}

static void say_max_voxels(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  bool of_model = vx_operations[job->op].needs_detector;
  const struct vx_voxelize *params = of_model ? &job->params.detect.detector->voxelize : &job->params.voxelize;
  const struct vx_choice *choice = of_model ? &job->params.detect.choice : &params->choice;
  (void)inspected;
  text_printf(out, "max_voxels=%d was reached: %lld voxels and their %lld points were dropped", params->max_voxels,
              (long long)job->counts.voxels_dropped, (long long)job->counts.over_max_voxels);
  if (choice->voxels_by == VX_VOXELS_FIRST)
    text_put(out, "; max_voxels_by=near keeps the nearest voxels instead of the first");
}

static void say_out_of_range(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  int64_t met, outside = misplaced(job, &met);
  const char *place = "out of range", *cause = "point_cloud_range";
  (void)inspected;
  if (job->op == VX_RANGE_IMAGE_OP) place = "outside of the image", cause = "ring, height, fov_up and fov_down";
  if (job->op == VX_SERIALIZE) place = "out of the lattice", cause = "voxel_size and grid_origin";
  text_printf(out, "%lld of %lld points are %s; check %s, the points' unit (metres), num_features and dtype",
              (long long)outside, (long long)job->counts.received, place, cause);
}

static void say_step_empty(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  int32_t step = empty_step(job);
  const struct vx_step_row *row = vx_step_row_of(job->chain->steps[step - 1].type);
  (void)inspected;
  const char *before = ": ";
  text_printf(out, "step %d, %s, dropped nearly all of its points", (int)step, row->name);
  for (enum vx_fate fate = VX_FATE_NOT_FINITE + 1; fate < VX_FATE_COUNT; fate++) {
    if (!job->report->fates[step][fate]) continue;
    text_printf(out, "%s%lld %s", before, (long long)job->report->fates[step][fate], vx_fate_names[fate]);
    before = ", ";
  }
  text_put(out, "; check its parameters, the points' unit (metres), num_features and dtype");
}

static void say_not_finite(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)inspected;
  text_printf(out, "%lld of %lld points have an x, y or z that is not finite; check num_features and dtype",
              (long long)job->counts.not_finite, (long long)job->counts.received);
}

static void say_num_features(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  text_printf(out, "the rows look like %d columns, but num_features is %lld", inspected->columns,
              (long long)job->inputs[VX_POINTS].dims[1]);
}

static void say_other_columns(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  const struct points_expected *expected = inspected->seen.expected;
  text_printf(out,
              "the rows have %lld columns, but the model expects %d: %s; send these columns, or take another preset",
              (long long)job->inputs[VX_POINTS].dims[1], (int)expected->num_columns, expected->columns);
}

static void say_stripped(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job, (void)inspected;
  text_put(out, "the body came as a form and has no NUL, CR or LF byte: curl -d strips them; use curl --data-binary");
}

static void say_other_format(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job;
  text_put(out, inspected->hint);
}

static void say_rounded(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  const struct cloud_loss *loss = inspected->loss;
  float at = fabsf((float)loss->at);
  (void)job;
  if (lost_column(loss)) {
    text_printf(
        out,
        "rounding to float32 moved a value of column %lld (x is column 0) by %.3g, and the column's range is only "
        "%.3g; for times, see time_field and time_origin",
        (long long)loss->column, loss->moved, loss->range);
    return;
  }
  text_printf(
      out,
      "float32 has steps of %.3g m near %.12g, so rounding moved a coordinate by %.3g m; subtract an origin near "
      "the points before sending them",
      (double)(nextafterf(at, INFINITY) - at), loss->at, loss->most);
}

// Names the cloud if there are several.
static void say_cloud(const struct points_seen *seen, int32_t cloud, struct text *out) {
  if (seen->num_clouds > 1) text_printf(out, "cloud %d: ", (int)cloud);
}

static void say_intensity(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  static const char order[] = "; is another column in its place? See fields";
  const struct points_seen *seen = &inspected->seen;
  double least = (double)seen->intensity.least, most = (double)seen->intensity.most;
  (void)job;
  say_cloud(seen, seen->intensity.cloud, out);
  switch (seen->intensity.fault) {
    case INTENSITY_CONSTANT: text_printf(out, "intensity is %g everywhere%s", most, order); break;
    case INTENSITY_TIMES:
      text_printf(out, "intensity runs from %g to %g in the order of the rows, as times do%s", least, most, order);
      break;
    case INTENSITY_RINGS:
      text_printf(out, "intensity has whole numbers from %g to %g that follow the elevation, as ring numbers do%s",
                  least, most, order);
      break;
    case INTENSITY_RANGE:
      text_printf(out, "intensity runs from %g to %g, but the model expects %g to %g; see intensity_scale", least, most,
                  (double)seen->expected->intensity_range[0], (double)seen->expected->intensity_range[1]);
      break;
    case INTENSITY_GOOD: break;
  }
}

static void say_ground(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  const struct points_seen *seen = &inspected->seen;
  (void)job;
  say_cloud(seen, seen->ground.cloud, out);
  text_printf(out,
              "the ground seems to be at z = %.2f, but the model expects the ground at %.2f; move the points with "
              "/v1/transform",
              (double)seen->ground.z, seen->expected->ground_z);
}

static void say_time(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  const struct points_seen *seen = &inspected->seen;
  (void)job;
  say_cloud(seen, seen->time.cloud, out);
  text_printf(out,
              "the column of time has values up to %g; the model expects seconds since the newest sweep, not the "
              "sensor's rings or another unit",
              (double)seen->time.most);
}

static void say_features(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  const struct points_seen *seen = &inspected->seen;
  (void)job;
  say_cloud(seen, seen->features.cloud, out);
  text_printf(out,
              "%d of %d sampled points have a finite x, y and z, but another value that is not finite, such as column "
              "%d (x is column 0); what is computed from such values is not finite either",
              (int)seen->features.bad, (int)seen->features.rows, (int)seen->features.column);
}

static void say_not_scattered(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)inspected;
  text_printf(
      out, "of %lld voxels, %lld are outside of grid_size and batch_size, and %lld are in the cell of an earlier row",
      (long long)job->counts.received, (long long)job->counts.out_of_range, (long long)job->counts.duplicate);
}

static void say_fewer_sweeps(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  const struct join_report *joined = inspected->joined;
  (void)job;
  text_printf(out, "%d of the %lld requested sweeps were joined", (int)joined->count, (long long)joined->wanted);
  if (joined->evicted) text_printf(out, "; %lld were evicted to make room", (long long)joined->evicted);
  if (joined->expired) text_printf(out, "; %lld were older than stream_ttl_s", (long long)joined->expired);
  if (joined->begun) text_put(out, "; the stream begins with this request: the server has no earlier sweeps");
}

static void say_clock_ahead(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job;
  text_printf(out, "the time of the points is %.0f ms ahead of the server's clock, so max_age_ms took their age as 0",
              inspected->ahead_ms);
}

static void say_times_equal(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job, (void)inspected;
  text_put(out,
           "all points of a cloud or sweep have the same time, so deskew moved all of them alike; check time_field "
           "and time_origin");
}

static void say_times_clamped(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job;
  text_printf(out,
              "the times of %lld of %lld points lie more than 0.1 s before or after the poses, twists or sweeps; check "
              "time_unit and time_origin",
              (long long)inspected->deskewed->points.clamped, (long long)inspected->deskewed->points.moved);
}

static void say_no_motion(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job, (void)inspected;
  text_put(out, "deskew=stream moved no points, because the stream has no earlier sweep");
}

static void say_rings_moved(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  (void)job, (void)inspected;
  text_put(out, "ring_outlier compares distances from the sensor, but a transform before it moved the points; put "
                "ring_outlier first");
}

// ---- the table ------------------------------------------------------------------------------------------------------

static const struct row {
  const char *kind, *doc;
  void (*say)(const struct vx_job *job, const struct inspection *inspected, struct text *out);
} rows[WARNING_KINDS] = {
    [WARNING_EMPTY] = {"empty", "the body has no points", say_empty},
    [WARNING_MAX_VOXELS] = {"max_voxels", "voxels were dropped because there were more than max_voxels",
                            say_max_voxels},
    [WARNING_OUT_OF_RANGE] = {"out_of_range",
                              "95 % or more of the finite points are outside of the range, the image or serialize's "
                              "cells; in an image by ring, over 5 %",
                              say_out_of_range},
    [WARNING_STEP_EMPTY] = {"step_empty", "a step kept less than 5 % of its finite points", say_step_empty},
    [WARNING_RINGS_MOVED] = {"rings_moved", "ring_outlier comes after a transform that moved the points",
                             say_rings_moved},
    [WARNING_NOT_FINITE] = {"not_finite", "95 % or more of the points are not finite", say_not_finite},
    [WARNING_NUM_FEATURES] = {"num_features", "the rows look as if they had another number of columns, from 3 to 8",
                              say_num_features},
    [WARNING_OTHER_COLUMNS] = {"other_columns", "the rows have another number of columns than the model expects",
                               say_other_columns},
    [WARNING_STRIPPED_BODY] = {"stripped_body",
                               "the body looks as if curl -d had stripped bytes from it; use curl --data-binary",
                               say_stripped},
    [WARNING_FORMAT] =
        {"format", "the body was read as raw rows, but looks like a file of another format, like text, or like float64",
         say_other_format},
    [WARNING_ROUNDED] =
        {"rounded",
         "rounding to float32 moved a coordinate of a file, of integers or of JSON by more than 5 mm, or "
         "another 64-bit column by 1/1000 of its range",
         say_rounded},
    [WARNING_INTENSITY] = {"intensity",
                           "intensity has another range than the model expects, or another column is in its place",
                           say_intensity},
    [WARNING_GROUND_Z] = {"ground_z", "the ground is more than 1 m from where the model expects it", say_ground},
    [WARNING_TIME] = {"time", "the column of time does not look like seconds since the newest sweep", say_time},
    [WARNING_FEATURES] = {"feature_not_finite", "points with a finite x, y and z have another value that is not finite",
                          say_features},
    [WARNING_NOT_SCATTERED] = {"not_scattered",
                               "voxels are not in the map: they are outside of the grid, or an earlier row has their "
                               "cell",
                               say_not_scattered},
    [WARNING_TIMES_EQUAL] = {"times_equal",
                             "all points of a cloud or sweep have the same time, so deskew moves them alike",
                             say_times_equal},
    [WARNING_TIMES_CLAMPED] = {"times_clamped",
                               "more than 5 % of the times are over 0.1 s before or after the poses, twists or sweeps",
                               say_times_clamped},
    [WARNING_NO_MOTION] = {"no_motion", "deskew=stream moved nothing, since the stream has no earlier sweep",
                           say_no_motion},
    [WARNING_FEWER_SWEEPS] = {"fewer_sweeps", "the streams had fewer sweeps than the request asked for",
                              say_fewer_sweeps},
    [WARNING_CLOCK_AHEAD] = {"clock_ahead", "the time of the points is more than 100 ms ahead of the server's clock",
                             say_clock_ahead},
};

const char *warning_kind(enum warning warning) { return rows[warning].kind; }

void warnings_write(const struct vx_job *job, const struct inspection *inspected, struct text *out) {
  uint32_t set = warnings_of(job, inspected);
  json_printf(out, "[");
  for (enum warning warning = 0; warning < WARNING_KINDS; warning++) {
    if (!(set >> warning & 1)) continue;
    json_printf(out, "{kind:%s detail:", rows[warning].kind);
    json_begin_string(out);
    rows[warning].say(job, inspected, out);
    json_end(out);
    json_printf(out, "}");
  }
  json_printf(out, "]");
}

void warnings_describe(struct text *out) {
  json_printf(out, "[");
  for (const struct row *row = rows; row < rows + WARNING_KINDS; row++)
    json_printf(out, "{kind:%s doc:%s}", row->kind, row->doc);
  json_printf(out, "]");
}

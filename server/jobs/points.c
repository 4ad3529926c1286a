// See points.h.
#include "server/jobs/points.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/wire/formats.h"
#include "api/wire/gather.h"
#include "api/wire/infer_answer.h"
#include "api/wire/infer_inputs.h"
#include "api/wire/infer_json.h"
#include "api/wire/inputs.h"
#include "api/wire/look.h"
#include "api/wire/tensors.h"
#include "server/base/clock.h"
#include "server/jobs/coded.h"
#include "server/jobs/held.h"
#include "server/jobs/shared.h"

static const _Alignas(VX_TENSOR_ALIGNMENT) char no_points[VX_TENSOR_ALIGNMENT];

// More than a body may have is refused as such a body would be: files may be compressed, or widen when they are read.
static bool take_rows(struct job *job, size_t bytes) {
  size_t most = job->services->max_body_bytes;
  if (bytes > most)
    return problem_set(&job->result.problem, PROBLEM_BODY_TOO_LARGE, NULL,
                       "the body's points have %zu bytes; allowed: up to %zu", bytes, most);
  return job_acquire_rows(job, bytes);
}

// Copies points out of a region of shared memory. They become the input: from then on nobody changes them.
static bool copy_shared(struct job *job, const struct region_ref *ref) {
  if (!take_rows(job, (size_t)ref->bytes) || !shared_read(job, ref, job->held.rows->data, &job->result.problem))
    return false;
  job_use_rows(job);
  return true;
}

static bool take_shared(struct job *job, const struct region_ref *ref, const struct device *gpu) {
  if (!shared_read(job, ref, NULL, &job->result.problem)) return false;
  job->held.body_bytes = (int64_t)ref->bytes;
  if (ref->bytes == 0) return true;
  bool rows = job->asked.format == FORMAT_RAW;
  return (rows && shared_reach_points(job, ref, gpu)) || copy_shared(job, ref);
}

// ---- raw rows -------------------------------------------------------------------------------------------------------

static bool is_raw(const struct job *job) { return job->asked.format == FORMAT_RAW && !job->infer; }

bool points_are_whole(const struct job *job, int64_t bytes) {
  return !is_raw(job) || bytes % (int64_t)job_request_row_bytes(&job->asked) == 0;
}

bool points_split(struct job *job, int64_t bytes, struct problem *problem) {
  struct job_request *asked = &job->asked;
  int64_t row = (int64_t)job_request_row_bytes(asked);
  if (!is_raw(job)) return true;
  if (points_are_whole(job, bytes)) return job_request_split(asked, bytes / row, problem);
  return problem_set(problem, PROBLEM_BAD_BODY, NULL,
                     "%s has %lld bytes; allowed: a multiple of %lld, the size of a row with num_features=%d%s",
                     asked->points_region.name[0] ? "points_region" : "the body", (long long)bytes, (long long)row,
                     asked->num_features, job->spec.form ? LOOK_OF_A_FORM : "");
}

// What is not whole rows may be a file of another format, which its beginning shows.
static bool open_coded(struct job *job) {
  if (!coded_open(job)) return false;
  if (points_split(job, job->held.body_bytes, &job->result.problem)) return true;
  if (!points_are_whole(job, job->held.body_bytes))
    format_suggest(FORMAT_RAW, job_body(job), (size_t)job->held.body_bytes, &job->result.problem);
  return false;
}

// ---- points in shared memory ----------------------------------------------------------------------------------------

bool points_copy(struct job *job) {
  if (!job->shared->points.region) return true;
  bool good = take_rows(job, job->shared->points.bytes) && shared_copy_points(job, job->held.rows->data);
  regions_leave(job->services->regions, &job->shared->points);
  if (!good) return false;
  job_use_rows(job);
  job->points = job->work.inputs[VX_POINTS].data = job->held.input->data;
  job->work.pinned = false;
  return true;
}

static bool unpack(struct job *job, struct cloud_file *file) {
  if (!take_rows(job, file->unpacked_bytes)) return false;
  if (!cloud_unpack(file, job->held.rows->data, &job->result.problem)) return false;
  job_use_rows(job);
  return true;
}

// Makes rows in the input itself if they fit before the points that they are made of, else in memory of their own.
static bool gather(struct job *job, const struct cloud_file *file, const struct cloud_columns *columns) {
  size_t bytes = (size_t)file->points * job_request_row_bytes(&job->asked);
  bool apart = !cloud_shrinks(file, columns);
  if (apart && !take_rows(job, bytes)) return false;
  if (!cloud_gather(file, columns, apart ? job->held.rows->data : job->held.input->data, &job->result.problem))
    return false;
  if (apart) job_use_rows(job);
  return true;
}

static bool refuse_file(struct job *job) {
  char *detail = job->result.problem.detail;
  size_t length = strlen(detail);
  if (job->spec.form && job->result.problem.kind == PROBLEM_BAD_BODY)
    snprintf(detail + length, sizeof job->result.problem.detail - length, LOOK_OF_A_FORM);
  return false;
}

// Once the columns are chosen, the names of the fields are not read any more: unpacking and gathering write over them.
static bool open_file(struct job *job, char **rows, int *intensity) {
  struct cloud_file file;
  struct cloud_columns columns;
  struct problem *problem = &job->result.problem;
  const char *bytes = job->held.input ? job->held.input->data : no_points;
  if (!format_open(job->asked.format, bytes, (size_t)job->held.body_bytes, &job->stop, &file, problem) ||
      !cloud_choose(&file, &job->asked, &columns, problem) || !job_request_split(&job->asked, file.points, problem))
    return false;
  *intensity = columns.intensity;
  if (file.points == 0 && file.layout != CLOUD_TEXT) return true;  // text is read for lines that should not be there
  if (file.layout == CLOUD_PACKED && !unpack(job, &file)) return false;
  const char *in_place = cloud_rows(&file, &columns);
  if (in_place && (uintptr_t)in_place % VX_TENSOR_ALIGNMENT == 0) {
    *rows = job->held.input->data + (in_place - job->held.input->data);
    return true;
  }
  if (!gather(job, &file, &columns)) return false;
  *rows = job->held.input->data;
  return true;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

// Where the first input begins, if it is in the body; NULL if there is none.
static char *first_input(const struct job *job) {
  const char *data = job->asked.job.inputs[0].data;
  return job->held.input ? job->held.input->data + (data - job->held.input->data) : NULL;
}

static bool open_tensors(struct job *job, char **rows) {
  struct job_request *asked = &job->asked;
  char *body = job->held.input ? job_body(job) : NULL;
  if (!tensors_read(body, (size_t)job->held.body_bytes, asked, &job->result.problem) ||
      !inputs_take_points(asked, false, &job->result.problem) ||
      !job_request_split(asked, vx_sizes_of(&asked->job).rows, &job->result.problem))
    return false;
  *rows = first_input(job);
  return true;
}

// ---- inference requests ---------------------------------------------------------------------------------------------

// Inputs that are JSON or shared, or bytes at an address that is not aligned, need memory of their own. Then all of
// them get it.
static bool place_inputs(struct job *job, const struct infer_body *body, const struct device *gpu) {
  const struct infer_memory memory = {shared_read, job, &job->stop};
  struct job_request *asked = &job->asked;
  if (infer_inputs_bind(&body->inputs, asked)) return true;
  const struct region_ref *shared = infer_inputs_shared(&body->inputs);
  if (shared && shared_reach_points(job, shared, gpu)) return true;
  if (!take_rows(job, infer_inputs_bytes(&body->inputs))) return false;
  if (!infer_inputs_copy(&body->inputs, &memory, job->held.rows->data, asked, &job->result.problem)) return false;
  job_use_rows(job);
  return true;
}

static void shorten_deadline(struct job *job) {
  int64_t asked_ns = job->queued_ns + job->asked.timeout_ms * NS_PER_MS;
  if (job->asked.timeout_ms && asked_ns < job->deadline_ns) job->deadline_ns = asked_ns;
}

static bool open_inference(struct job *job, const struct device *gpu, char **rows) {
  struct infer_body body;
  struct infer *infer = job->infer;
  const struct infer_memory memory = {shared_read, job, &job->stop};
  const char *bytes = job->held.input ? job_body(job) : no_points;
  size_t size = (size_t)job->held.body_bytes;
  if (!job_acquire_scratch(job, infer_json_cost(bytes, infer_json_bytes(infer, size)))) return false;
  bool good = infer_read(&body, bytes, size, &memory, infer, &job->asked, &job->result.problem) &&
              place_inputs(job, &body, gpu) &&
              job_request_split(&job->asked, vx_sizes_of(&job->asked.job).rows, &job->result.problem);
  infer_end(&body);
  job_release_scratch(job);
  if (!good) return false;
  *rows = job->shared->points.region ? job->shared->points.memory : first_input(job);
  shorten_deadline(job);
  return true;
}

bool points_open(struct job *job, const struct device *gpu) {
  const struct job_request *asked = &job->asked;
  bool inference = job->infer, named = inference || asked->format == FORMAT_RAW;
  bool tensors = !inference && asked->format == FORMAT_SAFETENSORS;
  int intensity = -1;
  shared_begin(job);
  if (job->spec.coding && !open_coded(job)) return false;
  if (asked->points_region.name[0] && !take_shared(job, &asked->points_region, gpu)) return false;
  char *rows = job->shared->points.region ? job->shared->points.memory : job->held.input ? job->held.input->data : NULL;
  if (inference && !open_inference(job, gpu, &rows)) return false;
  if (!shared_check_answer(job)) return false;
  if (tensors && !open_tensors(job, &rows)) return refuse_file(job);
  if (!named && !tensors && !open_file(job, &rows, &intensity)) return refuse_file(job);
  if (asked->intensity_scale != 0 && rows)
    cloud_scale(asked, named || tensors ? cloud_intensity(asked) : intensity, &job->stop, rows);
  job->points = rows ? rows : no_points;
  return true;
}

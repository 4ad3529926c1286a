// See body_open.h.
#include "server/jobs/body_open.h"

#include <stdint.h>
#include <string.h>

#include "api/ops/deskew.h"
#include "api/ops/stream.h"
#include "api/wire/formats.h"
#include "api/wire/gather.h"
#include "api/wire/infer_inputs.h"
#include "api/wire/inputs.h"
#include "api/wire/inspect.h"
#include "api/wire/times.h"
#include "api/wire/widen.h"
#include "api/wire/wire.h"
#include "server/base/base.h"
#include "server/jobs/held.h"
#include "server/jobs/shared.h"

static const _Alignas(VX_TENSOR_ALIGNMENT) char no_points[VX_TENSOR_ALIGNMENT];

struct body {
  struct job *job;
  struct job_request *asked;
  struct error *error;
  const struct device *gpu;  // will run the job; NULL: the CPU will
  char *rows;                // of points; NULL: there are none
  bool has_names;            // the body names its columns
  int intensity;             // with has_names: the number of the column `intensity`; -1: none
  struct times times;        // if the request reads them; without values until the container is read
};

static bool is_raw(const struct job *job) { return job->asked.format == FORMAT_RAW && !job->infer; }

// Read-only if the body is empty.
static const char *bytes_of(const struct job *job) { return job->held.input ? job_body(job) : no_points; }

static char *input_at(const struct job *job, const char *place) {
  struct buffer *input = job->held.input;
  return input ? input->data + (place - input->data) : NULL;
}

// A compressed file, or a file with narrow columns, may grow beyond the limit of bodies when it is read.
static bool fits_body(const struct body *body, size_t bytes) {
  size_t most = body->job->services->max_body_bytes;
  return bytes <= most || error_refuse(body->error, ERROR_BODY_TOO_LARGE, NULL,
                                       "the body's points have %zu bytes; allowed: up to %zu", bytes, most);
}

static bool acquire_times(struct body *body) {
  struct job *job = body->job;
  size_t points = (size_t)body->asked->job.inputs[VX_POINTS].dims[0];
  if (!job_acquire_times(job, points * sizeof *body->times.values)) return false;
  body->times.values = (union time_value *)(void *)job->held.times->data;
  return true;
}

static bool acquire_rows(const struct body *body, size_t bytes) {
  return fits_body(body, bytes) && job_acquire_rows(body->job, bytes);
}

// ---- its coding -----------------------------------------------------------------------------------------------------

bool body_is_whole(const struct job *job, int64_t bytes) {
  return !is_raw(job) || bytes % (int64_t)job_request_row_bytes(&job->asked) == 0;
}

bool body_split(struct job *job, int64_t bytes, struct error *error) {
  struct job_request *asked = &job->asked;
  int64_t row = (int64_t)job_request_row_bytes(asked);
  if (!is_raw(job)) return true;
  if (body_is_whole(job, bytes)) return job_request_split(asked, bytes / row, error);
  return error_refuse(error, ERROR_BAD_BODY, NULL,
                      "the body has %lld bytes; allowed: a multiple of %lld, the size of a row with num_features=%d%s",
                      (long long)bytes, (long long)row, asked->num_features, job->spec.form ? STRIPPED_FORM : "");
}

// A full buffer is doubled. Between two checks of the deadline the worker reads up to PART_IN bytes, which may decode
// to nothing, and writes up to PART.
enum { LEAST_ROOM = 64 * 1024, PART_IN = 256 * 1024, PART = 1 << 20 };

// Makes room after the decoded bytes. At the limit of bodies, `*room` is 0.
static bool grow(struct job *job, size_t decoded, size_t *room) {
  struct job_held *held = &job->held;
  size_t most = job->services->max_body_bytes, bytes = 2 * decoded;
  if (!decoded) bytes = coding_first_room(job->spec.coding, job_body(job), (size_t)held->body_bytes);
  if (bytes < LEAST_ROOM) bytes = LEAST_ROOM;
  bool full = !held->rows || held->rows->capacity == held->rows_bytes;
  if (full && decoded < most && !job_acquire_rows(job, job->spec.lead + (bytes < most ? bytes : most))) return false;
  size_t left = most - decoded < PART ? most - decoded : PART;
  size_t rest = held->rows ? held->rows->capacity - held->rows_bytes : 0;
  *room = left < rest ? left : rest;
  return true;
}

// Decodes one part. At the limit of bodies, decodes into a single byte to see whether the body is longer.
static bool decode_part(struct job *job, struct coding_step *step, bool *more) {
  char beyond;
  size_t most = job->services->max_body_bytes, decoded = job->held.rows_bytes - job->spec.lead, room;
  size_t later = step->in_size > PART_IN ? step->in_size - PART_IN : 0;
  // After the first part, job_acquire_decoder only counts what the decoder has allocated by now.
  if (!job_acquire_decoder(job, job->spec.coding) || !grow(job, decoded, &room)) return false;
  bool last = decoded == most;
  step->in_size -= later;
  step->out = last ? &beyond : job->held.rows->data + job->held.rows_bytes;
  step->out_size = last ? 1 : room;
  if (!decoder_run(job->held.decoder, step, &job->result.error)) return false;
  bool full = step->out_size == 0;
  step->in_size += later;
  *more = full || step->in_size > 0;
  if (!last) job->held.rows_bytes += room - step->out_size;
  return !(last && full) || error_refuse(&job->result.error, ERROR_BODY_TOO_LARGE, NULL,
                                         "the body is longer than %zu bytes when decoded", most);
}

static bool decode_all(struct job *job) {
  struct coding_step step = {.in = job_body(job), .in_size = (size_t)job->held.body_bytes};
  for (bool more = true; more;) {
    if (job_is_stopped(job)) return job_refuse_stopped(job, "the deadline passed while the body was decoded");
    if (!decode_part(job, &step, &more)) return false;
  }
  return decoder_end(job->held.decoder, &job->result.error);
}

// The decoded body becomes the input. If that is not whole rows, the error suggests the format that its beginning
// shows.
static bool decode(const struct body *body) {
  struct job *job = body->job;
  struct job_held *held = &job->held;
  if (held->body_bytes == 0)
    return error_refuse(body->error, ERROR_BAD_BODY, NULL, "the body is empty, so it is not a %s stream",
                        coding_name(job->spec.coding));
  held->rows_bytes = job->spec.lead;
  bool good = decode_all(job);
  int64_t bytes = (int64_t)(held->rows_bytes - job->spec.lead);
  job_release_decoder(job);
  if (!good) return false;
  job_use_rows(job);
  held->body_bytes = bytes;
  if (body_split(job, bytes, body->error)) return true;
  if (!body_is_whole(job, bytes)) format_suggest(FORMAT_RAW, job_body(job), (size_t)bytes, body->error);
  return false;
}

// ---- its source -----------------------------------------------------------------------------------------------------

// The source is not whole rows; the error suggests the format that its beginning shows.
static bool refuse_source(const struct body *body) {
  struct job *job = body->job;
  char head[INSPECTED_HEAD];
  int64_t bytes = job->held.body_bytes;
  size_t seen = bytes < INSPECTED_HEAD ? (size_t)bytes : INSPECTED_HEAD;
  if (!body_split(job, bytes, body->error) && source_peek(job, 0, seen, head))
    format_suggest(FORMAT_RAW, head, seen, body->error);
  return false;
}

// Raw rows may stay in their region. Other bytes are copied, because the CPU reads them.
static bool fetch(const struct body *body) {
  struct job *job = body->job;
  const struct region_ref *ref = &body->asked->points_region;
  if (!source_open(job, ref)) return false;
  job->held.body_bytes = (int64_t)ref->bytes;
  if (!body_is_whole(job, job->held.body_bytes)) return refuse_source(body);
  if (ref->bytes == 0 || (is_raw(job) && source_reach(job, body->gpu))) return true;
  return fits_body(body, (size_t)ref->bytes) && source_copy(job);
}

// ---- its container --------------------------------------------------------------------------------------------------

static bool open_raw(struct body *body) {
  struct job *job = body->job;
  char *shared = source_rows(job);
  body->rows = shared ? shared : job->held.input ? job_body(job) : NULL;
  return true;
}

static bool open_tensors(struct body *body) {
  struct job *job = body->job;
  struct job_request *asked = body->asked;
  char *bytes = job->held.input ? job_body(job) : NULL;
  if (!tensors_read(bytes, (size_t)job->held.body_bytes, asked, body->error) ||
      !inputs_take_points(asked, false, body->error) ||
      !job_request_split(asked, vx_sizes_of(&asked->job).rows, body->error))
    return false;
  body->rows = input_at(job, asked->job.inputs[0].data);
  return true;
}

static bool unpack(const struct body *body, struct cloud_file *file) {
  struct job *job = body->job;
  const struct cloud_packing *packing = &file->packing;
  if (!fits_body(body, packing->bytes) || !job_acquire_rows(job, packing->bytes + packing->spare_bytes)) return false;
  if (packing->coding && !job_acquire_decoder(job, packing->coding)) return false;
  bool good = cloud_unpack(file, job->held.decoder, job->held.rows->data, body->error);
  job_release_decoder(job);
  if (good) job_use_rows(job);
  return good;
}

// Writes the rows over the input if cloud_shrinks, otherwise into new memory.
static bool gather(const struct body *body, const struct cloud_file *file, const struct cloud_columns *columns) {
  struct job *job = body->job;
  size_t bytes = (size_t)file->points * job_request_row_bytes(body->asked);
  bool apart = !cloud_shrinks(file, columns);
  if (apart && !acquire_rows(body, bytes)) return false;
  struct buffer *out = apart ? job->held.rows : job->held.input;
  if (!cloud_gather(file, columns, out->data, &job->loss, body->error)) return false;
  if (apart) job_use_rows(job);
  return true;
}

// Unpacking and gathering write over the names of the fields, so the columns are chosen first.
static bool open_file(struct body *body) {
  struct job *job = body->job;
  struct cloud_file file;
  struct cloud_columns columns;
  if (!format_open(body->asked->format, bytes_of(job), (size_t)job->held.body_bytes, &job->stop, &file, body->error) ||
      !cloud_choose(&file, body->asked, &columns, body->error) ||
      !job_request_split(body->asked, file.points, body->error))
    return false;
  body->has_names = true;
  body->intensity = columns.intensity;
  body->times = columns.times;
  if (file.points == 0 && file.layout != CLOUD_TEXT) return true;  // excess lines of a text are refused
  if (file.layout == CLOUD_PACKED && !unpack(body, &file)) return false;
  if (times_are_read(body->asked) && file.points && !acquire_times(body)) return false;
  columns.times.values = body->times.values;
  const char *rows = cloud_rows(&file, &columns);
  bool in_place = rows && (uintptr_t)rows % VX_TENSOR_ALIGNMENT == 0 && !body->times.values;
  if (!in_place && !gather(body, &file, &columns)) return false;
  body->rows = in_place ? input_at(job, rows) : job->held.input->data;
  return true;
}

// ---- inference requests ---------------------------------------------------------------------------------------------

// Inputs stay in the body if all are there as aligned bytes. A lone input in shared memory stays there if the GPU reads
// it in place. Otherwise all inputs are copied into new memory.
static bool place_inputs(const struct body *body, const struct infer_inputs *inputs,
                         const struct infer_memory *memory) {
  struct job *job = body->job;
  if (infer_inputs_bind(inputs, body->asked)) return true;
  const struct region_ref *shared = infer_inputs_shared(inputs);
  if (shared && source_open(job, shared) && source_reach(job, body->gpu)) return true;
  if (job->shared) region_close(&job->shared->source);
  if (!acquire_rows(body, infer_inputs_bytes(inputs))) return false;
  if (!infer_inputs_copy(inputs, memory, job->held.rows->data, body->asked, body->error)) return false;
  infer_inputs_loss(inputs, body->asked, memory->stop, &job->loss);
  job_use_rows(job);
  return true;
}

static void shorten_deadline(struct job *job) {
  int64_t asked_ns = job->queued_ns + job->asked.timeout_ms * NS_PER_MS;
  if (job->asked.timeout_ms && asked_ns < job->deadline_ns) job->deadline_ns = asked_ns;
}

static bool read_inference(const struct body *body) {
  struct job *job = body->job;
  struct infer_body inference;
  const struct infer_memory memory = {shared_read, job, &job->stop};
  const char *bytes = bytes_of(job);
  size_t size = (size_t)job->held.body_bytes;
  if (!job_acquire_scratch(job, infer_json_cost(bytes, infer_json_bytes(job->infer, size)))) return false;
  bool good = infer_read(&inference, bytes, size, &memory, job->infer, body->asked, body->error) &&
              place_inputs(body, &inference.inputs, &memory) &&
              job_request_split(body->asked, vx_sizes_of(&body->asked->job).rows, body->error);
  infer_end(&inference);
  job_release_scratch(job);
  if (!good || !body->asked->stream.name[0] || !body->asked->latest[0]) return good;
  return error_refuse(body->error, ERROR_BAD_PARAMETER, "latest",
                      "latest is given for a sweep of a stream; allowed under /v1, which keeps a superseded sweep");
}

static bool open_inference(struct body *body) {
  struct job *job = body->job;
  if (!read_inference(body)) return false;
  shorten_deadline(job);
  char *shared = source_rows(job);
  body->rows = shared ? shared : input_at(job, body->asked->job.inputs[0].data);
  return sinks_open(job);
}

// ---- all together ---------------------------------------------------------------------------------------------------

static bool open_container(struct body *body) {
  const struct job *job = body->job;
  enum body_format format = body->asked->format;
  if (job->infer) return open_inference(body);
  bool stripped = job->spec.form && job->held.input && body_may_be_stripped(job_body(job), job->held.body_bytes);
  if (format == FORMAT_RAW) return open_raw(body);
  if (format == FORMAT_SAFETENSORS ? open_tensors(body) : open_file(body)) return true;
  return stripped && body->error->kind == ERROR_BAD_BODY ? error_suffix(body->error, STRIPPED_FORM) : false;
}

// ---- its columns ----------------------------------------------------------------------------------------------------

// Widens the rows to float32.
static bool widen(struct body *body) {
  struct job *job = body->job;
  struct job_request *asked = body->asked;
  struct vx_input *points = &asked->job.inputs[VX_POINTS];
  int64_t values = points->dims[0] * asked->num_features;
  if (!acquire_rows(body, (size_t)values * sizeof(float))) return false;
  float *out = (float *)(void *)job->held.rows->data;
  rows_widen(asked, body->rows, &job->stop, out, &job->loss);
  job_use_rows(job);
  points->dtype = VX_FLOAT32;
  body->rows = job->held.input->data;
  return true;
}

// Finds how the run must move the points. Sweeps of a stream are moved when they are joined.
static bool deskew(const struct body *body) {
  struct job *job = body->job;
  const struct job_request *asked = body->asked;
  const struct pose *mount = asked->stream.mount_numbers.count ? &asked->stream.mount : &pose_identity;
  if (!job_request_deskews(asked) || asked->stream.name[0]) return true;
  struct vx_motion *motion = pool_take(&job->asked.pool, sizeof *motion);
  if (!motion) return pool_refuse(body->error);
  job->deskewed.points = (struct vx_deskew){.times = (const float *)(void *)job->held.times->data, .motion = motion};
  return deskew_motion(asked, mount, motion, body->error);
}

static bool take_columns(struct body *body) {
  struct job *job = body->job;
  const struct job_request *asked = body->asked;
  bool timed = times_are_read(asked), wide = job_request_widens(asked) || (timed && vx_is_narrow(asked->dtype));
  if (!body->rows || asked->job.inputs[VX_POINTS].dims[0] == 0) return true;
  if (timed && !body->times.values) {
    if (!acquire_times(body)) return false;
    times_from_rows(asked, value_find_name(asked->fields, asked->time.field, strlen(asked->time.field)), body->rows,
                    &job->stop, &body->times);
  }
  if (wide && !widen(body)) return false;
  if (asked->intensity_scale != 0)
    cloud_scale(asked, body->has_names ? body->intensity : cloud_intensity(asked), &job->stop, body->rows);
  if (timed) times_convert(asked, &body->times, body->rows, &job->stop, &job->deskewed);
  return !timed || deskew(body);
}

// Each step leaves in the input or in the source what the next step reads.
bool body_open(struct job *job, const struct device *gpu) {
  const struct job_request *asked = &job->asked;
  struct body body = {.job = job, .asked = &job->asked, .error = &job->result.error, .gpu = gpu};
  if (job->spec.coding && !decode(&body)) return false;
  if (asked->points_region.name[0] && !fetch(&body)) return false;
  if (sinks_take_answer(job) && !sinks_open(job)) return false;
  if (!open_container(&body)) return false;
  if (!take_columns(&body)) return false;
  job->points = body.rows ? body.rows : no_points;
  if (asked->max_age_ms)
    job->measured =
        stream_is_timed(asked) ? stream_time(asked) : (double)body.times.stamp_s + 1e-9 * body.times.stamp_ns;
  return true;
}

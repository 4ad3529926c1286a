// See run.h. The steps of job_run, in their order:
//
//   open_body       The body becomes rows of points, or the job goes to other lanes.
//   join_stream     A job of a stream waits for its turn, and joins its sweep with earlier ones.
//   prepare         Makes the job of the kernels, and chooses the kind of the answer.
//   run_lanes       A GPU or the CPU computes. The backend calls inspect and provide_output.
//   write_answer    Puts the header in front of the tensors, or writes a file; encode_answer compresses it.
//   job_release     Releases everything but the answer.
#include "server/jobs/run.h"

#include "api/wire/infer_answer.h"
#include "server/base/base.h"
#include "server/base/log.h"
#include "server/jobs/body_open.h"
#include "server/jobs/held.h"
#include "server/jobs/helpers.h"
#include "server/jobs/shared.h"
#include "server/jobs/sweeps.h"

// ---- what the backend asks ------------------------------------------------------------------------------------------

static const char too_large[] = "the answer would have %zu bytes; allowed: up to %zu";

// Inspects the points as they were sent: steps may have changed those of job->work. With a sample, reads only its bytes
// or, with `note`, notes which bytes to read.
static void inspect_points(struct job *job, struct view_sample *sample, bool note) {
  struct vx_input points = job->asked.job.inputs[VX_POINTS];
  points.data = job->points;
  struct points_view view = {.points = &points,
                             .num_clouds = job->work.num_clouds,
                             .point_counts = job->work.point_counts,
                             .body_columns = job->asked.num_features,
                             .read = source_rows(job) ? source_peek : NULL,
                             .ctx = job,
                             .only_reads = note};
  if (sample) view.read = note ? view_note : view_read;
  if (sample) view.ctx = sample;
  struct inspection *inspected = &job->result.answer.inspected;
  if (job->asked.format == FORMAT_RAW) *inspected = body_inspect(&view, job->spec.form);
  inspected->seen = points_inspect(&view, &job->asked.expected);
}

// Whether the facts of the metadata are known in provide_output: a voxelization counts nothing later.
static bool keeps_facts(const struct job *job) { return job->result.kind->reserve && job->work.op == VX_VOXELIZE; }

// Inspects the points once, for warnings, while a GPU that runs the job works.
static void inspect(void *ctx) {
  struct job *job = ctx;
  struct inspection *inspected = &job->result.answer.inspected;
  if (job->inspected) return;
  job->inspected = true;
  if (vx_operations[job->work.op].items == VX_POINT_ITEMS)
    inspect_points(job, job->shared ? source_sample_end(job) : NULL, false);
  inspected->ahead_ms = -job->age_ms;
  inspected->loss = &job->loss;
  inspected->deskewed = job_request_deskews(&job->asked) ? &job->deskewed : NULL;
  inspected->joined = sweeps_are_joined(job) ? &job->stream->joined : NULL;
  if (keeps_facts(job)) answer_begin_facts(&job->result.answer, &job->asked.pool);
}

// If the points are in GPU memory, the GPU copies a sample of them before the job, so that inspecting need not wait for
// the job.
static void sample_block(struct job *job, struct view_sample *sample) {
  bool in_block = source_rows(job) && region_gpu(&job->shared->source);
  if (job->inspected || !in_block || vx_operations[job->work.op].items != VX_POINT_ITEMS) return;
  sample->count = sample->next = 0;
  inspect_points(job, sample, true);
  source_sample_begin(job, sample);
}

static bool refuse_cut(struct job *job) {
  return error_refuse(&job->result.error, ERROR_DEFECT, NULL, "the answer is longer than was measured");
}

// If a GPU writes the answer to its own memory, writes the header early, so that the GPU copies it along with the
// tensors.
static bool write_head(struct job *job) {
  struct answer *answer = &job->result.answer;
  const struct job_shared *shared = job->shared;
  if (!answer->facts_kept || !sinks_take_answer(job) || !shared->in_place || !region_gpu(&shared->sink[0].part))
    return true;
  if (!job_acquire_output(job, job->head_bytes)) return false;
  job->work.head = job->held.output->data;
  job->work.head_bytes = job->head_bytes;
  return job->result.kind->frame(answer, &job->tensor_layout, job->held.output->data, job->head_bytes, NULL) ||
         refuse_cut(job);
}

// The backend calls it once the sizes of the tensors are known. If the tensors are a part of the answer, they lie after
// its header; the size of the header is a multiple of their alignment. The header has the warnings, so the points are
// inspected first.
static enum vx_status provide_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct job *job = ctx;
  const struct answer_kind *kind = job->result.kind;
  inspect(job);
  job->tensor_layout = *layout;
  if (keeps_facts(job)) answer_keep_facts(&job->result.answer, &job->asked.pool);
  job->result.answer.untimed = keeps_facts(job) && job_gpu(job) && sinks_take_answer(job);
  job->head_bytes = kind->reserve ? kind->reserve(&job->result.answer, layout) : 0;
  job->output_refused = true;
  size_t most = job->services->max_response_bytes;
  if (layout->bytes > most || job->head_bytes > most - layout->bytes)
    return vx_refuse(error, too_large, layout->bytes, most);
  job->result.length = job->head_bytes + layout->bytes;
  bool is_file = kind->write && sinks_take_answer(job);  // its length is known once it is written
  if (job->shared && !is_file && !sinks_reserve(job)) return VX_REFUSED;
  job->work.output_ptrs = NULL;
  job->work.head = NULL;
  char *memory = job->shared ? sinks_reach(job) : NULL;
  job->work.pinned = memory || source_rows(job);
  if (!memory && !job_acquire_output(job, job->result.length)) return VX_OUT_OF_MEMORY;
  if (!memory) memory = job->held.output->data;
  if (job_gpu(job) && !write_head(job)) return VX_OUT_OF_MEMORY;
  job->output_refused = false;
  *block = memory + job->head_bytes;
  return VX_OK;
}

static bool allow_scratch(void *ctx, size_t bytes) {
  struct job *job = ctx;
  return job_acquire_scratch(job, bytes);  // clears the refusal of an earlier, larger request
}

static const struct vx_caller caller = {provide_output, allow_scratch, job_is_stopped, helpers_parallel_for, inspect};
static const struct vx_caller caller_alone = {provide_output, allow_scratch, job_is_stopped, NULL, inspect};

// Tracks need an answer with boxes. Until the tracks are counted, the header has room for the largest counts.
static bool prepare_tracks(struct job *job) {
  const int32_t most = VX_MAX_TRACKS;
  if (job->work.op != VX_DETECT || !job->work.params.detect.track) return true;
  job->work.tracked = (struct vx_track_counts){false, most, most, most, most};
  return (job->work.tensors & VX_TRACK_TENSORS) != 0 ||
         error_refuse(&job->result.error, ERROR_BAD_PARAMETER, "track",
                      "track is yes, but an answer of %s has no boxes; allowed: other kinds of answer",
                      job->result.kind->media_type);
}

static bool prepare(struct job *job, const struct lanes *lanes, int64_t now_ns) {
  job->work = job_request_job(&job->asked, job->points);
  job->work.caller = lanes->alone ? &caller_alone : &caller;
  job->work.ctx = job;
  job->work.row_counts = pool_take(&job->asked.pool, (size_t)job->work.num_clouds * sizeof *job->work.row_counts);
  job->work.deskew = job->deskewed.points.motion ? &job->deskewed.points : NULL;
  if (job->work.chain) job->work.report = pool_take(&job->asked.pool, sizeof *job->work.report);
  if (job->asked.pool.failed) return pool_refuse(&job->result.error);
  job->result.kind = job_answer_kind(job);
  job->work.tensors = job->result.kind->tensors(&job->asked);
  if (!prepare_tracks(job)) return false;
  job->tensor_layout.tensors = 0;  // if there are no tensors, provide_output is not called
  job->tensor_layout.bytes = 0;
  job->result.answer = (struct answer){
      .request_id = job->spec.id,
      .request = &job->asked,
      .job = &job->work,
      .receive_ns = job->queued_ns - job->spec.started_ns,
      .queue_ns = now_ns - job->queued_ns,
      .trace_id = job->spec.trace_id,
      .infer = job->infer,
      .stop = &job->stop,
  };
  job->work.pinned = source_rows(job) != NULL;
  job->inspected = false;
  if (sweeps_are_joined(job)) sweeps_count(job);
  job->result.begun = true;
  job->output_refused = false;
  return true;
}

// ---- the lanes ------------------------------------------------------------------------------------------------------

static enum vx_status run_on(struct job *job, struct device *device, struct vx_lane *lane, struct error *error) {
  struct view_sample sample;
  job->result.device = device;
  job->result.answer.backend = device->backend->name;
  job->result.answer.device = device->description.name;
  job->result.answer.facts.length = 0;
  if (job->shared) job->shared->lane = lane;
  atomic_fetch_add(&device->running, 1);
  if (job->shared) sample_block(job, &sample);
  enum vx_status status = device->backend->run(lane, &job->work, error);
  inspect(job);  // does nothing if the run has inspected the points; `sample` lives until here
  atomic_fetch_sub(&device->running, 1);
  return status;
}

static bool bring_points(struct job *job) {
  if (!source_copy(job)) return false;
  job->points = job->work.inputs[VX_POINTS].data = job->held.input->data;
  job->work.pinned = false;
  return true;
}

// If the owner shortened a region meanwhile, the job runs again, and the region is copied.
static enum vx_status run_on_gpu(struct job *job, const struct lanes *lanes, struct error *error) {
  enum vx_status status = run_on(job, lanes->gpu, lanes->on_gpu, error);
  while (job->shared && !shared_verify(job) && status == VX_OK) {
    job_release_buffer(&job->held.output);
    job->output_refused = source_rows(job) && !bring_points(job);
    if (job->output_refused) return VX_REFUSED;
    status = run_on(job, lanes->gpu, lanes->on_gpu, error);
  }
  return status;
}

static void tell(struct job *job, struct device *gpu, bool trial, enum device_outcome outcome, const char *reason) {
  struct job_services *services = job->services;
  if (device_tell(services->devices, gpu, trial, outcome, reason, clock_ns()))
    services->gpu_changed(services->jobs, false);
}

// A network that fails on a GPU runs on the CPU from then on.
static void vacate_session(const struct job *job, const struct lanes *lanes, const char *reason) {
  struct log_line line;
  sessions_vacate(detector_sessions(job->held.detector), lanes->on_gpu, reason);
  log_begin(&line, LOG_WARNING, "a network does not run");
  log_string(&line, "model", detector_name(job->held.detector));
  log_string(&line, "device", lanes->gpu->description.name);
  log_integer(&line, "index", lanes->gpu->index);
  log_string(&line, "error", reason);
  log_string(&line, "effect", "it runs on the CPU until a reload replaces the model");
  log_end(&line);
}

// A network has its own limit of memory and its own failures.
static bool is_to_blame(const struct job *job, enum vx_status status) {
  bool of_network = job->work.op == VX_DETECT && (status == VX_FAILED || status == VX_OUT_OF_MEMORY);
  return !job->result.error.kind && !of_network;  // the server's budget is not the GPU's fault
}

static void report(struct job *job, struct device *gpu, bool trial, enum vx_status status, const char *reason) {
  struct job_services *services = job->services;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "a GPU failed a job");
  log_string(&line, "id", job->spec.id);
  log_string(&line, "device", gpu->description.name);
  log_integer(&line, "index", gpu->index);
  log_string(&line, "failure", failure_name(status));
  log_string(&line, "error", reason);
  log_end(&line);
  counters_rerun(services->counters, status);
  if (status == VX_DEVICE_LOST && device_mark_lost(services->devices, gpu, reason))
    services->gpu_changed(services->jobs, true);
  tell(job, gpu, trial, is_to_blame(job, status) ? DEVICE_FAILED : DEVICE_UNDECIDED, reason);
}

// If the lanes' GPU cannot run the job or fails, the CPU runs it.
static enum vx_status run_lanes(struct job *job, const struct lanes *lanes, struct error *error) {
  struct device *gpu = lanes->gpu;
  enum vx_status gpu_status = VX_OK;
  struct error gpu_error = {0};
  bool trial = false;
  bool may_run = gpu && (!job_gpu(job) || job_gpu(job) == gpu);
  if (may_run && gpu->backend->runs(&job->work) && device_take(job->services->devices, gpu, clock_ns(), &trial)) {
    gpu_status = run_on_gpu(job, lanes, error);
    if (gpu_status == VX_OK || gpu_status == VX_STOPPED || job->output_refused) {
      tell(job, gpu, trial, gpu_status == VX_OK ? DEVICE_DID : DEVICE_UNDECIDED, "");
      return gpu_status;
    }
    job_release_buffer(&job->held.output);
    gpu_error = *error;
    if (gpu_status == VX_FAILED) vacate_session(job, lanes, gpu_error.text);
    if (gpu_status != VX_REFUSED) report(job, gpu, trial, gpu_status, gpu_error.text);
  }
  if (vx_operations[job->work.op].needs_detector) job->work.params.detect.session = NULL;
  if (!lanes->alone) job->work.helpers = helpers_idle(job->services->helpers);
  job->result.error.kind = ERROR_NONE;  // the CPU may not need the memory that the GPU could not get
  bool reachable = !source_rows(job) || bring_points(job);
  enum vx_status status = reachable ? run_on(job, &job->services->devices->cpu, lanes->on_cpu, error) : VX_REFUSED;
  // If the CPU completes a job that the GPU refused, the GPU is at fault. Otherwise that is unknown.
  if (gpu_status == VX_REFUSED && status == VX_OK) report(job, gpu, trial, gpu_status, gpu_error.text);
  if (gpu_status == VX_REFUSED && status != VX_OK) tell(job, gpu, trial, DEVICE_UNDECIDED, "");
  return status;
}

// ---- the result -----------------------------------------------------------------------------------------------------

// The parameter that the error names, or NULL. A backend refuses a sampling only for too many samples.
static const char *parameter_at_fault(const struct job *job, enum vx_status status) {
  bool sampled = vx_sampling_of(&job->work) != NULL;
  return status == VX_REFUSED && !job->output_refused && sampled ? operations[job->work.op]->samples : NULL;
}

// Whether the job was stopped. If so, replaces its error, which may be a consequence of the stop.
static bool was_stopped(struct job *job) {
  struct error error;
  return vx_stop_status(&job->stop, &error) == VX_STOPPED && !job_refuse_stopped(job, error.text);
}

static bool failed(struct job *job, enum vx_status status, const struct error *error) {
  if (status == VX_STOPPED) return job_refuse_stopped(job, error->text);
  if (job->result.error.kind) return false;  // there was no memory for the answer or the scratch
  return error_refuse(&job->result.error, (enum error_kind)status, parameter_at_fault(job, status), "%s", error->text);
}

// Writes an answer that is a file with a copy of the tensors, if there are any. Releases the body's memory, moves the
// tensors' memory to held.input, and then acquires the file's memory.
static bool write_file(struct job *job) {
  const struct answer_kind *kind = job->result.kind;
  struct text text = text_over(NULL, 0);
  if (!job->result.answer.facts_kept) answer_keep_facts(&job->result.answer, &job->asked.pool);
  if (!kind->write(&job->result.answer, &job->tensor_layout, NULL, &text, &job->result.error)) return false;
  size_t size = text.length + 1;  // with a NUL at the end
  if (job->work.tensors && text.length > job->services->max_response_bytes)
    return error_refuse(&job->result.error, ERROR_IMPOSSIBLE, NULL, too_large, text.length,
                        job->services->max_response_bytes);
  job_release_buffer(&job->held.input);
  job->held.input = job->held.output;
  job->held.output = NULL;
  if (!job_acquire_output(job, size)) return false;
  text = text_over(job->held.output->data, size);
  bool written = kind->write(&job->result.answer, &job->tensor_layout, job->held.input ? job->held.input->data : NULL,
                             &text, &job->result.error);
  job->result.length = text.length;  // the measured length may be more
  return written && (text_complete(&text) || refuse_cut(job));
}

// The JSON about an answer in a region. Writes over the header that the GPU copied, if the JSON fits; else into new
// memory.
static bool write_told(struct job *job) {
  const struct buffer *output = job->held.output;
  struct text text = text_over(output->data, job->work.head ? output->capacity : 0);
  (void)!job->result.kind->write(&job->result.answer, &job->tensor_layout, NULL, &text, &job->result.error);
  job->result.length = text.length;
  return text_complete(&text) || write_file(job);
}

static bool write_answer(struct job *job) {
  struct answer *answer = &job->result.answer;
  answer->total_ns = clock_ns() - job->spec.started_ns;
  if (job->work.head) return true;
  if (job->result.kind->frame) {
    bool apart = !job->held.output;  // a GPU has written the tensors to a region
    if (apart && !job_acquire_output(job, job->head_bytes)) return false;
    char *block = job->held.output->data;
    return job->result.kind->frame(answer, &job->tensor_layout, block, job->head_bytes,
                                   apart ? NULL : block + job->head_bytes) ||
           refuse_cut(job);
  }
  answer->began_ns = answer_is_stable(answer) ? 0 : clock_wall_ns() - answer->total_ns;
  if (!write_file(job)) return false;
  if (!job->work.tensors) return true;
  answer->encode_ns = clock_ns() - job->spec.started_ns - answer->total_ns;
  answer->total_ns += answer->encode_ns;
  return true;
}

// ---- the answer's coding --------------------------------------------------------------------------------------------

enum { SMALLEST_ENCODED = 1024 };  // smaller answers fit one packet anyway

static size_t encode_into(struct job *job, struct buffer *coded) {
  struct coders *coders = job->services->coders;
  struct encoder *encoder = coders_acquire_encoder(coders, job->spec.answer_coding);
  if (!encoder) return 0;
  const struct coding_step step = {job->held.output->data, job->result.length, coded->data, job->result.length - 1};
  size_t length = encoder_run(encoder, step, job_is_stopped, job);
  coders_release_encoder(coders, encoder);
  return length;
}

static void find_ranges(struct job *job) {
  struct job_result *result = &job->result;
  result->ranges = infer_ranges(job->infer, &job->tensor_layout, job->head_bytes, result->range);
  result->length = 0;
  for (int i = 0; i < result->ranges; i++) result->length += result->range[i].bytes;
}

// The answer stays as it is if encoding does not make it smaller, no memory is free, or the time is up.
static void encode_answer(struct job *job) {
  struct job_result *result = &job->result;
  struct buffer **output = &job->held.output, *coded = NULL;
  struct shortage shortage;
  size_t length = 0;
  int64_t began_ns = clock_ns();
  job_release_buffer(&job->held.input);
  if (result->ranges) (void)ranges_join((*output)->data, result->range, result->ranges);
  result->ranges = 0;
  if (result->length >= SMALLEST_ENCODED)
    coded = buffer_acquire(job->services->buffers, job->client, SHARE_BYTES, result->length - 1, (*output)->capacity,
                           &shortage);
  if (coded) length = encode_into(job, coded);
  if (!length) {
    job_release_buffer(&coded);
    return;
  }
  job_release_buffer(output);
  *output = coded;
  result->length = length;
  result->coding = job->spec.answer_coding;
  int64_t took_ns = clock_ns() - began_ns;
  result->answer.encode_ns += took_ns;
  result->answer.total_ns += took_ns;
}

static void count(struct job *job) {
  struct vx_counts counts = job->work.counts;
  if (!job->work.tensors) counts.sampled = 0;  // no samples were chosen
  atomic_fetch_add(&job->result.device->answered, 1);
  if (job->shared) shared_count(job);
  counters_job(job->services->counters, &counts, &job->result.answer);
}

static bool is_in_time(struct job *job, int64_t now_ns) {
  return !job_is_stale(job, now_ns) ||
         job_refuse_after(job, ERROR_DEADLINE, "the deadline passed before the job began");
}

// Points from the future have a negative age.
static void find_age(struct job *job) {
  if (!job->asked.max_age_ms || job->spared) return;
  job->age_ms = (double)clock_wall_ns() / NS_PER_MS - job->measured * 1000;
  if (job->age_ms > job->asked.max_age_ms) job->spared = ERROR_TOO_OLD;
}

static bool refuse_spared(struct job *job) {
  if (job->spared == ERROR_SUPERSEDED)
    return job_refuse_after(job, ERROR_SUPERSEDED, "the sweep is kept, but a newer request with the same latest came");
  return error_refuse(&job->result.error, ERROR_TOO_OLD, "max_age_ms", "%sthe points are %.0f ms old; max_age_ms is %d",
                      job->stream ? "the sweep is kept, but " : "", job->age_ms, job->asked.max_age_ms);
}

static bool run(struct job *job, const struct lanes *lanes) {
  struct error error = {0};
  int64_t now_ns = clock_ns();
  if (job->spared) return refuse_spared(job);
  if (!is_in_time(job, now_ns) || !job_may_fit(job, &job->result.error)) return false;
  if (!prepare(job, lanes, now_ns)) return false;
  enum vx_status status = run_lanes(job, lanes, &error);
  job_release_scratch(job);
  if (status != VX_OK) return failed(job, status, &error);
  if ((job->stream && !sweeps_track(job)) || (job->shared && !sinks_commit_tensors(job))) return false;
  bool written = write_answer(job);
  if (was_stopped(job) || !written) return false;
  if (sinks_take_answer(job) && !(sinks_commit_answer(job) && write_told(job))) return false;
  if (job->result.kind == &infer_binary) find_ranges(job);
  if (job->spec.answer_coding && job->result.kind != &answer_of_region) encode_answer(job);
  count(job);
  return true;
}

// If the body needs other lanes, or those of a certain GPU, acquires a slot in their queue.
static bool open_body(struct job *job, const struct device *gpu, enum vx_lane_use use, bool *elsewhere) {
  if (job->points) return true;
  if (!is_in_time(job, clock_ns())) return false;
  bool open = body_open(job, gpu);
  if (was_stopped(job) || !open) return false;
  const struct device *wanted = job_gpu(job);
  *elsewhere = job_lane_use(job) != use || (wanted && wanted != gpu && device_state(wanted) == DEVICE_WORKING);
  return !*elsewhere || job_acquire_queue_slot(job);
}

// An inference request names its stream in the body, so it may have to wait now.
static bool join_stream(struct job *job, bool *waits) {
  if (!sweeps_are_joined(job)) return find_age(job), true;
  enum stream_entry entry = sweeps_begin(job, false);
  *waits = entry == STREAM_WAITS;
  if (entry == STREAM_TURN) find_age(job);
  bool joined = entry == STREAM_TURN && sweeps_join(job);
  return !was_stopped(job) && joined;
}

static bool make(struct job *job) {
  int64_t now_ns = clock_ns();
  if (!is_in_time(job, now_ns) || !job->spec.make(job)) return false;
  job->result.answer = (struct answer){.backend = job->services->devices->cpu.backend->name,
                                       .receive_ns = job->queued_ns - job->spec.started_ns,
                                       .queue_ns = now_ns - job->queued_ns,
                                       .total_ns = clock_ns() - job->spec.started_ns};
  return true;
}

enum job_step job_run(struct job *job, const struct lanes *lanes, enum vx_lane_use use) {
  bool elsewhere = false, waits = false;
  job->stop = (struct vx_stop){job_is_stopped, job, 0, false};
  job_release_queue_slot(job);
  if (job->spec.make) {
    job->result.begun = true;
    job->result.answered = make(job);
    job_release(job);
    return JOB_RAN;
  }
  if (job->held.detector)
    job->asked.job.params.detect.session = sessions_on(detector_sessions(job->held.detector), lanes->on_gpu);
  bool ready = open_body(job, lanes->gpu, use, &elsewhere);
  if (ready && elsewhere) return JOB_ELSEWHERE;
  ready = ready && join_stream(job, &waits);
  if (waits) return JOB_WAITS;
  job->result.answered = ready && run(job, lanes);
  job_release(job);
  return JOB_RAN;
}

void job_release(struct job *job) {
  job_release_queue_slot(job);
  job_release_buffer(&job->held.input);
  job_release_buffer(&job->held.rows);
  job_release_buffer(&job->held.times);
  job_release_decoder(job);
  job_release_scratch(job);
  if (job->held.detector) detector_release(job->held.detector);
  job->held.detector = NULL;
  if (job->shared) shared_release(job);
  if (job->stream) sweeps_end(job);
  if (!job->result.answered) job_release_buffer(&job->held.output);
}

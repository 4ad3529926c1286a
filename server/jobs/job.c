// One job on a lane, or on two where the first fails: the worker's side of a request. The worker owns the request from
// REQUEST_QUEUED until it resumes the connection; the output buffer that is taken here goes with the answer.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/daemon/server.h"
#include "server/http/request.h"

// Called by the backend once the tensors' sizes are known: one buffer holds the file's header and the tensors behind it.
static enum vx_status provide_output(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  struct request *request = cls;
  struct server *server = request->server;
  request->layout = *layout;
  request->header_reserve = answer_header_reserve(&request->answer, layout);
  request->output_refused = true;
  size_t most = (size_t)server->options.max_response_bytes;
  if (layout->bytes > most || request->header_reserve > most - layout->bytes) {
    snprintf(error->text, sizeof error->text, "the answer would have %zu bytes; allowed: up to %zu", layout->bytes,
             most);
    return VX_REFUSED;
  }
  request->output_length = request->header_reserve + layout->bytes;
  if (!request_take_output(request, request->output_length)) return VX_OUT_OF_MEMORY;
  request->output_refused = false;
  *block = request->output->data + request->header_reserve;
  return VX_OK;
}

static bool allow_scratch(void *cls, size_t bytes) { return request_take_scratch(cls, bytes); }

// Called by the backend while it samples.
static bool is_stopped(void *cls) {
  const struct request *request = cls;
  return request_is_stale(request, clock_ns()) || atomic_load(&request->server->hurry);
}

static const struct vx_caller caller = {provide_output, allow_scratch, is_stopped};

static void prepare(struct request *request, int64_t now_ns) {
  static _Alignas(VX_TENSOR_ALIGNMENT) const char no_points[VX_TENSOR_ALIGNMENT];
  request->job = job_request_job(&request->asked, request->input ? request->input->data : no_points);
  request->job.caller = &caller;
  request->job.cls = request;
  request->job.row_counts = request->row_counts;
  if (request->metadata_only) request->job.tensors = 0;
  request->answer = (struct answer){
      .request_id = request->id,
      .request = &request->asked,
      .job = &request->job,
      .receive_ns = request->queued_ns - request->started_ns,
      .queue_ns = now_ns - request->queued_ns,
      .trace_id = trace_is_clients(&request->trace) ? request->trace.trace_id : NULL,
  };
  request->output_refused = false;
}

static bool write_metadata(struct request *request) {
  struct text text = text_over(NULL, 0);
  answer_metadata(&request->answer, false, &text);
  size_t size = text.length + 2;  // a newline and the builder's NUL
  if (!request_take_output(request, size)) return false;
  text = text_over(request->output->data, size);
  answer_metadata(&request->answer, false, &text);
  text_put(&text, "\n");
  request->output_length = text.length;
  return true;
}

// What a backend refuses of a sampling is how much of it was asked for.
static const char *parameter_at_fault(const struct request *request, enum vx_status status) {
  bool sampled = vx_sampling_of(&request->job) != NULL;
  return status == VX_REFUSED && !request->output_refused && sampled ? operation_of(request->job.op)->samples : NULL;
}

static bool ended_early(struct request *request, const struct vx_error *error) {
  if (atomic_load(&request->server->hurry))
    return problem_set(&request->problem, PROBLEM_DRAINING, NULL, DRAIN_IS_OVER);
  return problem_set(&request->problem, PROBLEM_DEADLINE, NULL, "%s, after %lld ms", error->text,
                     (long long)((clock_ns() - request->queued_ns) / NS_PER_MS));
}

static bool failed(struct request *request, enum vx_status status, const struct vx_error *error) {
  static const enum problem_kind kinds[] = {
      [VX_REFUSED] = PROBLEM_IMPOSSIBLE, [VX_OUT_OF_MEMORY] = PROBLEM_MEMORY_FULL, [VX_DEVICE_LOST] = PROBLEM_DEFECT};
  if (status == VX_STOPPED) return ended_early(request, error);
  if (request->problem.kind) return false;  // there was no room for the answer
  return problem_set(&request->problem, kinds[status], parameter_at_fault(request, status), "%s", error->text);
}

// ---- the lanes --------------------------------------------------------------------------------------------------------

static enum vx_status run_on(struct request *request, struct device *device, struct vx_lane *lane,
                             struct vx_error *error) {
  request->device = device;
  request->answer.backend = device->backend->name;
  request->answer.device = device->description.name;
  atomic_fetch_add(&device->running, 1);
  enum vx_status status = device->backend->run(lane, &request->job, error);
  atomic_fetch_sub(&device->running, 1);
  return status;
}

// A GPU did not do its job. If it never will again, that is told once, and the others take over.
static void report(struct request *request, struct device *gpu, enum vx_status status, const char *reason) {
  struct server *server = request->server;
  struct log_line line;
  log_begin(&line, LOG_WARNING, "a GPU failed a job");
  log_string(&line, "id", request->id);
  log_string(&line, "device", gpu->description.name);
  log_integer(&line, "index", gpu->index);
  log_string(&line, "failure", metrics_failure_name(status));
  log_string(&line, "error", reason);
  log_end(&line);
  metrics_rerun(&server->metrics, status);
  if (status != VX_DEVICE_LOST || !device_lose(&server->devices, gpu, reason)) return;
  bool restart = server->options.on_device_lost == LOST_EXIT;
  log_event(LOG_ERROR, "a GPU is lost", "effect", restart ? "drain and exit" : "its jobs go to other devices");
  workers_wake(&server->workers);
  if (!restart || atomic_exchange(&server->must_restart, true)) return;
  kill(getpid(), SIGNAL_DEVICE_LOST);  // main waits for it
}

// What the GPU fails to do, the CPU does, and writes the same bytes.
static enum vx_status run_lanes(struct request *request, struct worker *worker, struct vx_error *error) {
  struct device *gpu = worker->gpu;
  enum vx_status gpu_status = VX_OK;
  struct vx_error gpu_error = {""};
  if (gpu && gpu->backend->runs(request->job.op) && !device_is_lost(gpu)) {
    gpu_status = run_on(request, gpu, worker->gpu_lane, error);
    if (gpu_status == VX_OK || gpu_status == VX_STOPPED || request->output_refused) return gpu_status;
    if (request->output) buffer_give(request->output);
    request->output = NULL;
    gpu_error = *error;
    if (gpu_status != VX_REFUSED) report(request, gpu, gpu_status, gpu_error.text);
  }
  enum vx_status status = run_on(request, &request->server->devices.cpu, worker->cpu_lane, error);
  // What both refuse is the request's fault.
  if (gpu_status == VX_REFUSED && status != VX_REFUSED) report(request, gpu, gpu_status, gpu_error.text);
  return status;
}

// ---- the job ----------------------------------------------------------------------------------------------------------

static void count(struct request *request) {
  struct vx_counts counts = request->job.counts;
  if (request->metadata_only) counts.sampled = 0;  // they were not chosen
  atomic_fetch_add(&request->device->answered, 1);
  metrics_job(&request->server->metrics, &counts, &request->answer);
}

static bool run(struct request *request, struct worker *worker) {
  struct vx_error error = {""};
  int64_t now_ns = clock_ns();
  if (request_is_stale(request, now_ns))
    return problem_set(&request->problem, PROBLEM_DEADLINE, NULL, "the job waited %lld ms and had not begun",
                       (long long)((now_ns - request->queued_ns) / NS_PER_MS));
  request->begun = true;
  prepare(request, now_ns);
  enum vx_status status = run_lanes(request, worker, &error);
  request_give_scratch(request);
  if (status != VX_OK) return failed(request, status, &error);
  request->answer.total_ns = clock_ns() - request->started_ns;
  if (request->metadata_only) {
    if (!write_metadata(request)) return false;
  } else {
    answer_frame_write(&request->answer, &request->layout, request->output->data, request->header_reserve);
  }
  count(request);
  return true;
}

void request_run(struct request *request, struct worker *worker) {
  request_to(request, REQUEST_RUNNING);
  request_leave_place(request);
  request->output_ready = run(request, worker);
  // Memory goes back as early as it can: the answer may take long to send.
  request_give_input(request);
  if (!request->output_ready && request->output) buffer_give(request->output);
  if (!request->output_ready) request->output = NULL;
}

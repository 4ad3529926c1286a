// One job on one lane: the worker's side of a request. The worker owns the request from REQUEST_QUEUED until it resumes the
// connection; the output buffer that is taken here goes with the answer.
#include <stdio.h>
#include <string.h>

#include "server/clock.h"
#include "server/request.h"
#include "server/server.h"

// Called by the backend once the tensors' sizes are known: one buffer holds the file's header and the tensors behind it.
static enum vx_status provide_output(void *cls, const struct vx_layout *layout, void **block, struct vx_error *error) {
  struct request *request = cls;
  struct server *server = request->server;
  request->layout = *layout;
  request->header_reserve = answer_header_reserve(&request->answer, layout);
  size_t most = (size_t)server->options.max_response_bytes;
  if (layout->bytes > most || request->header_reserve > most - layout->bytes) {
    snprintf(error->text, sizeof error->text, "the answer would have %zu bytes; allowed: up to %zu", layout->bytes,
             most);
    return VX_REFUSED;
  }
  request->output_length = request->header_reserve + layout->bytes;
  request->output = buffer_take(&server->buffers, request->output_length);
  if (!request->output) {
    snprintf(error->text, sizeof error->text, "there is no buffer for an answer of %zu bytes now",
             request->output_length);
    return VX_OUT_OF_MEMORY;
  }
  *block = request->output->data + request->header_reserve;
  return VX_OK;
}

static void prepare(struct request *request, int64_t now_ns) {
  static _Alignas(VX_TENSOR_ALIGNMENT) const char no_points[VX_TENSOR_ALIGNMENT];
  struct server *server = request->server;
  request->job = (struct vx_voxelize_job){
      .params = request->voxelize.job,
      .points = request->input ? request->input->data : no_points,
      .num_clouds = request->voxelize.num_clouds,
      .point_counts = request->voxelize.point_counts,
      .output = provide_output,
      .output_cls = request,
      .voxel_counts = request->voxel_counts,
  };
  if (request->metadata_only) request->job.params.tensors = 0;
  request->answer = (struct answer){
      .request_id = request->id,
      .backend = server->backend->name,
      .device = server->description.name,
      .request = &request->voxelize,
      .job = &request->job,
      .receive_ns = request->queued_ns - request->started_ns,
      .queue_ns = now_ns - request->queued_ns,
  };
}

static bool write_metadata(struct request *request) {
  struct text text = text_over(NULL, 0);
  answer_metadata(&request->answer, &text);
  size_t size = text.length + 2;  // a newline and the builder's NUL
  request->output = buffer_take(&request->server->buffers, size);
  if (!request->output)
    return problem_set(&request->problem, PROBLEM_MEMORY_FULL, NULL,
                       "there is no buffer for an answer of %zu bytes now", size);
  text = text_over(request->output->data, size);
  answer_metadata(&request->answer, &text);
  text_put(&text, "\n");
  request->output_length = text.length;
  return true;
}

static bool failed(struct request *request, enum vx_status status, const struct vx_error *error) {
  static const enum problem_kind kinds[] = {
      [VX_REFUSED] = PROBLEM_IMPOSSIBLE, [VX_OUT_OF_MEMORY] = PROBLEM_MEMORY_FULL, [VX_DEVICE_LOST] = PROBLEM_DEFECT};
  return problem_set(&request->problem, kinds[status], NULL, "%s", error->text);
}

static void count(struct request *request) {
  int64_t spans[SPAN_COUNT] = {[SPAN_RECEIVE] = request->answer.receive_ns,
                               [SPAN_QUEUE] = request->answer.queue_ns,
                               [SPAN_TOTAL] = request->answer.total_ns};
  memcpy(&spans[SPAN_STAGES], request->job.stage_ns, sizeof request->job.stage_ns);
  metrics_job(&request->server->metrics, &request->job.counts, spans);
}

static bool run(struct request *request, struct vx_lane *lane) {
  struct vx_error error = {""};
  int64_t now_ns = clock_ns();
  if (request_is_stale(request, now_ns))
    return problem_set(&request->problem, PROBLEM_DEADLINE, NULL, "the job waited %lld ms and had not begun",
                       (long long)((now_ns - request->queued_ns) / NS_PER_MS));
  prepare(request, now_ns);
  enum vx_status status = request->server->backend->voxelize(lane, &request->job, &error);
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

void request_run(struct request *request, struct vx_lane *lane) {
  request_to(request, REQUEST_RUNNING);
  request->output_ready = run(request, lane);
  // Memory goes back as early as it can: the answer may take long to send.
  if (request->input) buffer_give(request->input);
  request->input = NULL;
  if (!request->output_ready && request->output) buffer_give(request->output);
  if (!request->output_ready) request->output = NULL;
}

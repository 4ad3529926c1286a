// See shared.h.
#include "server/jobs/shared.h"

#include <string.h>

#include "server/base/base.h"
#include "server/jobs/held.h"

// The parameters that name regions; an inference request has one for all.
static const char of_tensor[] = "shared_memory_region", of_points[] = "points_region", of_answer[] = "output_region";

static bool share(struct job *job, struct error *error) {
  if (job->shared) return true;
  job->shared = pool_take(&job->asked.pool, sizeof *job->shared);
  if (!job->shared) return pool_refuse(error);
  memset(job->shared, 0, offsetof(struct job_shared, sink));
  return true;
}

// All parts in GPU memory must lie on one GPU.
static bool choose_gpu(struct job *job, struct region_part *part, struct error *error) {
  const struct device *gpu = region_gpu(part), *other = job->shared->gpu;
  if (gpu) job->shared->gpu = gpu;
  if (!gpu || !other || gpu == other) return true;
  region_close(part);
  return error_refuse(error, ERROR_BAD_PARAMETER, part->parameter,
                      "the request names memory of GPU %d and of GPU %d; allowed: memory of one GPU", other->index,
                      gpu->index);
}

static bool open_part(struct job *job, const struct region_ref *ref, const char *parameter, struct region_part *part,
                      struct error *error) {
  struct regions *regions = job->services->regions;
  const struct region_user user = {job->client, job->spec.regions_registered};
  return job_may_use_state(job, error) && regions_allow(regions, REGION_KINDS, job->spec.local, error) &&
         region_open(regions, user, ref, parameter, part, error) && choose_gpu(job, part, error);
}

// ---- the source -----------------------------------------------------------------------------------------------------

bool shared_read(void *cls, const struct region_ref *ref, char *out, struct error *error) {
  struct job *job = cls;
  struct region_part part;
  if (!share(job, error) || !open_part(job, ref, of_tensor, &part, error)) return false;
  bool good = region_read(&part, out, error);
  region_close(&part);
  job->shared->copied++;
  return good;
}

bool source_open(struct job *job, const struct region_ref *ref) {
  const char *parameter = job->infer ? of_tensor : of_points;
  return share(job, &job->result.error) && open_part(job, ref, parameter, &job->shared->source, &job->result.error);
}

// Whether `gpu` will run the job, and nothing else reads its points.
static bool gpu_alone_reads(const struct job *job, const struct device *gpu) {
  struct vx_job work = job->asked.job;
  work.tensors = job_answer_kind(job)->tensors(&job->asked);
  return gpu && gpu->backend->host_pin && device_state(gpu) == DEVICE_WORKING && gpu->backend->runs(&work) &&
         job->asked.intensity_scale == 0 && !job->asked.time.field[0] && !job->asked.stream.name[0] &&
         !job_request_widens(&job->asked);
}

// False for a source beyond max_body_bytes: the caller checks the size before it copies, and refuses.
bool source_reach(struct job *job, const struct device *gpu) {
  struct region_part *source = &job->shared->source;
  if (job->shared->gpu) gpu = job->shared->gpu;
  return source->bytes <= job->services->max_body_bytes && gpu_alone_reads(job, gpu) &&
         region_device_ptr(source, source->bytes, gpu, false);
}

bool source_peek(void *cls, uint64_t at, size_t bytes, char *out) {
  const struct job *job = cls;
  return region_peek(&job->shared->source, at, bytes, out);
}

void source_sample_begin(struct job *job, struct view_sample *sample) {
  struct job_shared *shared = job->shared;
  struct error unread;
  shared->sample = sample;
  if (sample->count > 0 && shared->gpu->backend->block_sample(shared->lane, source_rows(job), sample->piece,
                                                              sample->count, &unread) != VX_OK)
    sample->count = 0;
}

struct view_sample *source_sample_end(struct job *job) {
  struct job_shared *shared = job->shared;
  struct view_sample *sample = shared->sample;
  struct error unread;
  if (!sample) return NULL;
  shared->sample = NULL;
  if (sample->count > 0 && shared->gpu->backend->block_await(shared->lane, &sample->bytes, &unread) != VX_OK)
    sample->count = 0;
  return sample;
}

bool source_copy(struct job *job) {
  struct region_part *source = &job->shared->source;
  bool good = job_acquire_rows(job, source->bytes) && region_read(source, job->held.rows->data, &job->result.error);
  region_close(source);
  if (!good) return false;
  job->shared->copied++;
  job_use_rows(job);
  return true;
}

// ---- the sinks ------------------------------------------------------------------------------------------------------

static bool add_sink(struct job *job, const struct region_ref *ref, const char *parameter, int tensor) {
  if (!share(job, &job->result.error)) return false;
  struct job_shared *shared = job->shared;
  struct sink *sink = &shared->sink[shared->sinks];
  if (!open_part(job, ref, parameter, &sink->part, &job->result.error)) return false;
  sink->tensor = tensor;
  shared->sinks++;
  return true;
}

bool sinks_open(struct job *job) {
  const struct infer *infer = job->infer;
  if (sinks_take_answer(job)) return add_sink(job, &job->asked.output_region, of_answer, WHOLE_ANSWER);
  for (int tensor = 0; infer && tensor < VX_TENSOR_COUNT; tensor++)
    if (infer->shared & VX_TENSOR_BIT(tensor) && !add_sink(job, &infer->regions[tensor], of_tensor, tensor))
      return false;
  return true;
}

// Bytes that go to the sink.
static size_t bytes_of(const struct job *job, const struct sink *sink) {
  return sink->tensor == WHOLE_ANSWER ? job->result.length : job->tensor_layout.shape[sink->tensor].bytes;
}

bool sinks_reserve(struct job *job) {
  for (int i = 0; i < job->shared->sinks; i++) {
    const struct sink *sink = &job->shared->sink[i];
    const char *what = sink->tensor == WHOLE_ANSWER ? "the answer" : vx_tensors[sink->tensor].name;
    size_t bytes = bytes_of(job, sink), room = sink->part.bytes;
    if (bytes > room)
      return error_refuse(&job->result.error, ERROR_IMPOSSIBLE, sink->part.parameter,
                          "%s has %zu bytes; the region's part has %zu", what, bytes, room);
  }
  return true;
}

// A job without rows runs no kernel that writes. During a long job, the client could not unregister the region. A
// client that is gone may already reuse the memory.
static bool gpu_alone_writes(const struct job *job) {
  return job->result.device->backend->host_pin && job_lane_use(job) == VX_LANE_QUICK && job->work.counts.received > 0 &&
         job->tensor_layout.bytes > 0 && (!sinks_take_answer(job) || job->result.kind->frame) &&
         !atomic_load(job->spec.gone);
}

// A GPU writes in no fixed order, so overlapping parts are copied, in the order of the tensors. A part that overlaps
// the points is copied too, because a job that runs again needs the points.
static bool reach(struct job *job, int number) {
  const struct job_shared *shared = job->shared;
  struct sink *sink = &job->shared->sink[number];
  if (!region_device_ptr(&sink->part, bytes_of(job, sink), job->result.device, true)) return false;
  for (int i = 0; i < number; i++)
    if (region_overlap(&sink->part, &shared->sink[i].part)) return false;
  return !region_overlap(&sink->part, &shared->source);
}

// Lets the GPU reach all sinks that get bytes, or none. Returns how many.
static int reach_all(struct job *job) {
  int reached = 0;
  bool all = gpu_alone_writes(job);
  for (int i = 0; all && i < job->shared->sinks; i++) {
    if (bytes_of(job, &job->shared->sink[i]) == 0) continue;
    all = reach(job, i);
    reached++;
  }
  if (all) return reached;
  for (int i = 0; i < job->shared->sinks; i++) region_device_release(&job->shared->sink[i].part);
  return 0;
}

// Tensors in regions need no room in the output.
char *sinks_reach(struct job *job) {
  struct job_shared *shared = job->shared;
  shared->in_place = reach_all(job);
  if (!shared->in_place) return NULL;
  if (sinks_take_answer(job)) return shared->sink[0].part.device_ptr;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) shared->output_ptrs[tensor] = NULL;
  for (int i = 0; i < shared->sinks; i++) shared->output_ptrs[shared->sink[i].tensor] = shared->sink[i].part.device_ptr;
  job->work.output_ptrs = shared->output_ptrs;
  vx_layout_pack(&job->tensor_layout, shared->output_ptrs);
  job->result.length = job->head_bytes + job->tensor_layout.bytes;
  return NULL;
}

// A client that is gone may already reuse the memory.
static bool commit(struct job *job, struct sink *sink, const char *data, size_t bytes) {
  if (atomic_load(job->spec.gone)) return error_refuse(&job->result.error, ERROR_DEADLINE, NULL, "the client is gone");
  job->shared->copied += !job->shared->in_place;
  return region_write(&sink->part, data, bytes, &job->result.error);
}

bool sinks_commit_tensors(struct job *job) {
  if (sinks_take_answer(job) || job->shared->in_place) return true;
  for (int i = 0; i < job->shared->sinks; i++) {
    struct sink *sink = &job->shared->sink[i];
    const char *tensors = job->held.output->data + job->head_bytes;
    if (!commit(job, sink, tensors + job->tensor_layout.offset[sink->tensor], bytes_of(job, sink))) return false;
  }
  return true;
}

bool sinks_commit_answer(struct job *job) {
  struct job_result *result = &job->result;
  size_t bytes = job->shared->in_place ? job->head_bytes : result->length;
  struct sink *sink = &job->shared->sink[0];
  if (!job->work.head && !(sinks_reserve(job) && commit(job, sink, job->held.output->data, bytes))) return false;
  result->answer.untimed = false;
  result->answer.region_bytes = result->length;
  result->answer.region_head = result->kind->frame ? job->head_bytes : 0;
  result->answer.total_ns = clock_ns() - job->spec.started_ns;
  result->kind = &answer_of_region;
  return true;
}

// ---- both -----------------------------------------------------------------------------------------------------------

bool shared_verify(struct job *job) {
  struct job_shared *shared = job->shared;
  bool good = region_verify(&shared->source);
  for (int i = 0; i < shared->sinks; i++) {
    good = region_verify(&shared->sink[i].part) && good;
    region_device_release(&shared->sink[i].part);
  }
  return good;
}

void shared_release(struct job *job) {
  region_close(&job->shared->source);
  for (int i = 0; i < job->shared->sinks; i++) region_close(&job->shared->sink[i].part);
  job->shared->sinks = 0;
}

void shared_count(const struct job *job) {
  struct regions *regions = job->services->regions;
  atomic_fetch_add(&regions->reached, (unsigned)job->shared->in_place + (source_rows(job) != NULL));
  atomic_fetch_add(&regions->copied, (unsigned)job->shared->copied);
}

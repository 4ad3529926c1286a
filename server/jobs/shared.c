// See shared.h.
#include "server/jobs/shared.h"

#include "server/base/clock.h"
#include "server/jobs/regions.h"

// The parameter by which an inference request names a region.
static const char of_tensor[] = "shared_memory_region", of_points[] = "points_region", of_answer[] = "output_region";

void shared_begin(struct job *job) {
  struct job_shared *shared = job->shared = &job->memory.shared;
  shared->points.region = NULL;
  shared->outputs_reached = shared->parts_in_place = shared->parts_copied = 0;
}

static const char *points_parameter(const struct job *job) { return job->infer ? of_tensor : of_points; }

static struct region_user user_of(const struct job *job) {
  return (struct region_user){job->client, job->spec.regions_registered};
}

// Whether the job may use regions at all. Which regions its client has, shows later.
static bool allow(const struct job *job, struct problem *problem) {
  return job_may_use_state(job, problem) && regions_allow(job->services->regions, job->spec.local, problem);
}

bool shared_read(void *cls, const struct region_ref *ref, char *out, struct problem *problem) {
  struct job *job = cls;
  job->shared->parts_copied += out != NULL;
  return allow(job, problem) &&
         regions_read(job->services->regions, user_of(job), ref, out, points_parameter(job), problem);
}

static bool check(struct job *job, const struct region_ref *ref, const char *parameter) {
  return allow(job, &job->result.problem) &&
         regions_read(job->services->regions, user_of(job), ref, NULL, parameter, &job->result.problem);
}

static bool is_shared(const struct job *job, int tensor) {
  return job->infer && job->infer->shared & VX_TENSOR_BIT(tensor);
}

bool shared_check_answer(struct job *job) {
  if (shared_has_answer(job) && !check(job, &job->asked.output_region, of_answer)) return false;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (is_shared(job, tensor) && !check(job, &job->infer->regions[tensor], of_tensor)) return false;
  return true;
}

static bool fits(struct job *job, const char *what, size_t bytes, const struct region_ref *ref, const char *parameter) {
  return bytes <= ref->bytes ||
         problem_set(&job->result.problem, PROBLEM_IMPOSSIBLE, parameter,
                     "%s has %zu bytes; the region's part has %llu", what, bytes, (unsigned long long)ref->bytes);
}

bool shared_fits(struct job *job) {
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (is_shared(job, tensor) && !fits(job, vx_tensor_name((enum vx_tensor)tensor), job->layout.shape[tensor].bytes,
                                        &job->infer->regions[tensor], of_tensor))
      return false;
  return !shared_has_answer(job) || fits(job, "the answer", job->result.length, &job->asked.output_region, of_answer);
}

// A client that is gone may use its memory for something else by now.
static bool put(struct job *job, const struct region_ref *ref, const char *data, size_t bytes, const char *parameter) {
  if (atomic_load(job->spec.gone))
    return problem_set(&job->result.problem, PROBLEM_DEADLINE, NULL, "the client is gone");
  return regions_fill(job->services->regions, user_of(job), ref, data, bytes, parameter, &job->result.problem);
}

// ---- without a copy -------------------------------------------------------------------------------------------------

// Whether the GPU will run the job, and nothing else touches its points: they are rows as they are.
static bool gpu_alone_reads(const struct job *job, const struct device *gpu) {
  struct vx_job work = job->asked.job;
  work.tensors = job_answer_kind(job)->tensors(&job->asked);
  return gpu && gpu->backend->host_pin && device_state(gpu) == DEVICE_WORKING && gpu->backend->runs(&work) &&
         job->asked.intensity_scale == 0 && !job->asked.stream.name[0];
}

// What may not be read, and more points than a body may have, is left to the copy, which is refused.
bool shared_reach_points(struct job *job, const struct region_ref *ref, const struct device *gpu) {
  struct regions *regions = job->services->regions;
  struct problem refusal;
  return ref->bytes <= job->services->max_body_bytes && allow(job, &refusal) && gpu_alone_reads(job, gpu) &&
         regions_reach(regions, user_of(job), ref, (size_t)ref->bytes, gpu, false, &job->shared->points);
}

// Whether the GPU writes all of the job's output. It does not for a job without rows. Jobs that sample take too long: a
// client that unregisters the region wants to use its memory for something else. So may a client that is gone by now.
static bool gpu_alone_writes(const struct job *job) {
  return job->result.device->backend->host_pin && job_lane_use(job) == VX_LANE_QUICK && job->work.counts.received > 0 &&
         job->layout.bytes > 0 && !atomic_load(job->spec.gone);
}

static void leave_outputs(struct job *job) {
  while (job->shared->outputs_reached > 0)
    regions_leave(job->services->regions, &job->shared->output[--job->shared->outputs_reached]);
}

// Where the GPU writes a part; NULL if that must be copied. Parts that overlap are: a GPU writes in no order, copies in
// that of the tensors. So is what overlaps the points, which a job that runs again still needs.
static char *reach_part(struct job *job, const struct region_ref *ref, size_t bytes) {
  struct reach *part = &job->shared->output[job->shared->outputs_reached];
  if (!regions_reach(job->services->regions, user_of(job), ref, bytes, job->result.device, true, part)) return NULL;
  bool apart = !regions_overlap(part, &job->shared->points);
  for (int i = 0; i < job->shared->outputs_reached; i++)
    apart = apart && !regions_overlap(part, &job->shared->output[i]);
  job->shared->outputs_reached++;
  return apart ? part->memory : NULL;
}

// All parts are reached, or none. Returns how many.
static int end_reaching(struct job *job, bool all) {
  if (!all) leave_outputs(job);
  return job->shared->outputs_reached;
}

int shared_reach_answer(struct job *job) {
  bool may = shared_has_answer(job) && job->result.kind->frame && gpu_alone_writes(job);
  return end_reaching(job, may && reach_part(job, &job->asked.output_region, job->result.length));
}

int shared_reach_tensors(struct job *job) {
  if (!job->infer || !job->infer->shared) return 0;
  bool all = gpu_alone_writes(job);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    bool there = job->layout.tensors & VX_TENSOR_BIT(tensor) && job->layout.shape[tensor].bytes > 0;
    job->shared->places[tensor] = NULL;
    if (!all || !there || !is_shared(job, tensor)) continue;
    job->shared->places[tensor] = reach_part(job, &job->infer->regions[tensor], job->layout.shape[tensor].bytes);
    all = job->shared->places[tensor];
  }
  return end_reaching(job, all);
}

bool shared_copy_points(struct job *job, char *out) {
  job->shared->parts_copied++;
  return regions_copy(&job->shared->points, out, points_parameter(job), &job->result.problem);
}

bool shared_held(struct job *job) {
  struct regions *regions = job->services->regions;
  bool held = regions_hold(regions, &job->shared->points);
  for (int i = 0; i < job->shared->outputs_reached; i++) held = regions_hold(regions, &job->shared->output[i]) && held;
  leave_outputs(job);
  return held;
}

void shared_leave(struct job *job) {
  if (!job->shared) return;
  regions_leave(job->services->regions, &job->shared->points);
  leave_outputs(job);
}

// ---- copies ---------------------------------------------------------------------------------------------------------

bool shared_put_tensors(struct job *job) {
  const struct vx_layout *layout = &job->layout;
  const char *tensors = job->held.output->data + job->head_bytes;
  if (job->shared->parts_in_place) return true;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor)) || !is_shared(job, tensor)) continue;
    if (!put(job, &job->infer->regions[tensor], tensors + layout->offset[tensor], layout->shape[tensor].bytes,
             of_tensor))
      return false;
    job->shared->parts_copied++;
  }
  return true;
}

bool shared_put(struct job *job) {
  struct answer *answer = &job->result.answer;
  size_t bytes = job->shared->parts_in_place ? job->head_bytes : job->result.length;
  if (!shared_fits(job) || !put(job, &job->asked.output_region, job->held.output->data, bytes, of_answer)) return false;
  job->shared->parts_copied += !job->shared->parts_in_place;
  answer->region_bytes = job->result.length;
  answer->total_ns = clock_ns() - job->spec.started_ns;
  job->result.kind = &answer_of_region;
  return true;
}

void shared_count(const struct job *job) {
  struct regions *regions = job->services->regions;
  atomic_fetch_add(&regions->reached, (unsigned)job->shared->parts_in_place + (job->shared->points.region != NULL));
  atomic_fetch_add(&regions->copied, (unsigned)job->shared->parts_copied);
}

// See shared.h.
#include "server/jobs/shared.h"

#include "server/base/clock.h"
#include "server/jobs/regions.h"

// The parameter by which an inference request names a region.
static const char of_tensor[] = "shared_memory_region", of_points[] = "points_region", of_answer[] = "output_region";

static const char *points_parameter(const struct job *job) { return job->infer.model ? of_tensor : of_points; }

static struct region_user user_of(const struct job *job) {
  return (struct region_user){job->client, job->regions_registered};
}

// Whether the job may use regions at all. Which regions its client has, shows later.
static bool allow(const struct job *job, struct problem *problem) {
  return job_may_use_state(job, problem) && regions_allow(job->means->regions, job->local, problem);
}

bool shared_read(void *cls, const struct region_ref *ref, char *out, struct problem *problem) {
  struct job *job = cls;
  job->parts_copied += out != NULL;
  return allow(job, problem) &&
         regions_read(job->means->regions, user_of(job), ref, out, points_parameter(job), problem);
}

static bool check(struct job *job, const struct region_ref *ref, const char *parameter) {
  return allow(job, &job->problem) &&
         regions_read(job->means->regions, user_of(job), ref, NULL, parameter, &job->problem);
}

static bool is_shared(const struct job *job, int tensor) {
  return job->infer.model && job->infer.shared & VX_TENSOR_BIT(tensor);
}

bool shared_check_answer(struct job *job) {
  if (shared_has_answer(job) && !check(job, &job->asked.output_region, of_answer)) return false;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (is_shared(job, tensor) && !check(job, &job->infer.regions[tensor], of_tensor)) return false;
  return true;
}

static bool fits(struct job *job, const char *what, size_t bytes, const struct region_ref *ref, const char *parameter) {
  return bytes <= ref->bytes ||
         problem_set(&job->problem, PROBLEM_IMPOSSIBLE, parameter, "%s has %zu bytes; the region's part has %llu", what,
                     bytes, (unsigned long long)ref->bytes);
}

bool shared_fits(struct job *job) {
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (is_shared(job, tensor) && !fits(job, vx_tensor_name((enum vx_tensor)tensor), job->layout.shape[tensor].bytes,
                                        &job->infer.regions[tensor], of_tensor))
      return false;
  return !shared_has_answer(job) || fits(job, "the answer", job->output_length, &job->asked.output_region, of_answer);
}

// A client that is gone may use its memory for something else by now.
static bool put(struct job *job, const struct region_ref *ref, const char *data, size_t bytes, const char *parameter) {
  if (atomic_load(job->gone)) return problem_set(&job->problem, PROBLEM_DEADLINE, NULL, "the client is gone");
  return regions_fill(job->means->regions, user_of(job), ref, data, bytes, parameter, &job->problem);
}

// ---- without a copy -------------------------------------------------------------------------------------------------

// Whether the GPU will run the job, and nothing else touches its points: they are rows as they are.
static bool gpu_alone_reads(const struct job *job, const struct device *gpu) {
  struct vx_job work = job->asked.job;
  work.tensors = job->kind->tensors(&job->asked);
  return gpu && gpu->backend->host_pin && device_state(gpu) == DEVICE_WORKING && gpu->backend->runs(&work) &&
         job->asked.intensity_scale == 0 && !job->asked.stream.name[0];
}

// What may not be read, and more points than a body may have, is left to the copy, which is refused.
bool shared_reach_points(struct job *job, const struct region_ref *ref, const struct device *gpu) {
  struct regions *regions = job->means->regions;
  struct problem refusal;
  return ref->bytes <= job->means->max_body_bytes && allow(job, &refusal) && gpu_alone_reads(job, gpu) &&
         regions_reach(regions, user_of(job), ref, (size_t)ref->bytes, gpu, false, &job->points_reach);
}

// Whether the GPU writes all of the job's output. It does not for a job without rows. Jobs that sample take too long: a
// client that unregisters the region wants to use its memory for something else. So may a client that is gone by now.
static bool gpu_alone_writes(const struct job *job) {
  return job->device->backend->host_pin && job_lane_use(job) == VX_LANE_QUICK && job->work.counts.received > 0 &&
         job->layout.bytes > 0 && !atomic_load(job->gone);
}

static void leave_outputs(struct job *job) {
  while (job->outputs_reached > 0) regions_leave(job->means->regions, &job->output_reach[--job->outputs_reached]);
}

// Where the GPU writes a part; NULL if that must be copied. Parts that overlap are: a GPU writes in no order, copies in
// that of the tensors. So is what overlaps the points, which a job that runs again still needs.
static char *reach_part(struct job *job, const struct region_ref *ref, size_t bytes) {
  struct reach *part = &job->output_reach[job->outputs_reached];
  if (!regions_reach(job->means->regions, user_of(job), ref, bytes, job->device, true, part)) return NULL;
  bool apart = !regions_overlap(part, &job->points_reach);
  for (int i = 0; i < job->outputs_reached; i++) apart = apart && !regions_overlap(part, &job->output_reach[i]);
  job->outputs_reached++;
  return apart ? part->memory : NULL;
}

// All parts are reached, or none. Returns how many.
static int end_reaching(struct job *job, bool all) {
  if (!all) leave_outputs(job);
  return job->outputs_reached;
}

int shared_reach_answer(struct job *job) {
  bool may = shared_has_answer(job) && job->kind->frame && gpu_alone_writes(job);
  return end_reaching(job, may && reach_part(job, &job->asked.output_region, job->output_length));
}

int shared_reach_tensors(struct job *job) {
  if (!job->infer.model || !job->infer.shared) return 0;
  bool all = gpu_alone_writes(job);
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    bool there = job->layout.tensors & VX_TENSOR_BIT(tensor) && job->layout.shape[tensor].bytes > 0;
    job->places[tensor] = NULL;
    if (!all || !there || !is_shared(job, tensor)) continue;
    job->places[tensor] = reach_part(job, &job->infer.regions[tensor], job->layout.shape[tensor].bytes);
    all = job->places[tensor];
  }
  return end_reaching(job, all);
}

bool shared_copy_points(struct job *job, char *out) {
  job->parts_copied++;
  return regions_copy(&job->points_reach, out, points_parameter(job), &job->problem);
}

bool shared_held(struct job *job) {
  struct regions *regions = job->means->regions;
  bool held = regions_hold(regions, &job->points_reach);
  for (int i = 0; i < job->outputs_reached; i++) held = regions_hold(regions, &job->output_reach[i]) && held;
  leave_outputs(job);
  return held;
}

void shared_leave(struct job *job) {
  regions_leave(job->means->regions, &job->points_reach);
  leave_outputs(job);
}

// ---- copies ---------------------------------------------------------------------------------------------------------

bool shared_put_tensors(struct job *job) {
  const struct vx_layout *layout = &job->layout;
  const char *tensors = job->output->data + job->header_reserve;
  if (job->parts_in_place) return true;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor)) || !is_shared(job, tensor)) continue;
    if (!put(job, &job->infer.regions[tensor], tensors + layout->offset[tensor], layout->shape[tensor].bytes,
             of_tensor))
      return false;
    job->parts_copied++;
  }
  return true;
}

bool shared_put(struct job *job) {
  struct answer *answer = &job->answer;
  size_t bytes = job->parts_in_place ? job->header_reserve : job->output_length;
  if (!shared_fits(job) || !put(job, &job->asked.output_region, job->output->data, bytes, of_answer)) return false;
  job->parts_copied += !job->parts_in_place;
  answer->region_bytes = job->output_length;
  answer->total_ns = clock_ns() - job->started_ns;
  job->kind = &answer_of_region;
  job->answer_coding = CODING_NONE;
  return true;
}

void shared_count(const struct job *job) {
  struct regions *regions = job->means->regions;
  atomic_fetch_add(&regions->reached, (unsigned)job->parts_in_place + (job->points_reach.region != NULL));
  atomic_fetch_add(&regions->copied, (unsigned)job->parts_copied);
}

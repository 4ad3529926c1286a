// See shared.h.
#include "server/jobs/shared.h"

#include "server/base/clock.h"
#include "server/jobs/points.h"
#include "server/jobs/regions.h"

static bool take_points(struct job *job) {
  const struct region_ref *ref = &job->asked.points_region;
  struct regions *regions = job->means->regions;
  if (!regions_read(regions, job->client, ref, NULL, "points_region", &job->problem)) return false;
  if (ref->bytes == 0) return true;
  if (!points_take_rows(job, (size_t)ref->bytes)) return false;
  if (!regions_read(regions, job->client, ref, job->rows->data, "points_region", &job->problem)) return false;
  job_keep_rows(job);
  job->input_bytes = (int64_t)ref->bytes;
  return true;
}

bool shared_open(struct job *job) {
  const struct job_request *asked = &job->asked;
  struct regions *regions = job->means->regions;
  if (shared_has_answer(job) &&
      !regions_read(regions, job->client, &asked->output_region, NULL, "output_region", &job->problem))
    return false;
  return !asked->points_region.name[0] || take_points(job);
}

bool shared_fits(struct job *job, size_t bytes) {
  uint64_t room = job->asked.output_region.bytes;
  return !shared_has_answer(job) || bytes <= room ||
         problem_set(&job->problem, PROBLEM_IMPOSSIBLE, "output_region",
                     "the answer has %zu bytes; output_region has room for %llu", bytes, (unsigned long long)room);
}

bool shared_put(struct job *job) {
  const struct region_ref *ref = &job->asked.output_region;
  struct answer *answer = &job->answer;
  if (atomic_load(job->gone))  // it may use the memory for something else by now
    return problem_set(&job->problem, PROBLEM_DEADLINE, NULL, "the client is gone");
  if (!shared_fits(job, job->output_length) || !regions_fill(job->means->regions, job->client, ref, job->output->data,
                                                             job->output_length, "output_region", &job->problem))
    return false;
  answer->region_bytes = job->output_length;
  answer->total_ns = clock_ns() - job->started_ns;
  job->kind = &answer_of_region;
  job->answer_coding = CODING_NONE;
  return true;
}
